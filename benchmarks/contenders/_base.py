"""The contract of a contender, and the settings all of them share."""

from __future__ import annotations

import importlib.metadata
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from benchmarks._protocol import LoaderSettings, SampleReport

CROP_SIZE = 224
RESIZE_SIZE = 256
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


class Contender(ABC):
    """A way to load images, run in a process of its own.

    Attributes:
        promises_equal_bytes: whether every batch must have the reference's bytes; then a difference ends the run.
        runs_ahead_between_epochs: whether the loader works on the next epoch while nobody iterates. A timed epoch then
            lasts until it rests, or images loaded before the clock started would be counted as loaded for nothing.
        environment: variables that are set before anything of the contender is imported.
    """

    promises_equal_bytes: ClassVar[bool] = False
    runs_ahead_between_epochs: ClassVar[bool] = False
    environment: ClassVar[Mapping[str, str]] = {}
    packages: ClassVar[Sequence[str]] = ("torch", "torchvision", "pillow", "numpy")

    @abstractmethod
    def unavailable_because(self) -> str | None:
        """Why it cannot run here, in one line, or None."""

    @abstractmethod
    def open(self, settings: LoaderSettings) -> Batches:
        """A loader that can be iterated again and again, one epoch each: (images, labels) as the settings ask for."""

    def versions(self) -> dict[str, str]:
        """Versions of Python and of the packages that matter to this contender."""
        found = {"python": platform.python_version()}
        for package in self.packages:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found[package] = "none"
        return found

    def details(self) -> dict[str, str]:
        """More about what is measured that belongs into the record."""
        return {}

    def options(self, loader: Batches) -> dict[str, Any]:
        """The settings the opened loader really has."""
        names = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory", "multiprocessing_context")
        found = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
        return {**found, "torch_threads": torch.get_num_threads()}

    def reports(self, iterator: Any) -> list[SampleReport] | None:
        """What was done to each sample of the batch returned last; None where the loader does not tell."""
        return None

    def stats(self, loader: Batches) -> dict[str, Any]:
        """The loader's own counters; "stage_seconds" maps a stage to seconds since the loader was opened."""
        return {}

    def close(self, loader: Batches) -> None:
        """Ends what the loader started: by its `close` where it has one, else by its collection."""
        if hasattr(loader, "close"):
            loader.close()


def select_samples(samples: Sequence[tuple[str, int]], image_count: int) -> list[tuple[str, int]]:
    """`image_count` of the samples: evenly spread when there are more, repeated from the start when there are fewer."""
    if not samples:
        raise ValueError("the data folder has no images; expected one folder per class with images in it")
    if image_count <= len(samples):
        return [samples[i * len(samples) // image_count] for i in range(image_count)]
    return [samples[i % len(samples)] for i in range(image_count)]


def list_samples(settings: LoaderSettings) -> list[tuple[str, int]]:
    """(path, class number) of the round's images in ImageFolder's order, for contenders that take a list of files."""
    samples = []
    folders = sorted(folder for folder in Path(settings.data).iterdir() if folder.is_dir())
    for label, folder in enumerate(folders):
        files = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
        samples += [(path, label) for path in files]
    return select_samples(samples, settings.image_count)
