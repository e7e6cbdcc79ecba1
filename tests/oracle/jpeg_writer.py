"""Writes sequential and progressive JPEG files from quantised coefficients, also kinds that no ordinary encoder makes.

A file is described by its components' sampling factors and blocks; nothing is computed from pixels, so any coefficient,
table and scan structure is possible. The Huffman codes are not fitted to the data (except for the two smallest symbols,
all have the same length), which makes the files larger than necessary and the writer short.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[np.int32]  # [block rows, block columns, 64], zigzag order
NO_CODE = -1  # instead of a table: bits without a symbol before them


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
    """The input of `encode`. `scans` lists component indices; None is one interleaved scan of all.

    `encode_progressive` takes a script instead.
    """

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
    """Returns a component's blocks along one side: (in a scan of its own, in interleaved scans)."""
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
    """Returns (table class, symbol, magnitude bits, their number) of one block."""
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
    """Returns the MCUs of a scan, each a list of (index in the scan, block)."""
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
    return out + _pack(segments, tables)


def _pack(segments: Sequence[Sequence[tuple[int, int, int, int]]], tables: Sequence[_HuffmanTable]) -> bytes:
    """Returns the entropy-coded data: (table or NO_CODE, symbol, bits after its code, their number), per restart."""
    out = b""
    for number, part in enumerate(segments):
        if number:
            out += bytes([0xFF, 0xD0 + (number - 1) % 8])
        digits = []
        for table, symbol, bits, size in part:
            code, code_length = (0, 0) if table == NO_CODE else tables[table].codes[symbol]
            digits.append(format(1 << code_length + size | code << size | bits, "b")[1:])
        text = "".join(digits)
        text += "1" * (-len(text) % 8)
        out += int("0" + text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\x00")
    return out


def _header(file: JpegFile, frame_marker: int) -> bytes:
    """Returns everything before the tables of the first scan."""
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
    out += segment(frame_marker, frame)
    return out + (segment(0xDD, struct.pack(">H", file.restart_interval)) if file.restart_interval else b"")


def encode(file: JpegFile, *, long_codes: bool = False) -> bytes:
    """Returns the file's bytes. `long_codes` gives every symbol a code of 16 bits."""
    out = _header(file, file.frame_marker)
    for scan in file.scans or [range(len(file.components))]:
        out += _encode_scan(file, list(scan), long_codes)
    return out + b"\xff\xd9"


@dataclass(frozen=True)
class BandScan:
    """One scan of a progressive file: components by index, zigzag positions both included, Ah and Al of T.81."""

    components: tuple[int, ...]
    start: int
    end: int
    high: int
    low: int


class _BandWriter:
    """The symbols of an AC scan. A run of blocks with equal ends is written when it has `longest_run` blocks."""

    def __init__(self, scan: BandScan, longest_run: int) -> None:
        self.scan = scan
        self.longest_run = longest_run
        self.symbols: list[tuple[int, int, int, int]] = []
        self.run = 0
        self.run_corrections: list[int] = []

    def end_run(self) -> None:
        if self.run:
            length = self.run.bit_length() - 1
            self.symbols.append((1, length << 4, self.run - (1 << length), length))
            self._put_bits(self.run_corrections)
        self.run, self.run_corrections = 0, []

    def _put_bits(self, bits: Sequence[int]) -> None:
        self.symbols += [(NO_CODE, 0, bit, 1) for bit in bits]

    def _put(self, symbol: int, bits: int, size: int, corrections: Sequence[int]) -> None:
        self.end_run()
        self.symbols.append((1, symbol, bits, size))
        self._put_bits(corrections)

    def add(self, block: NDArray[np.int32]) -> None:
        band = block[self.scan.start : self.scan.end + 1]
        magnitudes = (np.abs(band) >> self.scan.low).tolist()
        zeros, corrections = (self._refine if self.scan.high else self._first)(band.tolist(), magnitudes)
        if zeros or corrections:
            self.run += 1
            self.run_corrections += corrections
            if self.run == self.longest_run:
                self.end_run()

    def _first(self, band: list[int], magnitudes: list[int]) -> tuple[int, list[int]]:
        zeros = 0
        for value, magnitude in zip(band, magnitudes, strict=True):
            if magnitude == 0:
                zeros += 1
                continue
            while zeros > 15:
                self._put(0xF0, 0, 0, [])
                zeros -= 16
            size, bits = _magnitude(magnitude if value > 0 else -magnitude)
            self._put(zeros << 4 | size, bits, size, [])
            zeros = 0
        return zeros, []

    def _refine(self, band: list[int], magnitudes: list[int]) -> tuple[int, list[int]]:
        last_new = max((k for k, magnitude in enumerate(magnitudes) if magnitude == 1), default=-1)
        zeros, corrections = 0, []
        for k, (value, magnitude) in enumerate(zip(band, magnitudes, strict=True)):
            if magnitude == 0:
                zeros += 1
                continue
            while zeros > 15 and k <= last_new:
                self._put(0xF0, 0, 0, corrections)
                zeros, corrections = zeros - 16, []
            if magnitude > 1:
                corrections.append(magnitude & 1)
            else:
                self._put(zeros << 4 | 1, int(value > 0), 1, corrections)
                zeros, corrections = 0, []
        return zeros, corrections


def _dc_symbols(scan: BandScan, mcus: Sequence[Sequence[tuple[int, NDArray[np.int32]]]]) -> list[tuple[int, ...]]:
    predictions = [0] * len(scan.components)
    symbols = []
    for index, block in (pair for mcu in mcus for pair in mcu):
        value = int(block[0]) >> scan.low
        if scan.high:
            symbols.append((NO_CODE, 0, value & 1, 1))
        else:
            size, bits = _magnitude(value - predictions[index])
            predictions[index] = value
            symbols.append((0, size, bits, size))
    return symbols


def _encode_band_scan(file: JpegFile, scan: BandScan, long_codes: bool, longest_run: int) -> bytes:
    mcus = _scan_blocks(file, scan.components)
    interval = file.restart_interval or len(mcus)
    segments = []
    for first in range(0, len(mcus), interval):
        part = mcus[first : first + interval]
        if scan.start == 0:
            segments.append(_dc_symbols(scan, part))
            continue
        writer = _BandWriter(scan, longest_run)
        for mcu in part:
            writer.add(mcu[0][1])
        writer.end_run()
        segments.append(writer.symbols)
    tables = [_HuffmanTable([*{s[1] for part in segments for s in part if s[0] == c}], long_codes) for c in (0, 1)]
    used = 0 if scan.start == 0 else 1
    out = b"" if scan.start == 0 and scan.high else segment(0xC4, bytes([used << 4]) + tables[used].payload)
    parameters = b"".join(bytes([file.components[c].number, 0x00]) for c in scan.components)
    band = bytes([scan.start, scan.end, scan.high << 4 | scan.low])
    out += segment(0xDA, bytes([len(scan.components)]) + parameters + band)
    return out + _pack(segments, tables)


def encode_progressive(
    file: JpegFile, script: Sequence[BandScan], *, long_codes: bool = False, longest_run: int = 32767
) -> bytes:
    """Returns a progressive file with the scans of `script`, legal or not.

    `longest_run` is the largest number of blocks that one end of band stands for, at most 32767.
    """
    scans = [_encode_band_scan(file, scan, long_codes, longest_run) for scan in script]
    return _header(file, 0xC2) + b"".join(scans) + b"\xff\xd9"


def random_script(
    rng: np.random.Generator, component_count: int, *, highest_shift: int = 3, together: bool | None = None
) -> list[BandScan]:
    """Returns a legal script that completes all coefficients: bands, shifts and order at random.

    `together` says whether the first DC scan is interleaved; None leaves that to chance as well.
    """
    unknown = -1
    levels = np.full((component_count, 64), unknown)
    together = bool(rng.random() < 0.5) if together is None else together
    script: list[BandScan] = []
    while (levels != 0).any():
        component = int(rng.choice(np.flatnonzero((levels != 0).any(1))))
        row = levels[component]
        if row[0] == unknown or (row[0] > 0 and rng.random() < 0.3):
            alike = [c for c in range(component_count) if levels[c, 0] == row[0]]
            if not together and rng.random() < 0.5:
                alike = [component]
            members, start, end = tuple(alike), 0, 0
        else:
            unfinished = np.flatnonzero(row[1:] != 0) + 1
            if not len(unfinished):
                continue
            members, start = (component,), int(unfinished[0] if rng.random() < 0.7 else rng.choice(unfinished))
            alike_end = start + int(np.flatnonzero([*(row[start:] != row[start]), True])[0]) - 1
            end = alike_end if rng.random() < 0.7 else int(rng.integers(start, alike_end + 1))
        level = int(row[start])
        low = int(rng.integers(0, highest_shift + 1)) if level == unknown else level - 1
        script.append(BandScan(members, start, end, 0 if level == unknown else level, low))
        levels[np.array(members), start : end + 1] = low
    return script


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
    """Returns a file of random coefficients, `size` = (width, height), one (horizontal, vertical) per component."""
    largest_h = max(h for h, _ in factors)
    largest_v = max(v for _, v in factors)
    components = []
    for number, (h, v) in zip(numbers, factors, strict=False):
        shape = (grid(size[1], v, largest_v)[1], grid(size[0], h, largest_h)[1], 64)
        values = rng.integers(-ac_range, ac_range + 1, shape)
        kept = rng.random(shape) < density * (1 + 3 * (rng.random(shape[:2]) < 0.3)[..., None])
        kept &= rng.random((*shape[:2], 1)) > 0.15  # some blocks have only DC
        blocks = np.where(kept, values, 0).astype(np.int32)
        blocks[..., 0] = rng.integers(-dc_range, dc_range + 1, shape[:2])
        components.append(Component(number, h, v, blocks, 0 if number == numbers[0] else 1))
    tables = [rng.integers(1, largest_step + 1, 64).astype(np.int32) for _ in range(2)]
    return JpegFile(size[0], size[1], components, tables)
