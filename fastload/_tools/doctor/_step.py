"""How long a training step takes."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from fastload._loader._loader import DataLoader

_NUM_BATCHES = 4
_NUM_WARMUPS = 3
_NUM_STEPS = 20
_SECONDS = 5.0


def measured_step_seconds(loader: DataLoader[Any], train_step: Callable[[Any], object]) -> float:
    """Median time of calls with batches that are there already, the work of the GPU included.

    Raises:
        ValueError: The loader gives no batch.
        Exception: What the loader or `train_step` raises.
    """
    batches = list(itertools.islice(loader, _NUM_BATCHES))
    loader.close()
    if not batches:
        raise ValueError("the loader gives no batch, so there is nothing to measure")
    times: list[float] = []
    deadline = time.perf_counter() + _SECONDS
    for number, batch in enumerate(itertools.cycle(batches)):
        begin = time.perf_counter()
        train_step(batch)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if number >= _NUM_WARMUPS:
            times.append(time.perf_counter() - begin)
        if len(times) >= _NUM_STEPS or (times and time.perf_counter() > deadline):
            return statistics.median(times)
    raise AssertionError("a cycle does not end")
