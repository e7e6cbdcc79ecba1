"""Index batches as int64 arrays: the indices that a batch sampler gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from fastload._process._interrupts import append_result
from fastload.samplers._index_array import BadIndicesError, IndexBatch, index_array
from fastload.samplers._own_batches import OwnBatches, own_batches
from fastload.samplers._sampled import Sampled


class IndexBatches(Protocol):
    """One pass over the index batches of a sampler.

    Attributes:
        own: The pass itself if the samplers are torch's own or fastload's; else None.
        num_asked: Number of batches that a user's sampler was asked for.
    """

    @property
    def own(self) -> OwnBatches | None: ...

    @property
    def num_asked(self) -> int: ...

    def give(self, given: list[IndexBatch | BadIndicesError]) -> None:
        """Appends the next batch to the empty list `given` in one step; at the end, appends nothing.

        Indices are as the sampler gave them, even if negative or out of range. Arrays may be views of a larger one and
        must not be written. An invalid batch is appended as its error. Raises what the sampler raises.
        """

    def check_end(self) -> None:
        """Raises RuntimeError if an interrupt has ended the sampler early. Call it after the last batch."""


def lower_batch_sampler(
    batch_sampler: Any, begun: Iterator[Any] | None = None, num_passed: int = 0
) -> OwnBatches | _ConvertedBatches:
    """Starts one pass over the index batches of a loader's batch sampler.

    Call it when torch calls ``iter(index_sampler)``: a user's sampler may draw random numbers in its ``__iter__``.
    torch's own samplers draw at the first ``next``.

    Args:
        batch_sampler: Any iterable of batches.
        begun: An unused iterator of it. If the sampler is not torch's own, it is used instead of a new one, because
            samplers may count how often they are asked.
        num_passed: Number of batches that were taken from it before.
    """
    return own_batches(batch_sampler) or _ConvertedBatches(
        Sampled(iter(batch_sampler) if begun is None else begun, batch_sampler, num_passed)
    )


class _ConvertedBatches:
    """The batches of a sampler that is not torch's own."""

    own = None

    def __init__(self, sampled: Sampled) -> None:
        self._sampled = sampled
        self._taken: list[Any] = []
        self._converted: list[IndexBatch | BadIndicesError] | None = None  # from its conversion until it is given

    @property
    def num_asked(self) -> int:
        return self._sampled.num_asked

    def give(self, given: list[IndexBatch | BadIndicesError]) -> None:
        if self._converted is not None and not self._converted:
            self._taken, self._converted = [], None
        if not self._taken:
            self._sampled.give(self._taken)
            if not self._taken:
                return
        if self._converted is None:
            self._converted = [_converted(self._taken[0])]
        append_result(given, self._converted.pop)

    def check_end(self) -> None:
        self._sampled.check_end()


def _converted(batch: Any) -> IndexBatch | BadIndicesError:
    """Converts one batch of a sampler that is not torch's own, to an array or to the error that it fails with."""
    try:
        return index_array(batch)
    except BadIndicesError as error:
        return error
