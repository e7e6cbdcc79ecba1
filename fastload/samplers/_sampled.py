"""The items of a sampler, one after the other, none of which an interrupt loses: Note [interrupts]."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler
from torch.utils.data.dataloader import _InfiniteConstantSampler

from fastload._process._interrupts import append_result, is_interrupt
from fastload.samplers._own_batches import OwnBatches, is_torchs_own, own_batches


class Sampled:
    """One pass over a sampler, which is asked for its length; `num_passed` of its `items` were taken before.

    An interrupt inside of a sampler's own generator ends it, as it ends every generator. Then the epoch is short, and
    check_end() says so if the sampler knows its length.
    """

    own = None

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

    Args:
        index_sampler: Any iterable.
        begun: An unused iterator of it. If the sampler is not torch's own, it is used instead of a new one, because
            samplers may count how often they are asked.
        num_passed: Number of items that were taken from it before.
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
