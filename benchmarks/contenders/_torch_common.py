"""The common part of the contenders that are used like torch's DataLoader."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks._protocol import LoaderSettings
from benchmarks._torchvision import load_torchvision
from benchmarks.contenders._base import CROP_SIZE, MEAN, RESIZE_SIZE, STD, Batches, select_samples


def pil_transform(mode: str, output: str = "float32") -> Any:
    """Returns ImageNet's usual transform as users write it, on PIL images."""
    load_torchvision()
    from torchvision import transforms

    geometry = {
        "train": [transforms.RandomResizedCrop(CROP_SIZE), transforms.RandomHorizontalFlip()],
        "eval": [transforms.Resize(RESIZE_SIZE), transforms.CenterCrop(CROP_SIZE)],
    }[mode]
    return transforms.Compose([*geometry, *to_output(output).transforms])


def to_output(output: str) -> Any:
    """Returns the transform from the cropped image to the output."""
    load_torchvision()
    from torchvision import transforms

    normalised = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    return transforms.Compose(
        {
            "float32": normalised,
            "uint8": [transforms.PILToTensor()],
            "bfloat16": [*normalised, transforms.ConvertImageDtype(torch.bfloat16)],
        }[output]
    )


def image_folder(settings: LoaderSettings, transform: Any, **arguments: Any) -> Any:
    """Returns torchvision's ImageFolder (that exact type) over the images of one round."""
    load_torchvision()
    from torchvision.datasets import ImageFolder

    dataset = ImageFolder(settings.data, transform=transform, **arguments)
    dataset.samples = dataset.imgs = select_samples(dataset.samples, settings.image_count)
    dataset.targets = [label for _, label in dataset.samples]
    return dataset


def open_loader(loader_class: Any, dataset: Any, settings: LoaderSettings, **extra: Any) -> Batches:
    """Returns a loader of that class with the settings of the round; shuffled in training."""
    torch.manual_seed(settings.seed)
    prefetching = {"prefetch_factor": settings.prefetch_factor, "persistent_workers": settings.persistent_workers}
    loader: Batches = loader_class(
        dataset,
        batch_size=settings.batch_size,
        shuffle=settings.mode == "train",
        num_workers=settings.workers,
        **(prefetching if settings.workers else {}),
        **extra,
    )
    return loader
