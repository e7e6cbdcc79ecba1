"""Lowered batch samplers as iterators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fastload.samplers import _own_batches
from fastload.samplers._sampled import Sampled, begin_pass, index_array


def lower(batch_sampler: object) -> BatchIterator:
    """Returns the batches that a loader gets from a batch sampler."""
    return BatchIterator(begin_pass(batch_sampler))


class BatchIterator(Iterator[np.ndarray[Any, Any]]):
    """The batches; an error that comes instead of one is raised."""

    def __init__(self, batches: _own_batches.OwnBatches | Sampled) -> None:
        self._batches = batches
        self.is_own = isinstance(batches, _own_batches.OwnBatches)

    def __next__(self) -> np.ndarray[Any, Any]:
        given: list[Any] = []
        self._batches.give(given)
        if not given:
            raise StopIteration
        batch = given[0] if self.is_own else index_array(given[0])
        if isinstance(batch, Exception):
            raise batch
        return batch
