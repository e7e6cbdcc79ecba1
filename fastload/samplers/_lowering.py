"""Index batches as int64 arrays: the indices torch's samplers give, without Python code per index.

Note [lazy draws]: a generator may be shared with user code, so after each batch it must be in the state that torch's
samplers leave it in: nothing is drawn before the batch that needs it, and RandomSampler's last permutation is drawn
even where none of it is used.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch.utils.data import sampler as torch_samplers

IndexBatch = NDArray[np.int64]


class BadIndicesError(Exception):
    """An index of one batch is none. It is that batch's error: the sampler did not fail and can be asked on.

    Attributes:
        before: The indices before it, whose samples torch loads.
    """

    def __init__(self, text: str, before: Iterable[int] = ()) -> None:
        super().__init__(text)
        self.before: IndexBatch = np.fromiter(before, dtype=np.int64)


class IndexTypeError(BadIndicesError, TypeError):
    """An index is not an int, or a batch is not iterable."""


class IndexSizeError(BadIndicesError, IndexError):
    """An index has more than 64 bits."""


# RandomSampler draws with replacement in calls of this many.
_DRAWS_PER_CALL = 32


def lower_batch_sampler(loader: Any, begun: Iterator[Any] | None = None) -> Iterator[IndexBatch] | None:
    """Start one pass over the index batches of a DataLoader.

    Call it where torch calls ``iter(index_sampler)``: a sampler of the user's may draw random numbers in its
    ``__iter__``. torch's own samplers draw at the first ``next``.

    Args:
        loader: A ``torch.utils.data.DataLoader`` or an object with its ``batch_sampler``.
        begun: An iterator of that batch sampler from which nothing was taken yet. It is used instead of a new one where
            the sampler is not torch's own: samplers may count how often they are asked.

    Returns:
        An iterator of int64 arrays, which may be views of a larger one and must not be written; None where automatic
        batching is off. Indices are as the sampler gave them: negative or out of range ones too.

    Raises:
        IndexTypeError: From the iterator: an index is not an int. Keys of other types are for data sets that take them;
            one whose items are files in a list does not.
        IndexSizeError: From the iterator: an int of more than 64 bits.
    """
    batch_sampler = loader.batch_sampler
    if batch_sampler is None:
        return None
    if _is_torchs_batches(batch_sampler):
        sampler = batch_sampler.sampler
        if _is_torchs_own(sampler, SequentialSampler):
            return _batches(batch_sampler, lambda: _Range(sampler))
        if _is_torchs_own(sampler, RandomSampler) and _draws_as_this_torch():
            return _batches(batch_sampler, lambda: _random_source(sampler))
    return map(_index_array, iter(batch_sampler) if begun is None else begun)


def sequential_key(batch_sampler: Any) -> tuple[int, int, bool] | None:
    """What decides the index batches of a batch sampler that is known to give the same ones again, and to draw nothing:
    length, batch size and drop_last. None for any other."""
    if not _is_torchs_batches(batch_sampler):
        return None
    sampler = batch_sampler.sampler
    if not _is_torchs_own(sampler, SequentialSampler):
        return None
    return len(sampler.data_source), batch_sampler.batch_size, batch_sampler.drop_last


def _is_torchs_batches(batch_sampler: Any) -> bool:
    """Whether it is torch's, with a size for which torch's own ``__iter__`` does not raise."""
    return _is_torchs_own(batch_sampler, BatchSampler) and batch_sampler.batch_size <= sys.maxsize


def _is_torchs_own(sampler: Any, kind: type) -> bool:
    """Whether `sampler` is exactly a `kind`, whose ``__iter__`` nobody replaced."""
    return type(sampler) is kind and getattr(kind.__iter__, "__globals__", None) is vars(torch_samplers)


class _IndexSource(Protocol):
    """Indices in pieces, drawn when asked for."""

    def more(self, wanted: int) -> IndexBatch | None:
        """The next piece, of any length; draws no more calls than `wanted` indices need. None at the end, for good."""


class _Range:
    """SequentialSampler."""

    def __init__(self, sampler: SequentialSampler) -> None:
        self._next = 0
        self._stop = len(sampler.data_source)

    def more(self, wanted: int) -> IndexBatch | None:
        start, self._next = self._next, min(self._next + wanted, self._stop)
        return np.arange(start, self._next, dtype=np.int64) if start < self._next else None


class _Permutations:
    """RandomSampler without replacement: whole permutations, then one of which only the rest is used."""

    def __init__(self, sampler: RandomSampler) -> None:
        self._sampler = sampler
        self._length = len(sampler.data_source)
        self._generator = _generator_of(sampler)
        self._whole_left = sampler.num_samples // self._length
        self._has_rest = True

    def more(self, wanted: int) -> IndexBatch | None:
        if self._whole_left > 0:
            self._whole_left -= 1
            return self._permutation()
        if self._has_rest:
            self._has_rest = False
            return self._permutation()[: self._sampler.num_samples % self._length]
        return None

    def _permutation(self) -> IndexBatch:
        return _as_array(torch.randperm(self._length, generator=self._generator))


class _Draws:
    """RandomSampler with replacement. One call for several of torch's: the CPU generator draws one after the other."""

    def __init__(self, sampler: RandomSampler) -> None:
        self._sampler = sampler
        self._length = len(sampler.data_source)
        self._generator = _generator_of(sampler)
        self._calls_left = sampler.num_samples // _DRAWS_PER_CALL
        self._has_rest = True

    def more(self, wanted: int) -> IndexBatch | None:
        if self._calls_left > 0:
            calls = min(self._calls_left, -(-wanted // _DRAWS_PER_CALL))
            self._calls_left -= calls
            return self._draw(calls * _DRAWS_PER_CALL)
        if self._has_rest:
            self._has_rest = False
            return self._draw(self._sampler.num_samples % _DRAWS_PER_CALL)
        return None

    def _draw(self, count: int) -> IndexBatch:
        draws = torch.randint(high=self._length, size=(count,), dtype=torch.int64, generator=self._generator)
        return _as_array(draws)


def _random_source(sampler: RandomSampler) -> _IndexSource:
    return _Draws(sampler) if sampler.replacement else _Permutations(sampler)


def _generator_of(sampler: RandomSampler) -> torch.Generator:
    generator: torch.Generator | None = sampler.generator
    if generator is None:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        generator = torch.Generator()
        generator.manual_seed(seed)
    return generator


def _as_array(indices: torch.Tensor) -> IndexBatch:
    array: IndexBatch = indices.numpy(force=True)
    return array


class _Reader:
    """Cuts a source's pieces into the lengths asked for."""

    def __init__(self, source: _IndexSource) -> None:
        self._source = source
        self._piece: IndexBatch = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> IndexBatch:
        """The next `count` indices; fewer at the end."""
        if len(self._piece) < count:
            self._fill(count)
        taken, self._piece = self._piece[:count], self._piece[count:]
        return taken

    def _fill(self, count: int) -> None:
        pieces = [self._piece]
        missing = count - len(self._piece)
        while missing > 0 and (piece := self._source.more(missing)) is not None:
            pieces.append(piece)
            missing -= len(piece)
        filled = [piece for piece in pieces if len(piece)]
        self._piece = filled[0] if len(filled) == 1 else np.concatenate(pieces)


def _batches(batch_sampler: BatchSampler, make_source: Any) -> Iterator[IndexBatch]:
    """BatchSampler. Like it, reads its settings when the first batch is asked for, and the size again for each one."""
    reader = _Reader(make_source())
    if batch_sampler.drop_last:
        batch_size = batch_sampler.batch_size
        while len(batch := reader.take(batch_size)) == batch_size:
            yield batch
    else:
        while len(batch := reader.take(batch_sampler.batch_size)):
            yield batch


@functools.cache
def _draws_as_this_torch() -> bool:
    """Whether the installed torch's RandomSampler draws as the classes above do; asked by trying, once a process."""
    for length, num_samples, replacement in ((7, None, False), (5, 12, False), (1000, 99, True), (3, 32, True)):
        mine, theirs = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
        sampler = RandomSampler(range(length), replacement, num_samples, mine)
        reference = list(RandomSampler(range(length), replacement, num_samples, theirs))
        if _Reader(_random_source(sampler)).take(num_samples or length + 1).tolist() != reference:
            return False
        if num_samples is None and not torch.equal(mine.get_state(), theirs.get_state()):
            return False
    return True


def _index_array(batch: Iterable[Any]) -> IndexBatch:
    """One batch of a sampler that is not torch's own."""
    if isinstance(batch, torch.Tensor):
        batch = batch.numpy(force=True)
    if isinstance(batch, np.ndarray) and batch.ndim == 1 and batch.dtype.kind == "i":
        return batch.astype(np.int64)
    indices = _as_list(batch)
    if not set(map(type, indices)) - {int}:
        try:
            return np.fromiter(indices, dtype=np.int64, count=len(indices))
        except OverflowError:
            pass
    return _checked_one_by_one(indices)


def _as_list(batch: Iterable[Any]) -> list[Any]:
    try:
        return list(batch)
    except TypeError as error:
        raise IndexTypeError(str(error)) from None


def _checked_one_by_one(values: list[Any]) -> IndexBatch:
    indices: list[int] = []
    for value in values:
        try:
            index = operator.index(value)
        except TypeError:
            raise IndexTypeError(
                f"list indices must be integers, but the sampler gave {value!r} of type {type(value).__name__}", indices
            ) from None
        if not -(1 << 63) <= index < 1 << 63:
            raise IndexSizeError(f"list index out of range: {index}", indices)
        indices.append(index)
    return np.array(indices, dtype=np.int64)
