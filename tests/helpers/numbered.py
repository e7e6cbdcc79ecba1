"""The map data set that tests derive theirs from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import Dataset

NUM_SAMPLES = 23


class Numbered(Dataset[Any]):
    """Sample i is what the class's method makes of i."""

    def __init__(self, length: int = NUM_SAMPLES) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.sample(range(self.length)[index])

    def sample(self, index: int) -> Any:
        return torch.full((2, 3), float(index)), index


class Made(Numbered):
    """Sample i is the result of a function for i."""

    def __init__(self, make: Callable[[int], Any], length: int) -> None:
        super().__init__(length)
        self.make = make

    def sample(self, index: int) -> Any:
        return self.make(index)
