"""Index batches as int64 arrays: the indices that a batch sampler gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from fastload._process._interrupts import keep
from fastload.samplers._index_array import BadIndicesError, IndexBatch, index_array
from fastload.samplers._own_batches import OwnBatches, own_batches
from fastload.samplers._sampled import Sampled


class IndexBatches(Protocol):
    """One pass over the index batches of a sampler.

    Attributes:
        own: The pass itself, where the samplers are torch's own or ours.
        num_asked: Batches that another sampler was asked for.
    """

    @property
    def own(self) -> OwnBatches | None: ...

    @property
    def num_asked(self) -> int: ...

    def give(self, given: list[IndexBatch | BadIndicesError]) -> None:
        """Appends the next one to the empty list `given`, or nothing where there is none, in one step.

        Indices are as the sampler gave them: negative or out of range ones too. Arrays may be views of a larger one and
        must not be written. In the place of indices that are none stands why. Raises what the sampler raises.
        """

    def check_end(self) -> None:
        """Called when there is no more. Raises RuntimeError where an interrupt has ended the sampler early."""


def lower_batch_sampler(
    loader: Any, begun: Iterator[Any] | None = None, num_passed: int = 0
) -> OwnBatches | _ConvertedBatches | None:
    """Start one pass over the index batches of a DataLoader.

    Call it where torch calls ``iter(index_sampler)``: a sampler of the user's may draw random numbers in its
    ``__iter__``. torch's own samplers draw at the first ``next``.

    Args:
        loader: A ``torch.utils.data.DataLoader`` or an object with its ``batch_sampler``.
        begun: An iterator of that batch sampler from which nothing was taken yet. It is used instead of a new one where
            the sampler is not torch's own: samplers may count how often they are asked.
        num_passed: Batches that were taken from it before.

    Returns:
        None where automatic batching is off.
    """
    batch_sampler = loader.batch_sampler
    if batch_sampler is None:
        return None
    return own_batches(batch_sampler) or _ConvertedBatches(
        Sampled(iter(batch_sampler) if begun is None else begun, batch_sampler, num_passed)
    )


class _ConvertedBatches:
    """Batches of a sampler that is not torch's own."""

    own = None

    def __init__(self, sampled: Sampled) -> None:
        self._sampled = sampled
        self._taken: list[Any] = []
        self._converted: list[IndexBatch | BadIndicesError] | None = None  # once it is, until it is given

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
        keep(given, self._converted.pop)

    def check_end(self) -> None:
        self._sampled.check_end()


def _converted(batch: Any) -> IndexBatch | BadIndicesError:
    try:
        return index_array(batch)
    except BadIndicesError as error:
        return error
