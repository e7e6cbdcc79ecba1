"""Records of a store changed so that all checks hold and the pixels are wrong, which takes the store's key."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

from fastload._decode_cache._store import look_at_store

_HEAD = struct.Struct("=QQQII")  # key: hash and length; bytes, rank
_CHECK = struct.Struct("=Q")
# revision, level, components, bytes of the scan, MCUs, rows
_PACKED_HEAD = struct.Struct("<BBBIII")
_ESCAPE, _RAW_BITS = 20, 36
# Fields in the head of coefficients: width, height, colour model, components, their factors; the first step of a first
# quantization table; the table of sums and offsets.
_STAMP_BYTES = 64
_COEFFICIENT_HEAD = struct.Struct("=iiBBBBB")
_STEP = struct.Struct("=H")
_STEP_OFFSET = 80
_TABLE_OFFSET = 464


def make_wrong(store: Path, image: Path) -> None:
    """Shifts all brightness that the index of `image` in `store` says alike."""

    def change(data: bytearray, begin: int, size: int) -> int:
        end = begin + size - _CHECK.size
        data[begin:end] = _shifted(bytes(data[begin:end]))
        return end

    _change_record(store, "index", image.read_bytes(), change)


def make_wrong_coefficients(store: Path, image: Path) -> None:
    """Multiplies the image's brightness by another number than its file says."""

    def change(data: bytearray, begin: int, size: int) -> int:
        _STEP.pack_into(data, begin + _STEP_OFFSET, _STEP.unpack_from(data, begin + _STEP_OFFSET)[0] + 3)
        return begin + _check_offset(data[begin : begin + _STEP_OFFSET])

    _change_record(store, "coefficients", os.fsencode(image.absolute()), change)


def _change_record(store: Path, kind: str, name: bytes, change: Callable[[bytearray, int, int], int]) -> None:
    """Changes the record of `name` and its check. `change` takes the file, the record's begin and size; it returns
    where the check begins.
    """
    cache = look_at_store(store).make_decode_cache(0)
    key = cache.key_of(name)
    for file in (store / "v1").glob(f"{kind}-*.dat"):
        data = bytearray(file.read_bytes())
        place = data.find(struct.pack("=QQQ", *key))
        if place >= 0:
            begin = place + _HEAD.size
            end = change(data, begin, _HEAD.unpack_from(data, place)[3])
            _CHECK.pack_into(data, end, cache.key_of(bytes(data[begin:end]))[0] ^ key[1])
            file.write_bytes(data)
            return
    raise AssertionError(f"there is no {kind} of {name!r} in {store}")


def _check_offset(head: bytes) -> int:
    """Returns the offset of the check of a record's head, after the sums of MCU rows and offsets of block rows."""
    width, height, _, num_components, *factors = _COEFFICIENT_HEAD.unpack_from(head, _STAMP_BYTES)
    block_rows = [factor & 15 for factor in factors[:num_components]]
    mcu_rows = -(-height // (8 * max(block_rows)))
    assert width > 0
    return -(-(_TABLE_OFFSET + 8 * mcu_rows + 4 * (mcu_rows * sum(block_rows) + 1)) // 8) * 8


def _shifted(packed: bytes) -> bytes:
    """Flips the highest low bit of the first checkpoint's first prediction, on which the others build."""
    num_components = _PACKED_HEAD.unpack_from(packed)[2]
    begin = _PACKED_HEAD.size + 1 + num_components
    of_position, of_prediction = packed[_PACKED_HEAD.size : _PACKED_HEAD.size + 2]
    assert of_prediction >= 2, "the lowest bit is the sign"
    bits = "".join(f"{byte:08b}" for byte in packed[begin:])
    place = bits.index("1") + 1 + of_position
    assert place <= _ESCAPE + 1 + of_position
    place = bits.index("1", place) + 1
    changed = bits[:place] + "10"[int(bits[place])] + bits[place + 1 :]
    return packed[:begin] + bytes(int(changed[i : i + 8], 2) for i in range(0, len(changed), 8))
