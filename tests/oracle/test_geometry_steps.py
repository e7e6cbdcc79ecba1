"""Padding, vertical flips and results of any size against torchvision on PIL images, byte for byte."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torchvision_shim  # noqa: F401
from native_steps import IMAGES, Step, always, make_plan, noise, run_steps
from PIL import Image
from torchvision.transforms import functional as F

from fastload import _core

MODES = ("constant", "edge", "reflect", "symmetric")
PADDINGS = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 2, 0, 0), (0, 0, 3, 0), (0, 0, 0, 4), (4, 4, 4, 4), (7, 1, 0, 30)]
FILLS = [(0, 0, 0), (255, 255, 255), (1, 200, 30)]

every_image = pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES.keys())


def pad_step(padding: tuple[int, int, int, int], mode: str = "constant", fill: tuple[int, ...] = (0, 0, 0)) -> Step:
    left, top, right, bottom = padding
    return _core.Pad(left=left, top=top, right=right, bottom=bottom, padding_mode=mode, fill=fill)


def vflip_step() -> Step:
    return _core.RandomVerticalFlip(probability=1.0)


def center_crop_step(height: int, width: int) -> Step:
    return _core.CenterCrop(height=height, width=width)


def resize_step(height: int, width: int) -> Step:
    return _core.Resize(height=height, width=width, interpolation="bilinear")


@every_image
@pytest.mark.parametrize("mode", MODES)
def test_padding_equals_torchvision(mode: str, image: Image.Image) -> None:
    for padding, fill in itertools.product(PADDINGS, FILLS if mode == "constant" else FILLS[:1]):
        expected = F.pad(image, list(padding), fill, mode).tobytes()
        assert run_steps([pad_step(padding, mode, fill)], image) == expected, (padding, fill)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
def test_padding_wider_than_the_image_equals_torchvision(mode: str) -> None:
    for width, height, amount in itertools.product((1, 2, 3, 5), (1, 2, 4), (1, 2, 3, 7, 20)):
        image = noise(width, height)
        expected = F.pad(image, [amount, 2 * amount, amount + 1, 3], padding_mode=mode).tobytes()
        step = pad_step((amount, 2 * amount, amount + 1, 3), mode)
        assert run_steps([step], image) == expected, (width, height, amount)


@every_image
def test_a_vertical_flip_and_no_steps_equal_torchvision(image: Image.Image) -> None:
    assert run_steps([vflip_step()], image) == F.vflip(image).tobytes()
    assert run_steps([], image) == image.tobytes()


def test_a_plan_of_variable_size_says_so_and_others_do_not() -> None:
    decoder = _core.SampleDecoder(max_file_bytes=1, max_pixels=1 << 20, native_jpeg=True)
    variable = make_plan([pad_step((1, 2, 3, 4))])
    assert variable.sample_bytes is None
    for steps in (
        [center_crop_step(5, 6), pad_step((1, 2, 3, 4))],
        [center_crop_step(11, 10), vflip_step(), _core.ApplyOp(op=_core.Rotate180(), probability=0.5)],
        [resize_step(10, 11), always(_core.Rotate270())],
    ):
        fixed = make_plan(steps, allow_variable_size=False)
        pixels = decoder.run_pixels(bytes(3 * 12 * 13), 12, 13, fixed, _core.CounterDraws(0, 0, 0))
        assert (pixels.shape, fixed.sample_bytes) == ((11, 10, 3), 330)
        assert make_plan(steps).sample_bytes == 330


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [pad_step((1, 2, 3, 4))],
        [vflip_step()],
        [center_crop_step(5, 6), _core.ApplyOp(op=_core.Rotate90(), probability=0.5)],
        [_core.RandomApply(probability=0.5, family="v1", steps=[(1, center_crop_step(5, 6))])],
    ],
)
def test_a_size_that_depends_on_the_image_or_on_a_draw_must_be_allowed(steps: list[Step]) -> None:
    with pytest.raises(ValueError, match="steps must end in an image of fixed size"):
        make_plan(steps, allow_variable_size=False)
    assert make_plan(steps).sample_bytes is None


def test_an_engine_refuses_a_plan_of_variable_size() -> None:
    engine = _core.Engine(num_threads=1, max_free_buffers=1, max_file_bytes=1, max_pixels=1, native_jpeg=True)
    index = _core.SampleIndex(np.zeros(1, np.uint8), np.array([0, 1], np.int64))
    with pytest.raises(ValueError, match="plan must give samples of one size"):
        engine.open_iteration(index, [make_plan([])], 0, 0)
    assert engine.close(10.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pad_step((-1, 0, 0, 0)), r"left must be in 0\.\.65535, got -1"),
        (lambda: pad_step((0, 0, 0, 70000)), r"bottom must be in 0\.\.65535, got 70000"),
        (lambda: pad_step((0, 0, 0, 0), "wrap"), "padding_mode must be one of .*\"symmetric\", got 'wrap'"),
        (lambda: _core.RandomVerticalFlip(probability=-0.5), r"probability must be in \[0, 1\], got -0\.5"),
    ],
)
def test_bad_arguments_name_argument_value_and_what_is_allowed(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_steps_are_compared_and_shown_by_their_arguments() -> None:
    step = resize_step(5, 6)
    assert step == resize_step(5, 6)
    assert step != resize_step(5, 7)
    assert step != center_crop_step(5, 6)
    assert repr(step) == "Resize(height=5, width=6, interpolation='bilinear')"
    nested = [_core.RandomApply(probability=0.5, family="v2", steps=[(3, always(op))]) for op in (
        _core.Brightness(factor=0.5), _core.Brightness(factor=0.5), _core.Brightness(factor=0.25))]  # fmt: skip
    assert nested[0] == nested[1]
    assert nested[0] != nested[2]


def test_an_image_padded_beyond_the_limit_is_refused() -> None:
    steps = [pad_step((65535, 0, 65535, 0))] * 9
    with pytest.raises(ValueError, match=r"a side of the padded image is not in 1\.\.1048576"):
        make_plan(steps).resolve(_core.CounterDraws(0, 0, 0), 10, 10)
