"""The loader that is usual for training on a folder of images: the home of torchvision among the commands."""

from __future__ import annotations

import os
from typing import Any

from fastload._process._config import TorchDataLoader
from fastload.cli._errors import UsageError, one_line

# Of the photographs of ImageNet, as all of torchvision's weights were trained with.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def loader_of_folder(root: str, batch_size: int, num_workers: int) -> TorchDataLoader[Any]:
    """torch's loader over torchvision's ImageFolder with random crops of 224 pixels, flips and normalisation.

    Raises:
        UsageError: torchvision is not installed, or `root` has no folder of images for each class.
    """
    try:
        from torchvision import transforms
        from torchvision.datasets import ImageFolder
    except (ImportError, RuntimeError) as error:  # RuntimeError: it was built for another torch
        raise UsageError(
            f"measuring a folder needs torchvision, which cannot be imported ({one_line(error)}): pip "
            "install torchvision, or name a loader of yours as script.py:name"
        ) from error
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(_MEAN, _STD)]
    try:
        dataset = ImageFolder(os.path.expanduser(root), transforms.Compose(steps))  # noqa: PTH111 - keeps the form given
    except OSError as error:
        raise UsageError(one_line(error)) from error
    return TorchDataLoader(dataset, batch_size, shuffle=True, num_workers=num_workers)
