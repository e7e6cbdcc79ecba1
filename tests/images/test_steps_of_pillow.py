"""Steps with their own arithmetic, over sizes and arguments: the bytes equal Pillow's."""

from __future__ import annotations

import functools
import io
import random
from typing import Any

import numpy as np
import pytest
from comparison import assert_same, is_deferred, native_opener, needs_deferral
from hypothesis import given, settings
from hypothesis import strategies as st
from jpeg_kinds import jpeg
from PIL import Image, ImageFilter

from fastload._images._plain_forms import blur_op

_SIZES = [(1, 1), (1, 70), (70, 1), (2, 3), (7, 130), (63, 65), (64, 64), (129, 8), (150, 200)]
_RADII = [0, 0.0, 1e-30, 0.3, 0.5, 0.99, 1, 1.5, 2.7, 15, 63.5, 200, 65535, (0, 2.5), (2.5, 0), (0.7, 300)]
_BLURS = [ImageFilter.GaussianBlur, ImageFilter.BoxBlur]


@functools.cache
def _file(size: tuple[int, int], mode: str = "RGB") -> bytes:
    return jpeg(5, *size, mode=mode, quality=95)


def _opened(data: bytes) -> Any:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize("size", _SIZES, ids=str)
@pytest.mark.parametrize("kind", _BLURS)
def test_blurs(kind: Any, size: tuple[int, int]) -> None:
    for mode in ("RGB", "L"):
        for radius in _RADII:
            assert_same(_file(size, mode), lambda image, radius=radius: image.filter(kind(radius)), (mode, radius))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(_BLURS), st.sampled_from(_SIZES), st.tuples(st.floats(0, 300), st.floats(0, 4)))
def test_blurs_of_any_radius(kind: Any, size: tuple[int, int], radius: tuple[float, float]) -> None:
    assert_same(_file(size), lambda image: image.filter(kind(radius)), radius)


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_tables(mode: str) -> None:
    choose = random.Random(1)
    for size in _SIZES:
        table = [choose.randint(-99, 400) for _ in range(256 * len(mode))]
        for values in (table, tuple(table), [value / 3 for value in table], bytes(value % 256 for value in table)):
            assert_same(_file(size, mode), lambda image, values=values: image.point(values), (size, values))


def test_a_table_is_taken_as_it_was() -> None:
    def program(image: Any) -> Any:
        table = list(range(256)) * 3
        result = image.point(table)
        table[:] = [0] * 768
        return result

    assert_same(_file((7, 130)), program)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([*_SIZES, (3, 400), (400, 3)]),
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    st.sampled_from([1, 2, 3, 4, 5, 0]),
    st.tuples(*[st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))] * 4),
    st.sampled_from([float, int, lambda edge: round(edge * 4) / 4]),
    st.booleans(),
)
def test_boxes_of_resizes(
    size: tuple[int, int], after: tuple[int, int], resample: int, parts: Any, form: Any, has_size_of_box: bool
) -> None:
    """Takes any box inside the image, including empty ones, which Pillow refuses."""
    width, height = size
    left, right = sorted(parts[:2])
    top, bottom = sorted(parts[2:])
    box = (form(left * width), form(top * height), form(right * width), form(bottom * height))
    if has_size_of_box:
        after = (max(1, int(box[2] - box[0])), max(1, int(box[3] - box[1])))
    assert_same(_file(size), lambda image: image.resize(after, resample, box), (size, after, resample, box))


_COLORS = [None, 0, 7, 255, 256, (1, 2, 3), [1, 2, 3], (1, 2), (1, 2, 300), (4,), "red", 2.5, True]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(_SIZES),
    st.sampled_from(["RGB", "L"]),
    st.sampled_from([0, 2, 3]),
    st.one_of(st.floats(-400, 400), st.sampled_from([0, 45, 90, 180, 270, -360, 1e-9])),
    st.sampled_from([None, (3, 5.5), (0, 0)]),
    st.sampled_from([None, (0, 0), (5, -3.25)]),
    st.sampled_from(_COLORS),
)
def test_rotations(
    size: tuple[int, int], mode: str, resample: int, angle: float, center: Any, translate: Any, color: Any
) -> None:
    def program(image: Any) -> Any:
        return image.rotate(angle, resample, center=center, translate=translate, fillcolor=color)

    assert_same(_file(size, mode), program, (size, mode, resample, angle, center, translate, color))


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(_SIZES),
    st.sampled_from([0, 2, 3, 1, 9, True, Image.Resampling.BICUBIC]),
    st.lists(st.one_of(st.floats(-3, 3), st.floats(), st.integers(-200, 200)), min_size=5, max_size=8),
    st.sampled_from([list, tuple, np.array]),
    st.sampled_from(_COLORS),
)
def test_affine_transforms(size: tuple[int, int], resample: Any, numbers: list[Any], form: Any, color: Any) -> None:
    def program(image: Any) -> Any:
        return image.transform(image.size, Image.Transform.AFFINE, form(numbers), resample, fillcolor=color)

    assert_same(_file(size), program, (size, resample, numbers, form, color))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), st.floats(0, 0.9), st.floats(0, 0.9), st.integers(0, 40), st.integers(0, 30))
