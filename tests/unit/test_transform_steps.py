"""The native form of each transform of PIL images, v1 and v2, and the arguments with which it runs in Python."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from lowered_transforms import (
    FAMILIES,
    RGB,
    assert_runs_as_torchvision,
    changed,
    is_native,
    lowered,
    lowered_step,
    problem_of,
    random_image,
)
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import v2

from fastload import _core

NAMES_INTERPOLATIONS = inspect.signature(v2.Resize).parameters["interpolation"].default == "bilinear"
Mode = T.InterpolationMode


# Names of torchvision's classes in both families, with arguments.
NATIVE: list[tuple[str, dict[str, Any]]] = [
    ("RandomResizedCrop", {"size": 40}),
    ("RandomResizedCrop", {"size": 9, "scale": (0.5, 1.5)}),
    ("RandomResizedCrop", {"size": [7, 6], "scale": (1, 1), "ratio": [1, 2], "interpolation": Mode.LANCZOS}),
    ("Resize", {"size": (8, 9)}),
    ("Resize", {"size": 8, "max_size": 10, "antialias": None, "interpolation": Mode.BOX}),
    ("Resize", {"size": (8,)}),
    ("CenterCrop", {"size": 5}),
    ("CenterCrop", {"size": (5, 6)}),
    ("Pad", {"padding": 3}),
    ("Pad", {"padding": (3, 4), "fill": 9, "padding_mode": "edge"}),
    ("Pad", {"padding": [1, 2, 3, 4], "fill": (1, 2.9, 255), "padding_mode": "reflect"}),
    ("Pad", {"padding": 0}),
    ("RandomCrop", {"size": 20}),
    ("RandomCrop", {"size": (20, 24), "padding": (0, 1)}),
    ("RandomCrop", {"size": (24, 22), "padding": [1, 2, 3, 4], "fill": 7}),
    ("RandomCrop", {"size": 32, "padding": 4, "padding_mode": "symmetric"}),
    ("RandomCrop", {"size": 32, "pad_if_needed": True, "padding_mode": "reflect"}),
    ("RandomCrop", {"size": (30, 9), "pad_if_needed": True, "padding_mode": "reflect"}),
    ("RandomHorizontalFlip", {}),
    ("RandomHorizontalFlip", {"p": 1}),
    ("RandomVerticalFlip", {"p": 0.1}),
    ("RandomRotation", {"degrees": 30}),
    ("RandomRotation", {"degrees": (5, 7), "center": [1, 2.5], "fill": 3, "interpolation": Mode.NEAREST}),
    ("Grayscale", {"num_output_channels": 3}),
    ("RandomGrayscale", {}),
    ("RandomInvert", {}),
    ("RandomPosterize", {"bits": 3}),
    ("RandomSolarize", {"threshold": 99.5}),
    ("RandomAdjustSharpness", {"sharpness_factor": 2}),
    ("RandomAutocontrast", {}),
    ("RandomEqualize", {}),
    ("ColorJitter", {"brightness": 0.4, "contrast": (0.5, 2), "hue": 0.1}),
    ("ColorJitter", {"brightness": 0.5, "contrast": 0.5, "saturation": 0.5, "hue": 0.5}),
    ("ColorJitter", {"brightness": (0, 3), "contrast": (0.9, 0.9), "saturation": (0, 0), "hue": (-0.5, 0.5)}),
    ("ColorJitter", {}),
    ("RandAugment", {"num_ops": 4, "magnitude": 20}),
    ("TrivialAugmentWide", {"num_magnitude_bins": 7, "fill": (9, 99, 199)}),
    ("AutoAugment", {}),
    ("AutoAugment", {"policy": T.AutoAugmentPolicy.CIFAR10}),
    ("AutoAugment", {"policy": T.AutoAugmentPolicy.SVHN}),
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("name", "arguments"), NATIVE, ids=str)
def test_native_forms_give_torchvisions_images_and_draws(family: str, name: str, arguments: dict[str, Any]) -> None:
    transform = T.Compose([T.CenterCrop(24), getattr(FAMILIES[family], name)(**arguments)])
    assert is_native(transform)
    assert_runs_as_torchvision(transform, random_image(24, 24), num_runs=50)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *((name, {}) for name in ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomGrayscale", "RandomInvert")),
        *((name, {}) for name in ("RandomAutocontrast", "RandomEqualize")),
        ("RandomPosterize", {"bits": 2}),
        ("RandomSolarize", {"threshold": 9}),
        ("RandomAdjustSharpness", {"sharpness_factor": 2}),
    ],
    ids=str,
)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.2, 0.3, 0.7, 0.9, 1.0, 1 / 3, 2.0**-25, 1 - 2.0**-53, 0.7 + 2.0**-26])
def test_a_draw_near_the_probability_is_decided_like_torchvision(
    family: str, name: str, arguments: dict[str, Any], p: float
) -> None:
    transform = getattr(FAMILIES[family], name)(**arguments, p=p)
    probability = lowered_step(transform).probability
    assert probability == np.float32(probability)
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    nearest = int(p * 2**24)
    for multiple in range(max(0, nearest - 2), min(2**24, nearest + 3)):
        draw = torch.tensor([multiple / 2**24])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "rand", lambda *shape, draw=draw: draw)
            happens = transform(image) is not image
        assert (draw.item() < probability) == happens
        assert bool(draw < probability) == happens


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *((mode, mode.value) for mode in T.InterpolationMode if mode.value != "nearest-exact"),
        (T.InterpolationMode.NEAREST_EXACT, "nearest"),
        *((mode, mode.name.lower()) for mode in Image.Resampling if mode <= 5),
        *((int(mode), mode.name.lower()) for mode in Image.Resampling if mode <= 5),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_interpolations(family: str, mode: Any, name: str) -> None:
    namespace = FAMILIES[family]
    late: Any = namespace.Resize((8, 8))
    late.interpolation = mode
    crop = namespace.RandomResizedCrop(8, interpolation=mode)
    for transform in (namespace.Resize((8, 8), mode), crop, late):
        assert lowered_step(transform).interpolation == name


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos"])
@pytest.mark.skipif(not NAMES_INTERPOLATIONS, reason="torchvision 0.19 does not take names")
def test_v2_takes_interpolations_by_name_and_v1_does_not(mode: str) -> None:
    name = "nearest" if mode == "nearest-exact" else mode
    assert lowered_step(v2.Resize((8, 8), mode)).interpolation == name
    assert f"interpolation '{mode}'" in problem_of(T.Resize((8, 8), mode), [], [])


def test_numpy_sizes_that_torchvision_takes_are_native() -> None:
    assert lowered_step(T.RandomResizedCrop(np.int32(7))).height == 7
    assert lowered_step(T.CenterCrop((np.int64(5), 6))) == _core.CenterCrop(height=5, width=6)


def test_v2_keeps_its_logarithms_when_the_ratio_is_changed() -> None:
    transforms = T.RandomResizedCrop(8), v2.RandomResizedCrop(8)
    for transform in transforms:
        transform.ratio = (0.5, 2.0)
    assert lowered_step(transforms[0]).log_ratio == tuple(torch.log(torch.tensor((0.5, 2.0))).tolist())
    assert lowered_step(transforms[1]).log_ratio == tuple(torch.log(torch.tensor((3 / 4, 4 / 3))).tolist())
    assert lowered_step(transforms[1]).ratio == [0.5, 2.0]


@pytest.mark.skipif(not NAMES_INTERPOLATIONS, reason="torchvision 0.19 has no size None")
def test_v2_resize_to_a_longer_side_needs_a_known_size() -> None:
    transform = v2.Resize(None, max_size=10)
    pipeline = v2.Compose([v2.CenterCrop((20, 30)), transform])
    assert is_native(pipeline)
    (made,) = assert_runs_as_torchvision(pipeline, random_image(40, 50))
    assert made.size == (10, 6)
    assert "size None on images of several sizes" in problem_of(transform, [], [T.ToTensor()])


@pytest.mark.parametrize("transform", [v2.Identity(), RGB(), v2.ToDtype(torch.float32, scale=True), v2.ToPureTensor()])
def test_a_transform_that_does_nothing_to_rgb_images_has_no_step(transform: Any) -> None:
    result = lowered(v2.Compose([transform, v2.CenterCrop(4), transform]))
    assert result.python_part == ()
    assert [position for position, _ in result.steps] == [1]


@pytest.mark.parametrize("size", [(10, 10), (7, 31), (31, 7), (1, 100), (333, 500)])
@pytest.mark.parametrize(("short", "max_size"), [(5, None), (9, 10), (5, 33), (224, None)])
def test_size_after_a_resize_of_a_fixed_size_is_torchvisions(
    size: tuple[int, int], short: int, max_size: int | None
) -> None:
    resize = T.Resize(short, max_size=max_size)
    pipeline = T.Compose([T.CenterCrop(size), resize, T.ToTensor()])
    try:
        expected = pipeline(Image.new("RGB", (40, 30))).shape
    except ValueError:  # a side of 0
        assert "it gives sides of" in problem_of(resize, [T.CenterCrop(size)], [T.ToTensor()])
        return
    result = lowered(pipeline)
    assert (3, *(result.size or ())) == expected


@pytest.mark.parametrize(
    ("stages", "size"),
    [
        ([T.Resize(8)], None),
        ([T.RandomCrop(8)], (8, 8)),
        ([T.RandomCrop((8, 9)), T.Pad((1, 2, 3, 4))], (14, 13)),
        ([T.Pad(3)], None),
        ([T.CenterCrop(8), T.RandomApply([T.ColorJitter(0.1), T.CenterCrop(8)])], (8, 8)),
        ([T.CenterCrop(8), T.RandomApply([T.CenterCrop(6)])], None),
        ([T.CenterCrop(8), T.RandomApply([T.CenterCrop(6), T.Pad(1)])], (8, 8)),
        ([T.RandomApply([T.CenterCrop(6)])], None),
    ],
)
def test_size_of_the_native_parts_results(stages: list[Any], size: tuple[int, int] | None) -> None:
    result = lowered(T.Compose(stages))
    assert result.python_part == ()
    assert result.size == size


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (T.Resize(0), "size 0; native: ints from 1 to 65535"),
        (T.Resize((8, 8.0)), "size 8.0"),
        (T.Resize(True), "size True"),
        (changed(T.Resize(8), size=(1, 2, 3)), "size (1, 2, 3); native: one or two ints"),
        (changed(T.Resize(8), size=None), "size None"),
        (changed(T.RandomResizedCrop(8), size=8), "size 8; native: height and width"),
        (changed(v2.RandomResizedCrop(8), size=[8]), "size [8]; native: height and width"),
        (changed(T.RandomCrop(8), size=(8,)), "size (8,); native: height and width"),
        (changed(v2.RandomCrop(8), size=8), "size 8; native: height and width"),
        (T.CenterCrop(-8), "size -8"),
        (T.CenterCrop(70000), "size 70000"),
        (T.Resize((8, 8), max_size=9), "max_size 9 together with height and width"),
        (T.Resize(8, max_size=8), "max_size 8 is not greater than size 8"),
        (T.RandomResizedCrop(8, (-1, 1)), "is not positive"),
        (T.RandomResizedCrop(8, ratio=(0, 1)), "is not positive"),
        (T.RandomResizedCrop(8, (0.1, float("nan"))), "scale (0.1, nan)"),
        (T.RandomResizedCrop(8, (0.1, float("inf"))), "scale (0.1, inf)"),
        (T.RandomResizedCrop(8, (0.1, 0.2, 0.3)), "scale (0.1, 0.2, 0.3)"),
        (T.RandomResizedCrop(8, ratio=(np.float64(1), 2)), "native: two Python numbers, the smaller one first"),
        (changed(v2.RandomResizedCrop(8), _log_ratio=(0.1, 0.2)), "its logarithms of the ratio are (0.1, 0.2)"),
        (changed(v2.RandomResizedCrop(8), _log_ratio=torch.zeros(2).double()), "native: two numbers in torch.float32"),
        (T.RandomHorizontalFlip(1.5), "p is 1.5; native: a number from 0 to 1"),
        (T.RandomHorizontalFlip(torch.tensor(0.5)), "p is tensor(0.5"),
        (T.RandomHorizontalFlip(float("nan")), "p is nan"),
        (T.RandomHorizontalFlip(np.float32(0.5)), "p is "),
        (T.RandomHorizontalFlip(True), "p is True"),
        (changed(v2.RandomInvert(), p=-0.1), "p is -0.1"),
        (T.RandomApply([T.CenterCrop(8)], p=2), "p is 2"),
        (T.Pad(1.5), "padding 1.5; native: one, two or four ints from 0 to 65535"),
        (T.Pad(-1), "padding -1"),
        (T.Pad((np.int64(1), 2)), "padding (np.int64(1), 2)"),
        (T.Pad(1, fill=(1, 2)), "fill (1, 2); native: None, or one or three numbers from 0 to 255"),
        (T.Pad(1, fill=256), "fill 256"),
        (T.Pad(1, fill=-1), "fill -1"),
        (T.Pad(1, fill=np.int64(3)), "fill np.int64(3)"),
        (v2.Pad(1, fill={Image.Image: 3, "others": 0}), "native: one fill for all types"),
        (changed(T.Pad(1), padding_mode="wrap"), "padding_mode 'wrap'; native: constant, edge, reflect, symmetric"),
        (T.RandomCrop(8, pad_if_needed=1), "pad_if_needed 1; native: True or False"),
        (T.RandomCrop(8, padding=2.5), "padding 2.5"),
        (changed(v2.RandomCrop(8), padding=4), "padding 4 was set on the object"),
        (
            v2.RandomCrop(8, padding=1, pad_if_needed=True, padding_mode="reflect"),
            "padding and pad_if_needed together with padding_mode reflect",
        ),
        (T.Grayscale(), "num_output_channels 1; native: 3"),
        (changed(T.ColorJitter(0.1), brightness=(-1, 1)), "brightness (-1, 1); native: not negative"),
        (changed(T.ColorJitter(0.1), hue=(-1, 1)), "hue (-1, 1); native: from -0.5 to 0.5"),
        (changed(T.ColorJitter(0.1), contrast=0.5), "contrast 0.5; native: two Python numbers"),
        (changed(T.ColorJitter(0.1), saturation=(0, np.float32(1))), "saturation (0, np.float32(1.0))"),
        (T.RandomPosterize(0), "bits 0; native: ints from 1 to 8"),
        (T.RandomPosterize(True), "bits True"),
        (T.RandomPosterize(np.int64(3)), "bits np.int64(3)"),
        (T.RandomSolarize(float("nan")), "threshold nan; native: a finite Python number"),
        (T.RandomAdjustSharpness("2"), "sharpness_factor '2'"),
        (T.RandomAdjustSharpness(2.5e39), "factor must be a float32 number, got 2.5"),
        (T.RandomPerspective(), "not native yet; native: AutoAugment, CenterCrop, "),
        (v2.RandomPerspective(), "not native yet"),
        (T.RandomChoice([T.CenterCrop(8)]), "not native yet"),
        (v2.RandomChoice([T.CenterCrop(8)]), "not native yet"),
        (T.RandomOrder([T.CenterCrop(8)]), "not native yet"),
        (T.RandomAffine(30), "not native yet"),
        (
            T.RandomRotation(30, T.InterpolationMode.LANCZOS),
            "interpolation lanczos; native: nearest, bilinear, bicubic",
        ),
        (T.RandomRotation(30, expand=True), "expand True; native: False"),
        (T.RandomRotation(30, expand=1), "expand 1; native: True or False"),
        (changed(T.RandomRotation(30), degrees=(2, 1)), "degrees (2, 1); native: two Python numbers"),
        (changed(T.RandomRotation(30), center=(1, np.float32(2))), "center (1, np.float32(2.0)); native: two finite"),
        (T.Lambda(len), "not native yet"),
        (v2.Lambda(len), "not native yet"),
        (T.Normalize(0, 1), "not native on images; native: after PILToTensor, ToTensor or v2.ToImage"),
        (v2.ConvertImageDtype(), "not native on images"),
        (v2.RandomErasing(), "not native on images"),
        (T.RandomApply([T.ToTensor()]), "it holds ToTensor: not native in a RandomApply"),
        (T.RandomApply([]), "it holds nothing that changes an image"),
        (T.RandomApply([T.CenterCrop(8), T.RandomPerspective()]), "it holds RandomPerspective: not native yet"),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else type(value).__name__,
)
def test_other_arguments_run_in_python_from_there_on(transform: Any, reason: str) -> None:
    assert reason in problem_of(transform, [T.RandomHorizontalFlip()], [T.CenterCrop(4), T.ToTensor()])


@pytest.mark.parametrize(
    ("before", "transform", "reason"),
    [
        ([T.CenterCrop((1, 60000))], T.Resize(2), "it gives sides of 2 and 120000; native: 1 to 65535"),
        ([T.CenterCrop((1, 50))], T.Resize(2, max_size=9), "it gives sides of 0 and 9"),
        ([T.CenterCrop(60000)], T.Pad(9999), "it gives sides of 79998 and 79998"),
        ([T.CenterCrop(8)] * 31, T.CenterCrop(8), "32 image operations; native: at most 31"),
        ([T.RandomResizedCrop(8)] * 15, T.RandomResizedCrop(8), "32 image operations"),
        ([T.CenterCrop(8)] * 30, T.RandomCrop(8), "32 image operations"),
        ([T.RandomResizedCrop(8)] * 15, T.RandomApply([T.ColorJitter()]), "34 image operations"),
        ([T.CenterCrop(8)] * 28, T.RandAugment(4), "32 image operations"),
        ([T.CenterCrop(8)] * 30, v2.AutoAugment(), "32 image operations"),
    ],
)
def test_pipelines_beyond_native_limits_run_in_python(before: list[Any], transform: Any, reason: str) -> None:
    assert reason in problem_of(transform, before, [T.ToTensor()])
