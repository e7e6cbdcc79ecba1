"""Imported by the children of the fault tests: loaders that outlast a test, and a look at the process."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recipes
import torch
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

torch.set_num_threads(1)


def make_loader(num_workers: int, repeats: int = 200, batch_size: int = 16, **arguments: object) -> fastload.DataLoader:
    """Makes a training loader over the folder in FASTLOAD_TEST_FOLDER (12 images), each image `repeats` times."""
    return fastload.DataLoader(
        repeated_images(recipes.training(224), repeats), batch_size=batch_size, num_workers=num_workers, **arguments
    )


def with_noise(image: torch.Tensor) -> torch.Tensor:
    """Adds noise: a transform in Python that draws."""
    return image + torch.randn(3, 1, 1)


def make_python_part_loader(
    num_workers: int, function: Callable[[torch.Tensor], Any] = with_noise, repeats: int = 20, **arguments: object
) -> fastload.DataLoader:
    """Makes such a loader for small images, with a transform in Python at the end."""
    steps = [transforms.RandomResizedCrop(32), transforms.ToTensor(), function]
    dataset = repeated_images(transforms.Compose(steps), repeats)
    loader = fastload.DataLoader(dataset, num_workers=num_workers, **{"workers": "threads", **arguments})
    assert loader.explain().startswith("partly native")
    return loader


def repeated_images(transform: object, repeats: int, **arguments: Any) -> ImageFolder:
    """Returns the images of FASTLOAD_TEST_FOLDER, each `repeats` times; `arguments` are ImageFolder's."""
    dataset = ImageFolder(os.environ["FASTLOAD_TEST_FOLDER"], transform, **arguments)
    dataset.samples = dataset.samples * repeats
    return dataset


def python_part_threads() -> list[threading.Thread]:
    """Returns this process's threads that run the user's Python for a loader."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("fastload-python")]


def num_threads() -> int:
    """Returns the number of this process's threads that load."""
    return num_native_threads() + len(python_part_threads())


def num_native_threads() -> int:
    """Returns the number of this process's threads with the engine's names."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            names.append(path.read_text())
    return sum(name.startswith("fastload-w") for name in names)


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Waits for `condition`; returns whether it became true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()
