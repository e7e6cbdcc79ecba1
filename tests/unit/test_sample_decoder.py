"""Single native samples: arrays of their own, Pillow's part, failures in words, and the position after their draws."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_folders import save_jpeg, synthetic_image
from PIL import Image
from torchvision import transforms

from fastload import _native
from fastload._workers._native_draws import uniform_rule, with_torch_exp
from fastload.transforms._lowering import lower_transform

NO_DRAWS = _native.CounterDraws(0, 0, 0)


def decoder(**limits: Any) -> _native.SampleDecoder:
    return _native.SampleDecoder(**{"max_file_bytes": 1 << 30, "max_pixels": 1 << 40, "native_jpeg": True, **limits})


def plan_of(*steps: Any, channels_last: bool, with_table: bool = False) -> tuple[_native.TransformPlan, torch.dtype]:
    lowered = lower_transform(transforms.Compose([*steps]))
    plan = _native.TransformPlan(
        with_torch_exp(lowered.steps),
        element_size=lowered.form.dtype.itemsize if with_table else 1,
        channels_last=channels_last,
        table=lowered.form.table if with_table else None,
        resize_order="pillow13",
    )
    return plan, lowered.form.dtype


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    save_jpeg(tmp_path / "photo.jpg", 5, 120, 90, subsampling="4:2:0")
    return tmp_path / "photo.jpg"


@pytest.mark.parametrize("channels_last", [False, True])
def test_bytes_are_those_of_pillow_in_the_plans_layout(photo: Path, channels_last: bool) -> None:
    plan, _ = plan_of(transforms.CenterCrop((40, 31)), transforms.PILToTensor(), channels_last=channels_last)
    pixels = decoder().run_file(bytes(photo), plan, NO_DRAWS)
    expected = np.asarray(transforms.CenterCrop((40, 31))(Image.open(photo)))
    assert isinstance(pixels, np.ndarray)
    assert np.array_equal(pixels, expected if channels_last else expected.transpose(2, 0, 1))


@pytest.mark.parametrize("step", [None, "mirrored", "turned"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_blue_comes_first_where_the_plan_says_so(photo: Path, channels_last: bool, step: str | None) -> None:
    steps: dict[str, _native.Step] = {
        "mirrored": _native.RandomHorizontalFlip(probability=None),
        "turned": _native.ApplyOp(op=_native.Rotate90(), probability=None),
    }
    blue_first = bytes(range(256)) + bytes(256) + bytes(256)  # a table for the channels of the result
    found = [
        decoder().run_file(
            bytes(photo),
            _native.TransformPlan(
                [] if step is None else [(0, steps[step])],
                element_size=1,
                channels_last=channels_last,
                table=table,
                resize_order="pillow13",
                allow_variable_size=True,
                bgr=bgr,
            ),
            NO_DRAWS,
        )
        for bgr, table in ((False, None), (True, None), (True, blue_first))
    ]
    rgb, bgr, blue = (array if channels_last else array.transpose(1, 2, 0) for array in found)  # type: ignore[union-attr]
    assert not np.array_equal(rgb, bgr)
    assert np.array_equal(rgb[..., ::-1], bgr)
    assert np.array_equal(blue[..., 0], bgr[..., 0])
    assert not blue[..., 1:].any()


def test_the_exif_orientation_chooses_the_plan(photo: Path) -> None:
    plans = []
    for width in range(1, 9):
        plans.append(plan_of(transforms.CenterCrop((5, width)), transforms.PILToTensor(), channels_last=True)[0])
    contents = photo.read_bytes()
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        segment = exif.tobytes()
        turned = contents[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + contents[2:]
        photo.write_bytes(turned)
        for pixels in (
            decoder().run_oriented_file(bytes(photo), plans, NO_DRAWS),
            decoder().run_oriented_bytes(turned, plans, NO_DRAWS),
        ):
            assert isinstance(pixels, np.ndarray)
            assert pixels.shape == (5, orientation, 3)


@pytest.mark.parametrize("channels_last", [False, True])
def test_elements_of_several_bytes_are_bytes_one_after_the_other(photo: Path, channels_last: bool) -> None:
    steps = [transforms.CenterCrop((40, 31)), transforms.ToTensor(), transforms.Normalize((0.4,) * 3, (0.3,) * 3)]
    plan, dtype = plan_of(*steps, channels_last=channels_last, with_table=True)
    pixels = decoder().run_file(bytes(photo), plan, NO_DRAWS)
    assert isinstance(pixels, np.ndarray)
    assert pixels.shape == ((40, 31, 3 * 4) if channels_last else (3, 40, 31 * 4))
    found = torch.from_numpy(pixels).view(dtype)
    expected = transforms.Compose(steps)(Image.open(photo))
    assert torch.equal(found.permute(2, 0, 1) if channels_last else found, expected)


def test_an_array_outlives_the_decoder_and_the_samples_after_it(photo: Path, tmp_path: Path) -> None:
    save_jpeg(tmp_path / "other.jpg", 6, 90, 120)
    plan, _ = plan_of(transforms.CenterCrop(50), transforms.PILToTensor(), channels_last=True)
    one = decoder()
    first = one.run_file(bytes(photo), plan, NO_DRAWS)
    copy = np.array(first)
    second = one.run_file(bytes(tmp_path / "other.jpg"), plan, NO_DRAWS)
    del one
    gc.collect()
    assert np.array_equal(np.asarray(first), copy)
    assert not np.array_equal(np.asarray(second), copy)


def test_a_sample_left_to_pillow_is_none_and_goes_on_from_its_pixels(tmp_path: Path) -> None:
    image = synthetic_image(3, 70, 64)
    image.save(tmp_path / "image.png")
    plan, _ = plan_of(transforms.CenterCrop(33), transforms.PILToTensor(), channels_last=True)
    one = decoder()
    assert one.run_file(bytes(tmp_path / "image.png"), plan, NO_DRAWS) is None
    assert one.fallback_reason == "the first bytes are not those of a JPEG file"
    pixels = one.run_pixels(image.tobytes(), 70, 64, plan, NO_DRAWS)
    assert np.array_equal(np.asarray(pixels), np.asarray(transforms.CenterCrop(33)(image)))


@pytest.mark.parametrize("limits", [{"native_jpeg": False}, {"max_pixels": 100}])
def test_limits_leave_a_clean_file_to_pillow(photo: Path, limits: dict[str, Any]) -> None:
    plan, _ = plan_of(transforms.CenterCrop(33), transforms.PILToTensor(), channels_last=True)
    assert decoder(**limits).run_file(bytes(photo), plan, NO_DRAWS) is None


@pytest.mark.parametrize(
    ("make", "limits", "stage", "number"),
    [
        (lambda path: None, {}, "open", errno.ENOENT),
        (lambda path: path.mkdir(), {}, "open", errno.EISDIR),
        (lambda path: os.mkfifo(path), {}, "open", 0),
        (lambda path: path.write_bytes(b"x" * 99), {"max_file_bytes": 98}, "limit", errno.EFBIG),
    ],
)
def test_a_file_that_cannot_be_read_is_a_failure_with_a_stage(
    tmp_path: Path, make: Any, limits: dict[str, Any], stage: str, number: int
) -> None:
    make(tmp_path / "file")
    plan, _ = plan_of(transforms.CenterCrop(33), transforms.PILToTensor(), channels_last=True)
    failure = decoder(**limits).run_file(bytes(tmp_path / "file"), plan, NO_DRAWS)
    assert isinstance(failure, dict)
    assert (failure["stage"], failure["errno"], failure["exception"]) == (stage, number, None)
    assert failure["text"]


def test_draws_move_as_torchs_generator_and_a_failed_sample_can_be_rewound(photo: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.jpg").write_bytes(photo.read_bytes()[:-700])
    crop = transforms.RandomResizedCrop(24)
    plan, _ = plan_of(crop, transforms.PILToTensor(), channels_last=True)
    generator = torch.Generator().manual_seed(8)
    state = generator.get_state()
    draws = _native.TorchDraws(0, uniform_rule())
    draws.load(state.numpy())
    one = decoder()
    assert one.run_file(bytes(tmp_path / "cut.jpg"), plan, draws) is None
    draws.load(state.numpy())
    pixels = one.run_file(bytes(photo), plan, draws)
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    expected, end = np.asarray(crop(Image.open(photo))), torch.get_rng_state()
    torch.set_rng_state(before)
    assert np.array_equal(np.asarray(pixels), expected)
    draws.store(state.numpy())
    assert torch.equal(state, end)


def test_counters_count_from_the_last_take(photo: Path) -> None:
    plan, _ = plan_of(transforms.CenterCrop(33), transforms.PILToTensor(), channels_last=True)
    one = decoder()
    for _ in range(2):
        one.run_file(bytes(photo), plan, NO_DRAWS)
    counters = one.take_counters()
    assert counters["bytes_read"] == 2 * photo.stat().st_size
    assert all(seconds > 0 for seconds in counters["stage_seconds"].values())
    assert one.take_counters()["bytes_read"] == 0


def test_arguments_that_do_not_fit_are_refused() -> None:
    plan, _ = plan_of(transforms.CenterCrop(33), transforms.PILToTensor(), channels_last=True)
    for width, height in ((3, 2), (0, 0), (-1, -6)):
        with pytest.raises(ValueError, match="pixels must hold width"):
            decoder().run_pixels(bytes(17), width, height, plan, NO_DRAWS)


def test_a_damaged_image_is_damaged_before_the_steps_cannot_be_applied_to_it(photo: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.jpg").write_bytes(photo.read_bytes()[:-700])
    plan, _ = plan_of(transforms.RandomCrop(300), transforms.PILToTensor(), channels_last=True)
    one = decoder()
    failure = one.run_file(bytes(photo), plan, NO_DRAWS)
    assert isinstance(failure, dict)
    assert failure["stage"] == "transform"
    assert one.run_file(bytes(tmp_path / "cut.jpg"), plan, NO_DRAWS) is None


def test_contents_of_a_file_give_what_the_file_gives(photo: Path) -> None:
    plan, _ = plan_of(transforms.CenterCrop(33), transforms.PILToTensor(), channels_last=True)
    one = decoder()
    from_bytes = one.run_bytes(photo.read_bytes(), plan, NO_DRAWS)
    assert np.array_equal(np.asarray(from_bytes), np.asarray(one.run_file(bytes(photo), plan, NO_DRAWS)))
    assert one.take_counters()["bytes_read"] == photo.stat().st_size
    assert one.run_bytes(b"words", plan, NO_DRAWS) is None
    assert one.fallback_reason == "the first bytes are not those of a JPEG file"
