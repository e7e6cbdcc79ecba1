"""The samples of an epoch, dealt out to the ranks of a process group: arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload.samplers._blocks import Blocks


class Place(NamedTuple):
    """Where all ranks together are.

    Attributes:
        epoch: Whose order counts.
        position: Samples of it that were dealt to all ranks together.
    """

    epoch: int
    position: int


@dataclass(frozen=True)
class Shards:
    """One rank's part of every epoch.

    An epoch is a line of positions: of a permutation of the samples, of the samples in order, or of draws. From any
    position on they are dealt out in turn, one to each rank, until the line ends. So where all ranks are is one number,
    and any number of ranks goes on from there with what is left.

    Attributes:
        num_samples: Of the data set.
        length: Of an epoch's line.
        num_replicas: Ranks.
        rank: Whose part it is.
        shuffle: Whether the line is a permutation; else the samples are in order.
        seed: Of permutations and draws.
        drop_last: What becomes of a last round that does not suffice for all ranks: it is left out, or filled up.
        infinite: Whether the lines of the epochs follow each other without an end.
        cumulative: Sums of the weights that samples are drawn by, float64 [num_samples]; None where none are.
        num_nodes: Machines that the ranks are on, equally many on each, one behind the other.
        blocks: The line, where each node gets its own part of the samples: Note [blocks]. None: it is a permutation of
            all, and the nodes do not matter.
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
        """How many samples each rank gets from `position` to the end of the epoch: one number for all ranks."""
        rest = self.length - position
        return rest // self.num_replicas if self.drop_last else -(-rest // self.num_replicas)

    def num_real(self, position: int = 0) -> int:
        """How many of this rank's are no repeats. These come first."""
        return min(self.num_steps(position), len(range(self._first(position), self.length, self.num_replicas)))

    @property
    def may_repeat(self) -> bool:
        """Whether an epoch, or epochs without an end, may have a sample more than once, padding apart."""
        return self.infinite or self.cumulative is not None

    def number_at(self, place: Place) -> int:
        """The number of the draw that this rank gets at a place: one for all worlds. Epochs without an end count on."""
        return (place.epoch * self.length if self.infinite else 0) + self._first(place.position)

    def positions(self, position: int = 0) -> range:
        """This rank's, from `position` to the epoch's end; those from `length` on are repeats, or further draws."""
        first = self._first(position)
        return range(first, first + self.num_steps(position) * self.num_replicas, self.num_replicas)

    def _first(self, position: int) -> int:
        """This rank's first place from `position` on. Node m of M gets the places q with q mod M = m, its ranks in
        turn, so that each round of all ranks is as many places in a row; with one node rank r gets the r-th of them."""
        node, local = divmod(self.rank, self.num_replicas // self.num_nodes)
        return position + (node - position) % self.num_nodes + local * self.num_nodes

    def behind(self, place: Place, num_given: int) -> Place:
        """Where all ranks are when each has got so many samples from `place` on; a finished epoch ends at `length`."""
        position = place.position + num_given * self.num_replicas
        if self.infinite:
            epochs, position = divmod(position, self.length)
            return Place(place.epoch + epochs, position)
        is_over = num_given >= self.num_steps(place.position)
        return Place(place.epoch, self.length if is_over else position)

    def piece(self, place: Place, num_given: int, most: int) -> NDArray[np.int64]:
        """Some of this rank's samples, the first of them behind `num_given` from `place` on; none at the end.

        Args:
            place: Where the ranks began.
            num_given: Samples that came before.
            most: So many suffice. A permutation, which costs its whole length, gives all that it has.

        Returns:
            Indices in the data set, int64.
        """
        epoch, positions = place.epoch, self.positions(place.position)[num_given:]
        if self.infinite:
            later, first = divmod(place.position + self.rank + num_given * self.num_replicas, self.length)
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
        # From the right: from the left a draw of 0 would give a first sample of weight 0.
        indices: NDArray[np.int64] = np.searchsorted(cumulative, draws * cumulative[-1], side="right")
        return indices


def _array(positions: range) -> NDArray[np.int64]:
    return np.arange(positions.start, positions.stop, positions.step, dtype=np.int64)
