"""The number of samples in a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import torch

from fastload._process._config import TorchDataLoader


class SampleCount:
    """Counts the samples of a loader's batches: from its settings if they tell, else from the batches.

    Args:
        loader: The loader of the batches.
    """

    def __init__(self, loader: TorchDataLoader[Any]) -> None:
        self._batch_size = loader.batch_size
        self._is_batched = loader.batch_size is not None or loader.batch_sampler is not None
        self._total: int | None = None
        if loader.batch_size is not None and isinstance(loader.sampler, Sized):
            try:
                self._total = len(loader.sampler)
            except TypeError:  # a sampler over data without a length
                self._total = None
        self._given = 0

    def begin_epoch(self) -> None:
        self._given = 0

    def of(self, batch: Any) -> int:
        """Returns the number of samples in the next batch of this epoch."""
        if not self._is_batched:
            return 1
        if self._batch_size is None or self._total is None:
            return max(1, _longest(batch))
        count = min(self._batch_size, max(1, self._total - self._given))
        self._given += count
        return count


def _longest(batch: Any) -> int:
    """Returns the length of the longest part: a list of views is shorter than the labels beside it."""
    if isinstance(batch, Mapping):
        return max(map(_length, batch.values()), default=0)
    if isinstance(batch, (list, tuple)):
        return max(map(_length, batch), default=0)
    return _length(batch)


def _length(part: Any) -> int:
    if isinstance(part, torch.Tensor):
        return len(part) if part.dim() else 1
    return len(part) if isinstance(part, Sized) and not isinstance(part, (str, bytes)) else 1
