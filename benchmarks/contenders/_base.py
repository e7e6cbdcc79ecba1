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
    """A way to load images, run in its own process.

    Attributes:
        promises_equal_bytes: whether every batch must have the reference's bytes; then a difference ends the run.
        runs_ahead_between_epochs: whether the loader works on the next epoch while nobody iterates. A timed epoch then
            lasts until it rests, or images loaded before the clock started would cost nothing.
        environment: variables that are set before anything of the contender is imported.
    """

    promises_equal_bytes: ClassVar[bool] = False
    runs_ahead_between_epochs: ClassVar[bool] = False
    environment: ClassVar[Mapping[str, str]] = {}
    packages: ClassVar[Sequence[str]] = ("torch", "torchvision", "pillow", "numpy")

    @abstractmethod
    def unavailable_because(self) -> str | None:
        """Returns why it cannot run here, in one line, or None."""

    @abstractmethod
    def open(self, settings: LoaderSettings) -> Batches:
        """Returns a loader that can be iterated repeatedly, one epoch each: (images, labels) as the settings say."""

    def versions(self) -> dict[str, str]:
        """Returns versions of Python and of the packages that matter to this contender."""
        found = {"python": platform.python_version()}
        for package in self.packages:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found[package] = "none"
        return found

    def details(self) -> dict[str, str]:
        """Returns more details for the record."""
        return {}

    def options(self, loader: Batches) -> dict[str, Any]:
        """Returns the settings the opened loader really has."""
        names = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory", "multiprocessing_context")
        found = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
        return {**found, "torch_threads": torch.get_num_threads()}

    def reports(self, iterator: Any) -> list[SampleReport] | None:
        """Returns the steps for each sample of the batch returned last; None if the loader does not report them."""
        return None

    def stats(self, loader: Batches) -> dict[str, Any]:
        """Returns the loader's own counters; "stage_seconds" maps a stage to seconds since the loader was opened."""
        return {}

    def close(self, loader: Batches) -> None:
        """Ends the loader's threads and processes: by its `close` if it has one, else by its collection."""
        if hasattr(loader, "close"):
            loader.close()


def select_samples(samples: Sequence[tuple[str, int]], image_count: int) -> list[tuple[str, int]]:
    """Returns `image_count` samples: evenly spread if there are more, repeated if there are fewer."""
    if not samples:
        raise ValueError("the data folder has no images; expected one folder per class with images in it")
    if image_count <= len(samples):
        return [samples[i * len(samples) // image_count] for i in range(image_count)]
    return [samples[i % len(samples)] for i in range(image_count)]


def list_samples(settings: LoaderSettings) -> list[tuple[str, int]]:
    """Returns (path, class number) of the round's images in ImageFolder's order, for contenders that take lists."""
    samples = []
    folders = sorted(folder for folder in Path(settings.data).iterdir() if folder.is_dir())
    for label, folder in enumerate(folders):
        files = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
        samples += [(path, label) for path in files]
    return select_samples(samples, settings.image_count)
