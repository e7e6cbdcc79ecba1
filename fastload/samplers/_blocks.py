"""The order of an epoch in which each node reads its own part of the data: arithmetic alone.

Note [blocks]
A block is a range of `block_size` indices, as a shard has them. The blocks are permuted once for a run, and the line of
their samples is cut into `num_groups` ranges of equal length, also inside of blocks; the first of them have one sample
more where that does not come out even. In each epoch the blocks of a group are permuted, and its samples are shuffled
inside of windows of `window_blocks` blocks. Position q of the epoch is sample q div num_groups of group q mod
num_groups.

So with n samples positions 0 to n - 1 are each sample once, and from n on a group begins anew. Node m of M, which gets
the positions q with q mod M = m, gets the groups g with g mod M = m alone wherever M divides num_groups; and what is at
a position does not depend on M.

For example 10 samples in blocks of 3 and two groups: the line may be 6 7 8 | 9 | 0 1 2 | 3 4 5, of which group 0 has
6 7 8 9 0 and group 1 has 1 2 3 4 5. Two nodes read block 0 both, and of the others each its own.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Blocks:
    """The lines of all epochs.

    Attributes:
        num_samples: Of the data set, at least one for each group.
        block_size: Samples of a block; the last one may have fewer.
        window_blocks: Blocks whose samples are shuffled together.
        num_groups: Parts that are dealt out to nodes.
        shuffle: Whether anything is permuted; else the blocks and their samples are in order.
        seed: Of all permutations.
    """

    num_samples: int
    block_size: int
    window_blocks: int
    num_groups: int
    shuffle: bool
    seed: int

    def settings(self) -> dict[str, int]:
        """What decides the line beside its length and seed, by the names of a ShardedSampler's arguments."""
        return {
            "block_size": self.block_size,
            "window_blocks": self.window_blocks,
            "canonical_nodes": self.num_groups,
        }

    def at_once(self, num_nodes: int) -> tuple[int, int]:
        """How many blocks a node works on at once, and samples of these."""
        num_blocks = self.num_groups // num_nodes * self.window_blocks
        return num_blocks, min(num_blocks * self.block_size, -(-self.num_samples // num_nodes))

    def __len__(self) -> int:
        return self.num_samples

    def group_of(self, index: int) -> Indices:
        """The samples of the group that has this one, in ascending order: its node reads them in every epoch."""
        line = blocks, edges = self._line()
        block, inside = divmod(index, self.block_size)
        place = int(edges[np.flatnonzero(blocks == block)[0]]) + inside
        least, num_longer = divmod(self.num_samples, self.num_groups)
        behind_longer = place - num_longer * (least + 1)
        group = place // (least + 1) if behind_longer < 0 else num_longer + behind_longer // least
        return np.sort(_ranges(*self._pieces(line, group)))

    def dealt(self, epoch: int, positions: range) -> Indices:
        """The samples at some positions of an epoch's line. Beside the result it takes the memory of one group's part
        and of the list of blocks."""
        line = self._line()
        dealt = np.empty(len(positions), np.int64)
        # Of so many positions each is of another group; then the groups come again.
        period = self.num_groups // math.gcd(positions.step, self.num_groups)
        for first in range(min(period, len(positions))):
            of_group = positions[first::period]
            order = self._order(line, epoch, of_group.start % self.num_groups)
            places = of_group.start // self.num_groups + np.arange(len(of_group)) * (of_group.step // self.num_groups)
            dealt[first::period] = order[places % len(order)]
        return dealt

    def _line(self) -> tuple[Indices, Indices]:
        """The blocks in the order of the run, and where in the line each of them begins; then where the line ends."""
        num_blocks = -(-self.num_samples // self.block_size)
        blocks: Indices = np.arange(num_blocks)
        if self.shuffle:
            blocks = _permutation(num_blocks, self._random(b"line"))
        edges: Indices = np.arange(num_blocks + 1) * self.block_size
        edges[np.flatnonzero(blocks == num_blocks - 1)[0] + 1 :] -= num_blocks * self.block_size - self.num_samples
        return blocks, edges

    def _order(self, line: tuple[Indices, Indices], epoch: int, group: int) -> Indices:
        """The samples of a group in an epoch."""
        firsts, counts = self._pieces(line, group)
        if not self.shuffle:
            return _ranges(firsts, counts)
        random = self._random(b"epoch", epoch, group)
        order = _permutation(len(firsts), random)
        firsts, counts = firsts[order], counts[order]
        windows = np.repeat(np.arange(len(counts)) // self.window_blocks, counts)
        return _ranges(firsts, counts)[_shuffled_inside(windows, random)]

    def _pieces(self, line: tuple[Indices, Indices], group: int) -> tuple[Indices, Indices]:
        """The first sample and the number of samples of each block of a group, or of the part that lies in it."""
        blocks, edges = line
        least, num_longer = divmod(self.num_samples, self.num_groups)
        begin = group * least + min(group, num_longer)
        end = begin + least + (group < num_longer)
        inside = slice(np.searchsorted(edges, begin, "right") - 1, np.searchsorted(edges, end, "left"))
        starts = edges[:-1][inside]
        begins: Indices = np.maximum(starts, begin)
        ends: Indices = np.minimum(edges[1:][inside], end)
        return blocks[inside] * self.block_size + (begins - starts), ends - begins

    def _random(self, what: bytes, *numbers: int) -> np.random.Philox:
        """Bits that depend on the seed, on what they are for and on these numbers; the same in every NumPy."""
        name = np.array([self.seed, *numbers], np.uint64).tobytes()
        digest = hashlib.blake2b(name, digest_size=16, person=what).digest()
        return np.random.Philox(key=int.from_bytes(digest, "little"))


def _permutation(count: int, random: np.random.Philox) -> Indices:
    return np.argsort(random.random_raw(count), kind="stable")


def _shuffled_inside(windows: Indices, random: np.random.Philox) -> Indices:
    """A permutation that leaves each window where it is: `windows` are numbered in order."""
    num_bits = int(windows[-1]).bit_length()
    keys = random.random_raw(len(windows)) >> np.uint64(num_bits)
    if num_bits:
        keys |= windows.astype(np.uint64) << np.uint64(64 - num_bits)
    return np.argsort(keys, kind="stable")


def _ranges(firsts: Indices, counts: Indices) -> Indices:
    """So many numbers from each of `firsts` on, one range behind the other."""
    ends = np.cumsum(counts)
    return np.repeat(firsts - (ends - counts), counts) + np.arange(ends[-1])
