"""What a sampler gives, one after the other, so that an interrupt costs none of it: Note [interrupts]."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler
from torch.utils.data.dataloader import _InfiniteConstantSampler

from fastload._process._interrupts import is_interrupt, keep
from fastload.samplers._own_batches import OwnBatches, is_torchs_own, own_batches


class Sampled:
    """One pass over a sampler.

    An interrupt inside of a sampler's own generator ends it, as it ends every generator. Then the epoch is short, and
    says so where the sampler knows its length.

    Args:
        items: The sampler's iterator.
        sampler: Asked for its length.
        num_passed: Items that were taken from the iterator before.
    """

    own = None  # of torch's own samplers, as of IndexBatches

    def __init__(self, items: Iterator[Any], sampler: Any, num_passed: int = 0) -> None:
        self._sampler = sampler
        self._ticks = iter(range(num_passed, sys.maxsize))
        # All of it C code: what was taken is counted.
        self._items = map(operator.itemgetter(0), zip(items, self._ticks, strict=False))
        self._interrupt: str | None = None

    def give(self, given: list[Any]) -> None:
        """Appends the next item, or nothing where there is none, in one step. Raises what the sampler raises."""
        try:
            keep(given, next, self._items)
        except BaseException as error:
            if is_interrupt(error):
                self._interrupt = type(error).__name__
            raise

    @property
    def num_asked(self) -> int:
        """Items that were taken from the iterator, whether an interrupt has kept them from being given or not."""
        return sys.maxsize - operator.length_hint(self._ticks)

    def item(self, given: Any) -> Any:
        """What the sampler gave, of what give() appended."""
        return given

    def check_end(self) -> None:
        """Called when there is no more. Raises RuntimeError, once, where an interrupt has ended the sampler early."""
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


class SampledLists:
    """Lists of ints."""

    num_asked = 0

    def __init__(self, batches: OwnBatches) -> None:
        self.own = batches

    def give(self, given: list[Any]) -> None:
        self.own.give(given)

    def item(self, given: Any) -> Any:
        """What the sampler gave, of what give() appended."""
        return given.tolist()

    def check_end(self) -> None:
        """No interrupt ends it."""


def sampled_keys(index_sampler: Any, begun: Iterator[Any] | None, num_passed: int = 0) -> Sampled | SampledLists:
    """What a loader's sampler of batches or of keys gives; the others as of lower_batch_sampler().

    Where the samplers are torch's own, which are generators, an interrupt does not end it.
    """
    own = own_batches(index_sampler)
    if own is not None:
        return SampledLists(own)
    items = _nothings(index_sampler) or (iter(index_sampler) if begun is None else begun)
    return Sampled(items, index_sampler, num_passed)


def _nothings(index_sampler: Any) -> Iterator[Any] | None:
    """What the sampler of an iterable dataset gives: nothing, again and again, or lists of that."""
    if type(index_sampler) is _InfiniteConstantSampler:
        return itertools.repeat(None)
    if is_torchs_own(index_sampler, BatchSampler) and type(index_sampler.sampler) is _InfiniteConstantSampler:
        return map(operator.mul, itertools.repeat([None]), map(_batch_size_of, itertools.repeat(index_sampler)))
    return None


_batch_size_of = operator.attrgetter("batch_size")
