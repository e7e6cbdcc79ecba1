"""Writes sequential JPEG files from quantised coefficients, also kinds that no ordinary encoder makes.

A file is described by its components' sampling factors and blocks; nothing is computed from pixels, so that any
coefficient, table and scan structure can be had. The Huffman codes are not fitted to the data (but for the two smallest
symbols, all have the same length), which makes the files larger than need be and the writer short.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.int32]  # [block rows, block columns, 64], zigzag order


@dataclass
class Component:
    """One component: `blocks` covers the whole grid of interleaved MCUs, padding included."""

    number: int
    horizontal: int
    vertical: int
    blocks: Blocks
    quantization: int = 0


@dataclass
class JpegFile:
    """What `encode` writes. `scans` lists component indices; None is one interleaved scan of all."""

    width: int
    height: int
    components: Sequence[Component]
    quantization: Sequence[NDArray[np.int32]]
    scans: Sequence[Sequence[int]] | None = None
    restart_interval: int = 0
    app_segments: Sequence[tuple[int, bytes]] = field(default_factory=list)
    sixteen_bit_tables: bool = False
    frame_marker: int = 0xC0


def grid(file_size: int, factor: int, largest: int) -> tuple[int, int]:
    """Blocks of a component along one side: (in a scan of its own, in interleaved scans)."""
    samples = -(-file_size * factor // largest)
    return -(-samples // 8), -(-file_size // (8 * largest)) * factor


def segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


class _HuffmanTable:
    """Codes for the symbols that occur: short for the first few, long (up to 16 bits) for the rest."""

    def __init__(self, symbols: Sequence[int], long_codes: bool) -> None:
        ordered = sorted(symbols)
        counts = [0] * 16
        if long_codes and len(ordered) <= 200:
            counts[15] = len(ordered)
        else:
            head = ordered[:2] if len(ordered) > 2 else []
            counts[2] = len(head)  # two codes of 3 bits leave room for 6/8 of the code space
            counts[8] += len(ordered) - len(head)  # at most 254 of 384 codes of 9 bits
        self.payload = bytes(counts) + bytes(ordered)
        self.codes: dict[int, tuple[int, int]] = {}
        code, index = 0, 0
        for length in range(1, 17):
            for _ in range(counts[length - 1]):
                self.codes[ordered[index]] = (code, length)
                code, index = code + 1, index + 1
            code <<= 1


def _magnitude(value: int) -> tuple[int, int]:
    size = abs(value).bit_length()
    return size, value if value > 0 else value + (1 << size) - 1


def _symbols(block: NDArray[np.int32], prediction: int) -> list[tuple[int, int, int, int]]:
    """(table class, symbol, magnitude bits, their number) of one block."""
    size, bits = _magnitude(int(block[0]) - prediction)
    out = [(0, size, bits, size)]
    run = 0
    positions = np.nonzero(block[1:])[0] + 1
    previous = 0
    for position in positions.tolist():
        run = position - previous - 1
        previous = position
        while run > 15:
            out.append((1, 0xF0, 0, 0))
            run -= 16
        size, bits = _magnitude(int(block[position]))
        out.append((1, run << 4 | size, bits, size))
    if previous != 63:
        out.append((1, 0x00, 0, 0))
    return out


def _scan_blocks(file: JpegFile, scan: Sequence[int]) -> list[list[tuple[int, NDArray[np.int32]]]]:
    """The MCUs of a scan, each a list of (index in the scan, block)."""
    largest_h = max(c.horizontal for c in file.components)
    largest_v = max(c.vertical for c in file.components)
    if len(scan) == 1:
        component = file.components[scan[0]]
        wide = grid(file.width, component.horizontal, largest_h)[0]
        high = grid(file.height, component.vertical, largest_v)[0]
        return [[(0, component.blocks[y, x])] for y in range(high) for x in range(wide)]
    mcus_wide = -(-file.width // (8 * largest_h))
    mcus_high = -(-file.height // (8 * largest_v))
    mcus = []
    for mcu_y in range(mcus_high):
        for mcu_x in range(mcus_wide):
            mcu = []
            for index, number in enumerate(scan):
                component = file.components[number]
                for y in range(component.vertical):
                    for x in range(component.horizontal):
                        block_y, block_x = mcu_y * component.vertical + y, mcu_x * component.horizontal + x
                        mcu.append((index, component.blocks[block_y, block_x]))
            mcus.append(mcu)
    return mcus


def _encode_scan(file: JpegFile, scan: Sequence[int], long_codes: bool) -> bytes:
    interval = file.restart_interval
    segments: list[list[tuple[int, int, int, int]]] = [[]]
    predictions = [0] * len(scan)
    for number, mcu in enumerate(_scan_blocks(file, scan)):
        if interval and number and number % interval == 0:
            segments.append([])
            predictions = [0] * len(scan)
        for index, block in mcu:
            segments[-1] += _symbols(block, predictions[index])
            predictions[index] = int(block[0])
    tables = [_HuffmanTable([*{s[1] for part in segments for s in part if s[0] == c}], long_codes) for c in (0, 1)]
    out = segment(0xC4, b"\x00" + tables[0].payload + b"\x10" + tables[1].payload)
    parameters = b"".join(bytes([file.components[c].number, 0x00]) for c in scan)
    out += segment(0xDA, bytes([len(scan)]) + parameters + b"\x00\x3f\x00")
    for number, part in enumerate(segments):
        if number:
            out += bytes([0xFF, 0xD0 + (number - 1) % 8])
        accumulator, length = 0, 0
        for table, symbol, bits, size in part:
            code, code_length = tables[table].codes[symbol]
            accumulator = (accumulator << code_length | code) << size | bits
            length += code_length + size
        padding = -length % 8
        accumulator = accumulator << padding | ((1 << padding) - 1)
        out += accumulator.to_bytes((length + padding) // 8, "big").replace(b"\xff", b"\xff\x00")
    return out


def encode(file: JpegFile, *, long_codes: bool = False) -> bytes:
    """The file's bytes. `long_codes` gives every symbol a code of 16 bits."""
    out = b"\xff\xd8"
    for marker, payload in file.app_segments:
        out += segment(marker, payload)
    for slot, table in enumerate(file.quantization):
        kind = ">u2" if file.sixteen_bit_tables else "u1"
        precision = 0x10 if file.sixteen_bit_tables else 0
        out += segment(0xDB, bytes([precision | slot]) + table.astype(kind).tobytes())
    frame = struct.pack(">BHHB", 8, file.height, file.width, len(file.components))
    for component in file.components:
        factors = component.horizontal << 4 | component.vertical
        frame += bytes([component.number, factors, component.quantization])
    out += segment(file.frame_marker, frame)
    if file.restart_interval:
        out += segment(0xDD, struct.pack(">H", file.restart_interval))
    for scan in file.scans or [range(len(file.components))]:
        out += _encode_scan(file, list(scan), long_codes)
    return out + b"\xff\xd9"


