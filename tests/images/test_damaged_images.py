"""Damaged files: every program gives what Pillow alone gives."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest
from comparison import assert_same
from corpora_files import corpora_root, manifest_rows
from jpeg_kinds import KINDS, jpeg
from jpeg_mutants import mutated
from PIL import Image
from programs import PROGRAMS

_LARGEST_BYTES = 60_000
_PROGRAMS = (
    *("convert RGB", "convert L", "convert twice", "load", "crop", "crop of crop", "gray of a resize", "tobytes"),
    *("copy", "functional", "numpy twice", "draft", "thumbnail", "transpose ROTATE_90", "in blocks", "truncated"),
)


def _in_blocks(image: Image.Image) -> Image.Image:
    image.decodermaxblock = 100  # type: ignore[attr-defined]
    return image.convert("RGB")


def _again(image: Image.Image) -> object:
    """Loads again: the second call on a broken file returns half of an image."""
    try:
        return image.convert("RGB")
    except OSError as error:
        return str(error), image.convert("RGB")


_OTHERS = {"in blocks": _in_blocks, "truncated": _again}


def assert_case(seed: int) -> None:
    """Runs three programs on a damaged file."""
    choose = random.Random(seed)
    data = mutated(_source(choose), choose)
    for name in choose.sample(_PROGRAMS, 3):
        assert_same(data, _OTHERS.get(name) or PROGRAMS[name], (seed, name))


def _source(choose: random.Random) -> bytes:
    files = _small_files()
    if files and choose.random() < 0.5:
        return choose.choice(files).read_bytes()
    if choose.random() < 0.3:
        return choose.choice(list(KINDS.values()))
    return jpeg(
        choose.getrandbits(20),
        choose.randint(1, 150),
        choose.randint(1, 150),
        choose.choice(["RGB", "RGB", "RGB", "L"]),
        quality=choose.choice([1, 30, 75, 95]),
        subsampling=choose.choice(["4:4:4", "4:2:2", "4:2:0"]),
        progressive=choose.random() < 0.4,
        optimize=choose.random() < 0.5,
        restart_marker_blocks=choose.choice([0, 0, 1, 5]),
    )


@functools.cache
def _small_files() -> list[Path]:
    """Returns JPEG files of the corpora."""
    if corpora_root() is None:
        return []
    paths = [row.path for row in manifest_rows() if row.pillow_format == "JPEG"]
    return [path for path in paths if 0 < path.stat().st_size <= _LARGEST_BYTES]


@pytest.mark.parametrize("part", range(6))
def test_damaged_files(part: int) -> None:
    for seed in range(part * 40, part * 40 + 40):
        assert_case(seed)
