"""With the native opener every program gives what it gives with Pillow alone: pixels, attributes, warnings, errors."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from comparison import assert_same
from corpora_files import corpora_root, manifest_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jpeg_kinds import KINDS
from PIL import Image, ImageFilter
from programs import PROGRAMS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, kind: str) -> None:
    assert_same(KINDS[kind], PROGRAMS[name], (name, kind))


def test_programs_of_files(tmp_path: Path) -> None:
    """Opens by path: Pillow closes the file, and quotes its name."""
    for kind, data in KINDS.items():
        path = tmp_path / f"{kind}.jpg"
        path.write_bytes(data)
        for name in ("load", "convert RGB", "crop", "closed", "with", "behind with", "pickle of opened", "draft"):
            assert_same(path, PROGRAMS[name], (name, kind))


def _files() -> list[Path]:
    root = corpora_root()
    if root is None:
        return []
    return [*(row.path for row in manifest_rows()), *sorted((root / "imagenet64").rglob("*.JPEG"))]


@pytest.mark.skipif(corpora_root() is None, reason="no corpora")
@pytest.mark.parametrize("part", range(12))
def test_programs_of_corpora(part: int) -> None:
    """Runs a few programs on each file, and each program on many files."""
    choose = random.Random(part)
    for path in _files()[part::12]:
        for name in choose.sample(sorted(PROGRAMS), 4):
            assert_same(path, PROGRAMS[name], (name, path))


_STEPS = st.one_of(
    st.tuples(st.just("convert"), st.sampled_from(["RGB", "L", "RGBA", "P", None])),
    st.tuples(st.just("crop"), st.tuples(*[st.floats(-0.1, 1.1)] * 4), st.booleans()),
    st.tuples(st.just("resize"), st.integers(0, 90), st.integers(1, 90), st.sampled_from([*range(6), None, 9])),
    st.tuples(st.just("transpose"), st.integers(0, 7)),
    st.tuples(st.sampled_from(["copy", "load", "tobytes", "getpixel", "putpixel", "point", "rotate", "filter"])),
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(KINDS)), st.lists(_STEPS, min_size=1, max_size=8))
def test_sequences(kind: str, steps: list[tuple[object, ...]]) -> None:
    def program(image: Image.Image) -> list[object]:
        results: list[object] = []
        for step in steps:
            image = _apply(image, step, results)
        return [*results, image]

    assert_same(KINDS[kind], program, (kind, steps))


def _apply(image: Image.Image, step: tuple[object, ...], results: list[object]) -> Image.Image:
    name, *arguments = step
    if name == "crop":
        edges, is_list = arguments
        width, height = image.size
        box = [int(edge * side) for edge, side in zip(edges, (width, height, width, height), strict=True)]  # type: ignore[call-overload]
        return image.crop(box if is_list else tuple(box))  # type: ignore[arg-type]
    if name == "resize":
        width, height, resample = arguments
        return image.resize((width, height), resample)  # type: ignore[arg-type]
    if name == "load":
        results.append(image.load()[0, 0])  # type: ignore[index]
    elif name == "tobytes":
        results.append(image.tobytes())
    elif name == "getpixel":
        results.append(image.getpixel((0, 0)))
    elif name == "putpixel":
        image.putpixel((0, 0), 0)
    elif name == "point":
        return image.point(lambda value: value // 2)
    elif name == "rotate":
        return image.rotate(33)
    elif name == "filter":
        return image.filter(ImageFilter.BLUR)
    else:
        return getattr(image, str(name))(*arguments)  # type: ignore[no-any-return]
    return image
