"""Numbers for an epoch's draws, for samplers that may give a sample more than once.

With rng="sample" each draw is then an image of its own. The padding of a last round is no draw: it repeats the images.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import BatchSampler, RandomSampler, WeightedRandomSampler

from fastload.samplers._seeded_shuffle import sharded_in
from fastload.samplers._sharded_sampler import ShardedSampler
from fastload.samplers._shards import ResumePoint

# Numbers of the samples of a batch, in its order: uint32 [samples].
Numbers = NDArray[np.uint32]

_PIECE = 2**16


class DrawNumbers(NamedTuple):
    """The draw numbers of an iteration's samples: `first`, and each next one is `stride` larger.

    A number is the sample's position in the epoch, counted over all ranks.
    """

    first: int
    stride: int

    def of(self, num_before: int, count: int) -> Numbers:
        """Returns the numbers of the `count` samples after the first `num_before`, mod 2**32: Note [counter layout]."""
        first = (self.first + self.stride * num_before) % 2**32
        return ((first + self.stride % 2**32 * np.arange(count)) % 2**32).astype(np.uint32)


class NumberedBatches(list[Any]):
    """Index batches taken out of an epoch, used as a batch sampler; each but the last has `size` samples."""

    def __init__(self, batches: Iterable[list[int]], numbers: DrawNumbers, size: int) -> None:
        super().__init__(batches)
        self.numbers = numbers
        self.size = size


def numbers_of(index_sampler: Any) -> DrawNumbers | None:
    """Returns the numbers of the iteration over `index_sampler` that began last, or else of the next one.

    None if no sample comes twice, as far as is known.
    """
    if isinstance(index_sampler, NumberedBatches):
        return index_sampler.numbers
    sampler = index_sampler.sampler if type(index_sampler) is BatchSampler else index_sampler
    sharded = sharded_in(sampler)
    if sharded is not None:
        shards = sharded._shards
        number = shards.number_at(sharded._begun())
        return None if number is None else DrawNumbers(number, shards.num_replicas)
    return DrawNumbers(0, 1) if _draws_again(sampler) else None


def size_of(index_sampler: Any) -> int:
    """Returns the number of samples in one item of a batch sampler that numbers_of() knows."""
    if isinstance(index_sampler, NumberedBatches):
        return index_sampler.size
    return index_sampler.batch_size if type(index_sampler) is BatchSampler else 1


def _draws_again(sampler: Any) -> bool:
    if isinstance(sampler, WeightedRandomSampler):
        return bool(sampler.replacement)
    if isinstance(sampler, RandomSampler):
        return sampler.replacement or sampler.num_samples > len(sampler.data_source)
    return False


def first_number_of(sampler: ShardedSampler, index: int, epoch: int) -> int | None:
    """Returns the position of a sample's first draw among all ranks' draws in an epoch; None if it is not drawn."""
    shards = sampler._shards
    everybody = replace(shards, length=shards.num_steps() * shards.num_replicas, num_replicas=1, rank=0)
    num_before = 0
    while len(piece := everybody.piece(ResumePoint(epoch, 0), num_before, _PIECE)):
        places = np.flatnonzero(piece == index)
        if len(places):
            return num_before + int(places[0])
        num_before += len(piece)
    return None