def random_file(
    rng: np.random.Generator,
    size: tuple[int, int],
    factors: Sequence[tuple[int, int]],
    *,
    dc_range: int = 120,
    ac_range: int = 12,
    density: float = 0.15,
    largest_step: int = 12,
    numbers: Sequence[int] = (1, 2, 3),
) -> JpegFile:
    """A file of random coefficients, `size` = (width, height), one (horizontal, vertical) per component."""
    largest_h = max(h for h, _ in factors)
    largest_v = max(v for _, v in factors)
    components = []
    for number, (h, v) in zip(numbers, factors, strict=False):
        shape = (grid(size[1], v, largest_v)[1], grid(size[0], h, largest_h)[1], 64)
        values = rng.integers(-ac_range, ac_range + 1, shape)
        kept = rng.random(shape) < density * (1 + 3 * (rng.random(shape[:2]) < 0.3)[..., None])
        kept &= rng.random((*shape[:2], 1)) > 0.15  # some blocks of DC alone
        blocks = np.where(kept, values, 0).astype(np.int32)
        blocks[..., 0] = rng.integers(-dc_range, dc_range + 1, shape[:2])
        components.append(Component(number, h, v, blocks, 0 if number == numbers[0] else 1))
    tables = [rng.integers(1, largest_step + 1, 64).astype(np.int32) for _ in range(2)]
    return JpegFile(size[0], size[1], components, tables)
