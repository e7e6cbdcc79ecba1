"""The transforms that the loader's tests use, and the reference they are compared with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

import torch
import torchvision_shim  # noqa: F401
from PIL import Image
from torchvision import transforms
from torchvision.datasets import ImageFolder

from fastload._tools.verify._replay import apply_steps, erase_boxes

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class PythonBlur(transforms.GaussianBlur):
    """A subclass: a transform that draws and runs in Python."""


def evaluation(resize: int = 256, crop: int = 224) -> transforms.Compose:
    """Returns the usual evaluation pipeline."""
    return transforms.Compose(
        [transforms.Resize(resize), transforms.CenterCrop(crop), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    )


def training(size: int = 224) -> transforms.Compose:
    """Returns the usual training pipeline."""
    return transforms.Compose(
        [
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )


def pillow_image(path: str) -> Image.Image:
    """Opens the file as torchvision's loader does."""
    with open(path, "rb") as file:  # noqa: PTH123 - names that are not UTF-8 come as surrogate escapes
        return Image.open(file).convert("RGB")


def replay(reports: Iterable[Any], to_tensor: Callable[[Image.Image], torch.Tensor]) -> torch.Tensor:
    """Returns the batch that Pillow and torchvision make from a loader's report."""
    return torch.stack([erase_boxes(to_tensor(apply_steps(pillow_image(r.path), r.steps)), r.steps) for r in reports])


def numbered_images(root: str | PathLike[str], transform: Any) -> ImageFolder:
    """Makes a data set whose labels are its images' indices, so that a batch shows which samples it has."""
    dataset = ImageFolder(os.fspath(root), transform)
    dataset.samples = [(path, index) for index, (path, _) in enumerate(dataset.samples)]
    return dataset


def samples_of(batches: Iterable[Any]) -> list[tuple[int, bytes]]:
    """Returns (label, bytes) of each image, in order."""
    return [
        (int(label), image.numpy().tobytes())
        for images, labels in batches
        for image, label in zip(images, labels, strict=True)
    ]


def bytes_of(batches: Iterable[Any]) -> list[tuple[bytes, list[int]]]:
    """Returns each batch's image bytes in NCHW order and its labels: equal exactly if the batches are."""
    return [(images.contiguous().view(torch.uint8).numpy().tobytes(), labels.tolist()) for images, labels in batches]
