"""The items of a sampler, one after the other, none of which an interrupt loses: Note [interrupts]. And an index batch
of a foreign sampler as an array."""

from __future__ import annotations

import contextlib
import itertools
import operator
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler
from torch.utils.data.dataloader import _InfiniteConstantSampler

from fastload._process._interrupts import append_result, is_interrupt
from fastload.samplers._blocks import Indices
from fastload.samplers._own_batches import OwnBatches, is_torchs_own, own_batches


class Sampled:
    """One pass over a sampler, which is asked for its length; `num_passed` of its `items` were taken before.

    An interrupt inside of a sampler's own generator ends it, as it ends every generator. Then the epoch is short, and
    check_end() says so if the sampler knows its length.
    """

    def __init__(self, items: Iterator[Any], sampler: Any, num_passed: int = 0) -> None:
        self._sampler = sampler
        self._ticks = iter(range(num_passed, sys.maxsize))
        # All of this is C code, so that each item that is taken is also counted.
        self._items = map(operator.itemgetter(0), zip(items, self._ticks, strict=False))
        self._interrupt: str | None = None

    def give(self, given: list[Any]) -> None:
        """Appends the next item in one step; at the end, appends nothing. Raises what the sampler raises."""
        try:
            append_result(given, next, self._items)
        except BaseException as error:
            if is_interrupt(error):
                self._interrupt = type(error).__name__
            raise

    @property
    def num_asked(self) -> int:
        """Number of items that were taken from the iterator, even if an interrupt kept them from being given."""
        return sys.maxsize - operator.length_hint(self._ticks)

    def check_end(self) -> None:
        """Raises RuntimeError, once, if an interrupt has ended the sampler early. Call it after the last item."""
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is None:
            return
        num_given = self.num_asked
        try:
            length = len(self._sampler)
        except TypeError:
            return
        if num_given < length:
            raise RuntimeError(
                f"the epoch ends after {num_given} of {length} batches: a signal's handler raised {interrupt} while "
                f"{type(self._sampler).__name__} was asked for the next one, which has ended its iterator. Iterate "
                "over the loader again, or have the handler set a flag and look at that between two batches"
            )


def begin_pass(index_sampler: Any, begun: Iterator[Any] | None = None, num_passed: int = 0) -> OwnBatches | Sampled:
    """Starts one pass over a loader's sampler of batches or of keys.

    Call it when torch calls ``iter(index_sampler)``: a user's sampler may draw random numbers in its ``__iter__``.
    torch's own samplers draw at the first ``next``. No interrupt ends a pass over them, though these are generators.

    If the sampler is not torch's own, its iterator `begun` is used instead of a new one, because samplers may count how
    often they are asked; `num_passed` items were taken from it before.
    """
    own = own_batches(index_sampler)
    if own is not None:
        return own
    items = _nothings(index_sampler) or (iter(index_sampler) if begun is None else begun)
    return Sampled(items, index_sampler, num_passed)


def _nothings(index_sampler: Any) -> Iterator[Any] | None:
    """Returns the endless items of an iterable dataset's sampler, None or lists of None; None for any other sampler."""
    if type(index_sampler) is _InfiniteConstantSampler:
        return itertools.repeat(None)
    if is_torchs_own(index_sampler, BatchSampler) and type(index_sampler.sampler) is _InfiniteConstantSampler:
        return map(operator.mul, itertools.repeat([None]), map(_batch_size_of, itertools.repeat(index_sampler)))
    return None


_batch_size_of = operator.attrgetter("batch_size")


class BadIndicesError(Exception):
    """One batch has an invalid index; torch loads the samples `before` it. The sampler can give further batches."""

    def __init__(self, text: str, before: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.before: Indices = np.fromiter(before, dtype=np.int64)


class IndexTypeError(BadIndicesError, TypeError):
    """An index is not an int, or a batch is not iterable."""


class IndexSizeError(BadIndicesError, IndexError):
    """An index has more than 64 bits."""


def index_array(batch: Iterable[Any]) -> Indices | BadIndicesError:
    """Converts one batch of a sampler that is not torch's own, or returns the error that an invalid one fails with."""
    if isinstance(batch, torch.Tensor):
        batch = batch.numpy(force=True)
    if isinstance(batch, np.ndarray) and batch.ndim == 1 and batch.dtype.kind == "i":
        return batch.astype(np.int64)
    indices: list[int] = []
    try:
        values = list(batch)
    except TypeError as error:
        return IndexTypeError(str(error))
    with contextlib.suppress(TypeError):
        indices.extend(map(operator.index, values))  # up to the first that is none
    try:
        array = np.fromiter(indices, dtype=np.int64)
    except OverflowError:
        num_valid = next(at for at, index in enumerate(indices) if not -(1 << 63) <= index < 1 << 63)
        return IndexSizeError(f"list index out of range: {indices[num_valid]}", indices[:num_valid])
    if len(array) < len(values):
        value = values[len(array)]
        text = f"list indices must be integers, but the sampler gave {value!r} of type {type(value).__name__}"
        return IndexTypeError(text, indices)
    return array
