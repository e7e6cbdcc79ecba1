"""One batch of indices as an int64 array."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

IndexBatch = NDArray[np.int64]


class BadIndicesError(Exception):
    """One batch has an invalid index. Only that batch fails: the sampler did not, and can give further batches.

    Attributes:
        before: The indices before the invalid one, whose samples torch loads.
    """

    def __init__(self, text: str, before: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.before: IndexBatch = np.fromiter(before, dtype=np.int64)


class IndexTypeError(BadIndicesError, TypeError):
    """An index is not an int, or a batch is not iterable."""


class IndexSizeError(BadIndicesError, IndexError):
    """An index has more than 64 bits."""


def index_array(batch: Iterable[Any]) -> IndexBatch | BadIndicesError:
    """Converts one batch of a sampler that is not torch's own, or returns the error that an invalid one fails with."""
    if isinstance(batch, torch.Tensor):
        batch = batch.numpy(force=True)
    if isinstance(batch, np.ndarray) and batch.ndim == 1 and batch.dtype.kind == "i":
        return batch.astype(np.int64)
    try:
        indices = list(batch)
    except TypeError as error:
        return IndexTypeError(str(error))
    if not set(map(type, indices)) - {int}:
        try:
            return np.fromiter(indices, dtype=np.int64, count=len(indices))
        except OverflowError:
            pass
    return _checked_one_by_one(indices)


def _checked_one_by_one(values: list[Any]) -> IndexBatch | BadIndicesError:
    indices: list[int] = []
    for value in values:
        try:
            index = operator.index(value)
        except TypeError:
            return IndexTypeError(
                f"list indices must be integers, but the sampler gave {value!r} of type {type(value).__name__}", indices
            )
        if not -(1 << 63) <= index < 1 << 63:
            return IndexSizeError(f"list index out of range: {index}", indices)
        indices.append(index)
    return np.array(indices, dtype=np.int64)
