"""Samplers that users bring, each made anew from a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


class Counting(Sampler[Any]):
    """Counts its iterators and keys; draws when an iterator is requested."""

    def __init__(self, keys: list[Any]) -> None:
        self.keys = keys
        self.log: list[str] = []

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        torch.rand(1)
        self.log.append("iter")
        return map(self._give, self.keys)

    def _give(self, key: Any) -> Any:
        self.log.append(f"{key}")
        return key


class WithoutLength:
    def __iter__(self) -> Iterator[int]:
        yield from (3, 1, 2)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda _: [5, 0, 3, 3, 10],
    "empty": lambda _: [],
    "range": lambda _: range(10, 0, -2),
    "numpy": lambda _: np.array([4, 2, 0, 1]),
    "tensor": lambda _: torch.tensor([4, 2, 0, 1]),
    "tensors in a list": lambda _: list(torch.tensor([4, 2, 0, 1])),
    "numpy ints": lambda _: [np.int32(4), np.int64(2), np.uint8(1)],
    "bools": lambda _: [True, False, True],
    "negative": lambda _: [-1, -11, 0],
    "generator function": lambda _: WithoutLength(),
    "counting": lambda dataset: Counting(list(range(len(dataset)))),
    "sequential": SequentialSampler,
    "random": lambda dataset: RandomSampler(dataset, generator=seeded()),
    "random with replacement": lambda dataset: RandomSampler(dataset, True, 20, seeded()),
    "random without a generator": RandomSampler,
    "subset": lambda _: SubsetRandomSampler(range(2, 9), seeded()),
    "weighted": lambda dataset: WeightedRandomSampler(torch.arange(1.0, len(dataset) + 1), 13, generator=seeded()),
    "distributed": lambda dataset: DistributedSampler(dataset, 3, 1, seed=4),
    "distributed, dropping": lambda dataset: DistributedSampler(dataset, 3, 2, shuffle=False, drop_last=True),
}

BATCH_SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda _: [[0, 1], [2], [5, 4, 3]],
    "tuples": lambda _: [(0, 1), (2,)],
    "none": lambda _: [],
    "empty batch": lambda _: [[0], [], [1]],
    "arrays": lambda _: np.arange(6).reshape(3, 2),
    "tensors": lambda _: torch.arange(6).reshape(3, 2),
    "torch's over a list": lambda _: BatchSampler([3, 2, 1, 0, 4], 2, True),
    "torch's over a random": lambda dataset: BatchSampler(RandomSampler(dataset, generator=seeded()), 3, False),
    "counting": lambda _: Counting([[0, 1], [2], [3, 4], [5], [6], [7]]),
}
