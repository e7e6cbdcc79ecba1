"""Steps, table and Python part of any pipeline against the pipeline itself: the same sample and random draws."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowered_transforms import MEAN, RGB, STD, assert_runs_as_torchvision, random_image
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import v2

INTERPOLATIONS = st.sampled_from(list(T.InterpolationMode))
SIDES = st.integers(1, 40)
SIZES = SIDES | st.tuples(SIDES, SIDES)
PROBABILITIES = st.sampled_from([0, 1, 0.5, 0.1, 0.7, 0.9])
FILLS = st.sampled_from([0, 7, (1, 2, 3), [250.9, 0, 17]])
PADDING_MODES = st.sampled_from(["constant", "edge", "reflect", "symmetric"])
FACTORS = st.sampled_from([0, 0.4, (0.3, 1.9)])
PADDINGS = st.integers(0, 9) | st.tuples(st.integers(0, 5), st.integers(0, 5)) | st.tuples(*[st.integers(0, 4)] * 4)


class Noise:
    """An unknown transform with its own draw."""

    def __repr__(self) -> str:
        return "Noise()"

    def __call__(self, sample: Any) -> Any:
        if isinstance(sample, torch.Tensor):
            return sample + torch.rand(1).to(sample.dtype)
        return sample.transpose(Image.Transpose.ROTATE_180) if torch.rand(1) < 0.5 else sample


class Flip(T.RandomHorizontalFlip):  # type: ignore[misc]
    """A subclass, which could do anything."""


def image_transforms(family: Any) -> st.SearchStrategy[Any]:
    """Returns transforms of PIL images, with and without a native form."""

    def build(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.builds(getattr(family, name), **arguments)

    jitter = dict.fromkeys(("brightness", "contrast", "saturation"), FACTORS)
    return st.one_of(
        build("RandomResizedCrop", size=SIZES, interpolation=INTERPOLATIONS),
        build("RandomResizedCrop", size=SIZES, scale=st.just((0.9, 3)), ratio=st.just((1, 6))),
        build("Resize", size=SIZES, interpolation=INTERPOLATIONS),
        build("CenterCrop", size=SIZES),
        build("Pad", padding=PADDINGS, fill=FILLS, padding_mode=PADDING_MODES),
        build(
            "RandomCrop",
            size=SIZES,
            padding=st.none() | PADDINGS,
            pad_if_needed=st.booleans(),
            fill=FILLS,
            padding_mode=PADDING_MODES,
        ),
        build("RandomHorizontalFlip", p=PROBABILITIES),
        build("RandomVerticalFlip", p=PROBABILITIES),
        build("Grayscale", num_output_channels=st.just(3)),
        build("RandomGrayscale", p=PROBABILITIES),
        build("ColorJitter", **jitter, hue=st.sampled_from([0, 0.5, (-0.2, 0.1)])),
        build("RandomInvert", p=PROBABILITIES),
        build("RandomPosterize", bits=st.integers(1, 8), p=PROBABILITIES),
        build("RandomSolarize", threshold=st.sampled_from([0, 99, 128.5, 256]), p=PROBABILITIES),
        build("RandomAdjustSharpness", sharpness_factor=st.sampled_from([0, 0.5, 2]), p=PROBABILITIES),
        build("RandomAutocontrast", p=PROBABILITIES),
        build("RandomEqualize", p=PROBABILITIES),
        build("RandAugment", num_ops=st.integers(1, 3), magnitude=st.integers(0, 30), fill=st.none() | FILLS),
        build("TrivialAugmentWide", fill=st.none() | FILLS),
        build("AutoAugment", policy=st.sampled_from(list(T.AutoAugmentPolicy)), fill=st.none() | FILLS),
        build("GaussianBlur", kernel_size=st.just(3)),
        build(
            "RandomRotation",
            degrees=st.sampled_from([30, (0, 0), (180, 180), (90, 90)]),
            expand=st.sampled_from([False, False, False, True]),
            center=st.none() | st.just((3, 4.5)),
            fill=FILLS,
        ),
        st.builds(Noise),
        st.builds(Flip),
    )


def containers(inner: st.SearchStrategy[Any], family: Any) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        lists.map(T.Compose),
        lists.map(v2.Compose),
        st.builds(family.RandomApply, lists, p=PROBABILITIES),
        lists.map(family.RandomOrder if family is v2 else T.Compose),
    )


def image_parts(family: Any) -> st.SearchStrategy[list[Any]]:
    plain = image_transforms(family)
    return st.lists(st.one_of(plain, plain, st.recursive(plain, lambda inner: containers(inner, family))), max_size=5)


TENSOR_PARTS: list[list[Any]] = [
    [],
    [T.PILToTensor()],
    [T.ToTensor(), T.Normalize(MEAN, STD)],
    [T.PILToTensor(), T.ConvertImageDtype(torch.float32), T.Normalize(MEAN, STD), T.RandomErasing(0.7)],
    [T.ToTensor(), T.RandomErasing(0.9, value=(0.1, 2, -3)), T.Normalize(MEAN, STD)],
    [T.ToTensor(), T.RandomErasing(0.5, value="random")],
    [T.ToTensor(), T.RandomErasing(1, scale=(0.9, 1), ratio=(0.1, 9))],
    [T.ToTensor(), T.RandomErasing(1, scale=(0, 0), value=9)],
    [T.ToTensor(), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)],
    [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)],
    [
        v2.ToDtype(torch.float32),
        RGB(),
        v2.ToImage(),
        v2.Identity(),
        v2.RandomErasing(1, value=99),
        v2.ToPureTensor(),
    ],
    [v2.PILToTensor(), v2.ToDtype(torch.float16, scale=True), v2.RandomErasing(0.7, value=[5, 6, 7])],
    [v2.ToImage(), v2.ToDtype(torch.uint8, scale=True), v2.RandomResizedCrop(9), v2.ToDtype(torch.float32, scale=True)],
    [v2.ToImage(), v2.ConvertImageDtype(torch.float32), T.Normalize(MEAN, STD, inplace=True), Noise()],
    [v2.ToImage(), Noise(), v2.ToPureTensor()],
    [T.PILToTensor(), Noise()],
]


@st.composite
def pipelines(draw: Any) -> Any:
    parts = [*draw(image_parts(draw(st.sampled_from([T, v2])))), *draw(st.sampled_from(TENSOR_PARTS))]
    return draw(st.sampled_from([T.Compose, v2.Compose if parts else T.Compose]))(parts)


@settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(transform=pipelines(), height=st.integers(1, 45), width=st.integers(1, 45), seed=st.integers(0, 5))
def test_native_and_python_part_give_the_pipelines_sample_and_draws(
    transform: Any, height: int, width: int, seed: int
) -> None:
    assert_runs_as_torchvision(transform, random_image(width, height, seed))
