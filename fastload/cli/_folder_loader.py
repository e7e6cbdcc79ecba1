"""Loaders and data sets over a folder of images: the only module of the commands that uses torchvision."""

from __future__ import annotations

import os
from typing import Any

from fastload._process._config import TorchDataLoader
from fastload.cli._errors import UsageError, one_line, usage_errors
from fastload.sources import ImageFolder

# ImageNet's statistics, with which all of torchvision's weights were trained.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def loader_of_folder(root: str, batch_size: int, num_workers: int) -> TorchDataLoader[Any]:
    """Returns torch's loader over torchvision's ImageFolder with random crops of 224 pixels, flips and normalisation.

    Raises:
        UsageError: torchvision is not installed, or `root` has no folder of images for each class.
    """
    transforms, datasets = _torchvision("measuring a folder", ", or name a loader of yours as script.py:name")
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(_MEAN, _STD)]
    with usage_errors(OSError):
        dataset = datasets.ImageFolder(_expanded(root), transforms.Compose(steps))
    return TorchDataLoader(dataset, batch_size, shuffle=True, num_workers=num_workers)


def whole_images_of_folder(root: str) -> ImageFolder:
    """Returns the images of a folder, each decoded as a whole for a few pixels. Raises UsageError as above."""
    transforms, _ = _torchvision("checking a folder")
    with usage_errors(OSError):
        return ImageFolder(_expanded(root), transforms.Compose([transforms.Resize((8, 8)), transforms.PILToTensor()]))


def _torchvision(what: str, otherwise: str = "") -> tuple[Any, Any]:
    """Returns torchvision's transforms and data sets."""
    try:
        from torchvision import datasets, transforms
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another torch
        raise UsageError(
            f"{what} needs torchvision, which cannot be imported ({one_line(error)}): pip install torchvision"
            f"{otherwise}"
        ) from error
    return transforms, datasets


def _expanded(root: str) -> str:
    return os.path.expanduser(root)  # noqa: PTH111 - keeps the form given
