"""Imported by the children of the fault tests: a loader that outlasts a test, and a look at the process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import recipes
import torch
from torchvision.datasets import ImageFolder

import fastload

torch.set_num_threads(1)


def make_loader(num_workers: int, repeats: int = 200, batch_size: int = 16, **arguments: object) -> fastload.DataLoader:
    """A training loader over the folder named by FASTLOAD_TEST_FOLDER (12 images), each image `repeats` times."""
    dataset = ImageFolder(os.environ["FASTLOAD_TEST_FOLDER"], recipes.training(224))
    dataset.samples = dataset.samples * repeats
    return fastload.DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, **arguments)


def num_native_threads() -> int:
    """Threads of this process with the engine's names."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            names.append(path.read_text())
    return sum(name.startswith("fastload-w") for name in names)


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> bool:
    """Whether `condition` became true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def resident_mib() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