def test_crops_of_resized_boxes(resample: int, left: float, top: float, x: int, y: int) -> None:
    def program(image: Any) -> Any:
        resized = image.resize((60, 45), resample, (150 * left, 200 * top, 150, 200))
        return resized.crop((x, y, x + 9, y + 11))

    assert_same(_file((150, 200)), program, (resample, left, top, x, y))


_REMEMBERED = {
    "gaussian": lambda image: image.filter(ImageFilter.GaussianBlur(1.5)),
    "gaussian of two radii": lambda image: image.filter(ImageFilter.GaussianBlur((1, 2.5))),
    "box blur": lambda image: image.filter(ImageFilter.BoxBlur(2)),
    "list": lambda image: image.point(list(range(256)) * 3),
    "bytes": lambda image: image.point(bytes(768)),
    "function": lambda image: image.point(lambda value: value * 1.5),
    "box": lambda image: image.resize((9, 9), 3, (0, 0.5, 30, 40)),
    "box of a crop": lambda image: image.resize((9, 9), 0, box=(1, 2, 10, 11)),
    "no box": lambda image: image.resize((9, 9), 0, None, reducing_gap=None),
    "turn": lambda image: image.rotate(10),
    "turn around a corner": lambda image: image.rotate(10, 3, center=(0, 0), fillcolor=(1, 2, 3)),
    "shear": lambda image: image.transform(image.size, 0, [1, 0.3, 0, 0, 1, 0], 2, fill=0),
    "more numbers": lambda image: image.transform(image.size, 0, (1, 0, 3.5, 0, 1, 0, 8, 9)),
}
_NOT_REMEMBERED = {
    "negative": lambda image: image.filter(ImageFilter.GaussianBlur(-1)),
    "list of radii": lambda image: image.filter(ImageFilter.GaussianBlur([1, 2])),
    "median": lambda image: image.filter(ImageFilter.MedianFilter()),
    "bools": lambda image: image.point([True] * 768),
    "object": lambda image: image.point(float),
    "list of edges": lambda image: image.resize((9, 9), 3, [0, 0.5, 30, 40]),
    "nearest": lambda image: image.resize((9, 9), 0, (0, 0.5, 30, 40)),
    "gap": lambda image: image.resize((9, 9), 3, reducing_gap=2.0),
    "turn of another size": lambda image: image.rotate(10, expand=True),
    "named colour": lambda image: image.rotate(10, fillcolor="red"),
    "perspective": lambda image: image.transform(image.size, 2, (1, 0, 0, 0, 1, 0, 0, 0)),
    "array": lambda image: image.transform(image.size, 0, np.array([1, 0, 0, 0, 1, 0])),
    "any number": lambda image: image.transform(image.size, 0, (1, 0, 1e300, 0, 1, 0)),
}


@needs_deferral
@pytest.mark.parametrize("name", _REMEMBERED)
def test_plain_forms_are_remembered(name: str) -> None:
    with native_opener():
        image = _opened(_file((63, 65)))
        assert is_deferred(_REMEMBERED[name](image))
        assert is_deferred(image)


@pytest.mark.parametrize("name", _NOT_REMEMBERED)
def test_other_forms_are_pillows(name: str) -> None:
    with native_opener():
        image = _opened(_file((63, 65)))
        assert not is_deferred(_NOT_REMEMBERED[name](image))
        assert not is_deferred(image)


@pytest.mark.parametrize("radius", [float("inf"), float("nan"), 65536, 2**1100, (1, float("nan"))])
def test_blurs_that_reach_anywhere_are_pillows(radius: Any) -> None:
    """Does not run them: before 13, Pillow reads outside its memory for some."""
    assert blur_op(ImageFilter.GaussianBlur(1)) is not None
    assert blur_op(ImageFilter.GaussianBlur(radius)) is None
