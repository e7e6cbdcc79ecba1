"""The samples of an epoch, dealt out to the ranks of a process group: arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload.samplers._blocks import Blocks


class ResumePoint(NamedTuple):
    """How far all ranks together are: the epoch, and the number of its samples that were dealt to all of them."""

    epoch: int
    position: int


@dataclass(frozen=True)
class Shards:
    """One rank's part of every epoch.

    An epoch is a line of positions in a permutation of the samples, in the samples in order, or in draws. From any
    position on they are dealt out in turn, one to each rank, until the line ends. So the progress of all ranks is one
    number, and any number of ranks can continue from there with the rest.

    The fields are ShardedSampler's arguments, but `num_samples` is the data set's, `length` the length of an epoch's
    line, and `cumulative` has the sums of the weights, float64 [num_samples]; None without weights. `blocks` make the
    line if each of the nodes gets its own part of the samples: Note [blocks].
    """

    num_samples: int
    length: int
    num_replicas: int
    rank: int
    shuffle: bool
    seed: int
    drop_last: bool
    infinite: bool
    cumulative: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    num_nodes: int = 1
    blocks: Blocks | None = None

    def num_steps(self, position: int = 0) -> int:
        """Returns how many samples each rank gets from `position` to the end of the epoch: one number for all ranks."""
        rest = self.length - position
        return rest // self.num_replicas if self.drop_last else -(-rest // self.num_replicas)

    def num_real(self, position: int = 0) -> int:
        """Returns how many of this rank's samples are no repeats. These come first."""
        return min(self.num_steps(position), len(range(self._first(position), self.length, self.num_replicas)))

    def number_at(self, point: ResumePoint) -> int | None:
        """Returns the number of this rank's draw at a point, for any number of ranks. Endless epochs count on.

        None if each sample comes once, not counting padding.
        """
        if self.infinite:
            return point.epoch * self.length + self._first(point.position)
        return None if self.cumulative is None else self._first(point.position)

    def positions(self, position: int = 0) -> range:
        """Returns this rank's positions from `position` to the end; from `length` on they are repeats or more draws."""
        first = self._first(position)
        return range(first, first + self.num_steps(position) * self.num_replicas, self.num_replicas)

    def _first(self, position: int) -> int:
        """Returns this rank's first position from `position` on.

        Node m of M gets the positions q with q mod M = m, and its ranks get them in turn, so that each round of all
        ranks is a run of consecutive positions; with one node, rank r gets the r-th of them.
        """
        node, local = divmod(self.rank, self.num_replicas // self.num_nodes)
        return position + (node - position) % self.num_nodes + local * self.num_nodes

    def after(self, point: ResumePoint, num_given: int) -> ResumePoint:
        """Returns the point after each rank got `num_given` samples from `point` on; an epoch ends at `length`."""
        position = point.position + num_given * self.num_replicas
        if self.infinite:
            epochs, position = divmod(position, self.length)
            return ResumePoint(point.epoch + epochs, position)
        is_over = num_given >= self.num_steps(point.position)
        return ResumePoint(point.epoch, self.length if is_over else position)

    def piece(self, point: ResumePoint, num_given: int, most: int) -> NDArray[np.int64]:
        """Returns some of this rank's samples, int64: the next ones after the first `num_given` from `point` on.

        `most` of them suffice; a permutation, which costs its whole length, gives all that it has. At the end there are
        none.
        """
        epoch, positions = point.epoch, self.positions(point.position)[num_given:]
        if self.infinite:
            later, first = divmod(point.position + self.rank + num_given * self.num_replicas, self.length)
            epoch, positions = epoch + later, range(first, self.length, self.num_replicas)
        if not positions:
            return np.empty(0, np.int64)
        if self.cumulative is not None:
            return self._drawn(epoch, positions[:most], self.cumulative)
        if self.blocks is not None:
            return self.blocks.dealt(epoch, positions)
        if not self.shuffle:
            return _array(positions[:most]) % self.num_samples
        generator = torch.Generator().manual_seed(self.seed + epoch)
        permutation = torch.randperm(self.num_samples, generator=generator, dtype=torch.int64, device="cpu").numpy()
        indices: NDArray[np.int64] = permutation.take(_array(positions), mode="wrap")
        return indices

    def _drawn(self, epoch: int, positions: range, cumulative: NDArray[np.float64]) -> NDArray[np.int64]:
        draws = _native.weighted_draws(self.seed, epoch, positions.start, positions.step, len(positions))
        # side="left" would give a first sample of weight 0 for a draw of 0.
        indices: NDArray[np.int64] = np.searchsorted(cumulative, draws * cumulative[-1], side="right")
        return indices


def _array(positions: range) -> NDArray[np.int64]:
    return np.arange(positions.start, positions.stop, positions.step, dtype=np.int64)
