"""Shared helpers of the JPEG decoder's tests: Pillow's pixels, regions, sampling factors."""

from __future__ import annotations

import io
import os
import random
import struct
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from jpeg_mutants import mutated
from numpy.typing import NDArray
from PIL import Image

_core = pytest.importorskip("fastload._core")

Pixels = NDArray[np.uint8]
START_OF_JPEG = b"\xff\xd8\xff"
Factors = Sequence[tuple[int, int]]

SAMPLINGS: dict[str, Factors] = {
    "444": [(1, 1), (1, 1), (1, 1)],
    "422": [(2, 1), (1, 1), (1, 1)],
    "420": [(2, 2), (1, 1), (1, 1)],
    "440": [(1, 2), (1, 1), (1, 1)],
    "411": [(4, 1), (1, 1), (1, 1)],
    "gray": [(1, 1)],
}
# Forms that reduce to the same ratios, or mix them.
ODD_SAMPLINGS: dict[str, Factors] = {
    "444 as 2x2": [(2, 2), (2, 2), (2, 2)],
    "444 as 2x1": [(2, 1), (2, 1), (2, 1)],
    "444 as 1x2": [(1, 2), (1, 2), (1, 2)],
    "444 as 1x3": [(1, 3), (1, 3), (1, 3)],
    "422 as 2x2": [(2, 2), (1, 2), (1, 2)],
    "440 as 2x2": [(2, 2), (2, 1), (2, 1)],
    "420 as 2x4": [(2, 4), (1, 2), (1, 2)],
    "420 as 4x2": [(4, 2), (2, 1), (2, 1)],
    "mixed": [(2, 2), (2, 1), (1, 1)],
    "mixed other": [(2, 2), (1, 2), (2, 2)],
    "subsampled luma": [(1, 1), (2, 2), (2, 2)],
    "gray 2x2": [(2, 2)],
    "gray 3x1": [(3, 1)],
    "gray 4x4": [(4, 4)],
}
# All of them that one scan can hold: more than ten blocks in an MCU are not allowed (T.81 B.2.3).
IN_ONE_SCAN = {
    name: factors
    for name, factors in (SAMPLINGS | ODD_SAMPLINGS).items()
    if len(factors) == 1 or sum(h * v for h, v in factors) <= 10
}


def decode_with_pillow(data: bytes) -> Pixels:
    """Returns Pillow's pixels; raises what Pillow raises, and its warnings as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))


def picture(seed: int, width: int, height: int) -> Pixels:
    """Makes a picture of smooth areas and noise, so that blocks of all lengths follow each other."""
    numbers = np.random.default_rng(seed)
    small = numbers.integers(0, 256, (height // 12 + 2, width // 12 + 2, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    noise = numbers.integers(-40, 41, (height, width, 3)) * (numbers.random((height, width, 1)) < 0.3)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def noisy_pixels(rng: np.random.Generator, width: int, height: int, share: float = 0.3) -> Pixels:
    """Makes a smooth picture in which this share of the pixels is noise."""
    smooth = np.indices((height, width)).sum(0)[..., None] * [1, 2, 3] % 256
    noise = rng.integers(0, 256, (height, width, 3))
    return np.where(rng.random((height, width, 1)) < share, noise, smooth).astype(np.uint8)


def written_by_pillow(pixels: Pixels, **options: int | str) -> bytes:
    """Returns Pillow's JPEG; of the first channel for the subsampling "gray"."""
    if options.get("subsampling") == "gray":
        pixels, options = pixels[..., 0], {name: options[name] for name in options if name != "subsampling"}
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", **options)
    return buffer.getvalue()


def decode_natively(data: bytes, region: tuple[int, int, int, int] | None = None, **limits: int) -> Pixels:
    pixels, status, detail, offset, *_ = _core.decode_jpeg(data, region, **limits)
    assert status == "ok", f"{status}: {detail} at byte {offset}"
    assert isinstance(pixels, np.ndarray)
    return pixels


def random_region(rng: random.Random, width: int, height: int) -> tuple[int, int, int, int]:
    w, h = rng.randint(1, width), rng.randint(1, height)
    if rng.random() < 0.3:
        w, h = min(w, rng.randint(1, 9)), min(h, rng.randint(1, 9))
    return rng.randint(0, width - w), rng.randint(0, height - h), w, h


def crop(pixels: Pixels, region: tuple[int, int, int, int]) -> Pixels:
    left, top, width, height = region
    return pixels[top : top + height, left : left + width]


def assert_equals_pillow(data: bytes, rng: random.Random, regions: int, **limits: int) -> None:
    full = decode_natively(data, **limits)
    np.testing.assert_array_equal(full, decode_with_pillow(data))
    for _ in range(regions):
        region = random_region(rng, full.shape[1], full.shape[0])
        part = decode_natively(data, region, **limits)
        np.testing.assert_array_equal(part, crop(full, region), err_msg=str(region))


def check_hostile_file(data: bytes, rng: random.Random) -> bool:
    """Returns whether the decoder takes the file; asserts that it then has Pillow's pixels, also in a region."""
    pixels, status, *_ = _core.decode_jpeg(data, max_pixels=1 << 20)
    if status == "irregular":
        compare_regions_of_damaged_file(data, rng)
    if status != "ok":
        return False
    np.testing.assert_array_equal(pixels, decode_with_pillow(data))
    region = random_region(rng, pixels.shape[1], pixels.shape[0])
    region_pixels, region_status, *_ = _core.decode_jpeg(data, region)
    assert region_status == "ok"
    np.testing.assert_array_equal(region_pixels, crop(pixels, region))
    return True


def check_mutants(seeds: Sequence[bytes], seed: int, count: int, share: int) -> None:
    """Asserts that mutants of files, themselves taken, have Pillow's pixels if taken, as more than 1 in `share` is."""
    rng = random.Random(int(os.environ.get("FASTLOAD_HOSTILE_SEED", seed)))
    for data in seeds:
        assert_equals_pillow(data, rng, 3)
    count = int(os.environ.get("FASTLOAD_HOSTILE_FILES", count))
    taken = sum(check_hostile_file(mutated(seeds[number % len(seeds)], rng), rng) for number in range(count))
    assert taken > count // share


def frame_size(data: bytes) -> tuple[int, int]:
    """Returns width and height in the first frame header of a JPEG; (0, 0) if a walk over its segments finds none."""
    at = 2
    while data[at : at + 1] == b"\xff" and len(data) >= at + 9:
        code = data[at + 1]
        if 0xC0 <= code <= 0xCF and code not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 1 if code == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def compare_regions_of_damaged_file(data: bytes, rng: random.Random) -> None:
    """Asserts that Pillow agrees when an early stop accepts what a full decode does not."""
    width, height = frame_size(data)
    if not (0 < width < 200 and 0 < height < 200):
        return
    region = random_region(rng, width, height)
    try:
        pixels, status, *_ = _core.decode_jpeg(data, region)
    except ValueError:
        return  # another frame header counted
    if status == "ok":
        np.testing.assert_array_equal(pixels, crop(decode_with_pillow(data), region))
