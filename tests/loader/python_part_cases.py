"""Shared cases for batches that end in Python: pipelines, data sets, and epochs compared with torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
import torch.utils.data
from both_loaders import steps_of
from flat_values import flat
from PIL import Image
from python_part_loader import PythonPartLoader, torch_loader
from torchvision import transforms, tv_tensors
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from fastload import SampleError

WORKERS = pytest.mark.parametrize("num_workers", [0, 1, 2])
THREADS = pytest.mark.parametrize("num_workers", [1, 2])


def noisy(image: torch.Tensor) -> torch.Tensor:
    return image + 0.1 * torch.randn(image.shape)


def brightened_at_random(image: Image.Image) -> Image.Image:
    return image.point(lambda value: value // 2) if torch.rand(()) < 0.5 else image


def crop_flip() -> list[Any]:
    return [transforms.RandomResizedCrop(36), transforms.RandomHorizontalFlip()]


# Name -> (pipeline, number of its native transforms).
PIPELINES: dict[str, tuple[list[Any], int]] = {
    "images": ([*crop_flip(), recipes.PythonBlur(3), transforms.ToTensor(), noisy], 2),
    "one's own function on images": ([*crop_flip(), brightened_at_random, transforms.ToTensor()], 2),
    "tensors": ([*crop_flip(), transforms.ToTensor(), noisy, transforms.RandomErasing(0.7)], 3),
    "uint8 tensors as PILToTensor leaves them": (
        [
            *crop_flip(),
            transforms.PILToTensor(),
            lambda image: image / image.float().mean() + torch.rand_like(image * 1.0),
        ],
        3,
    ),
    "no draws in the native part": ([transforms.Resize((30, 41)), transforms.ToTensor(), noisy], 2),
    "nothing but the decoding is native": (
        [brightened_at_random, *crop_flip(), recipes.PythonBlur(3), transforms.ToTensor(), noisy],
        0,
    ),
    "color and policies before the Python part": (
        [
            *crop_flip(),
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            transforms.RandAugment(),
            transforms.ToTensor(),
            transforms.RandomErasing(0.5),
            noisy,
        ],
        6,
    ),
    "v2 with images of torchvision's own type": (
        [
            v2.RandomResizedCrop(36),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            lambda image: image * (1 + isinstance(image, tv_tensors.Image)) * torch.rand(1),
        ],
        4,
    ),
    "draws in the native part alone": ([*crop_flip(), transforms.ToTensor(), lambda image: image * 2], 3),
}


def outcomes(iterator: Iterator[Any], limit: int = 1000) -> list[Any]:
    """Returns the result of each next(): a batch, or the type of an error that is not fastload's own."""
    return steps_of(
        iterator, error_form=lambda error: type(error.cause if isinstance(error, SampleError) else error), limit=limit
    )


def epochs(loader: Any, lengths: tuple[int, ...] = (1000,) * 3) -> tuple[Any, ...]:
    """Returns the outcomes of epochs that end early, and the state of torch's generator between them."""
    torch.manual_seed(11)
    found = []
    for length in lengths:
        found.append((outcomes(iter(loader), length), torch.get_rng_state().tolist()))
    return tuple(found)


def assert_equals_torch(
    dataset: Any, num_native: int, lengths: tuple[int, ...] = (1000,) * 3, **arguments: Any
) -> tuple[Any, ...]:
    expected = epochs(torch_loader(dataset, **arguments), lengths)
    assert epochs(PythonPartLoader(dataset, num_native, **arguments), lengths) == expected
    return expected


def dataset_of(folder: Path, pipeline: list[Any], target_transform: Callable[[int], Any] | None = None) -> ImageFolder:
    return ImageFolder(str(folder), transforms.Compose(pipeline), target_transform)


def numbered(folder: Path, pipeline: list[Any]) -> ImageFolder:
    return recipes.numbered_images(folder, transforms.Compose(pipeline))


def by_label(loader: PythonPartLoader) -> dict[int, Any]:
    """Returns each sample of one epoch; `numbered` has replaced labels by indices."""
    return {int(label): flat(image) for images, labels in loader for image, label in zip(images, labels, strict=True)}
