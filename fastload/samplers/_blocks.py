"""The order of an epoch in which each node reads its own part of the data: arithmetic alone.

Note [blocks]
A block is a range of `block_size` indices, like a shard. The blocks are permuted once for a run. The line of their
samples is cut into `num_groups` ranges of equal length, if need be inside of blocks; if the length does not divide
evenly, the first ranges have one sample more. In each epoch the blocks of a group are permuted, and its samples are
shuffled within windows of `window_blocks` blocks. Position q of the epoch is sample q div num_groups of group q mod
num_groups.

With n samples, positions 0 to n - 1 are each sample once, and from n on a group begins anew. Node m of M gets the
positions q with q mod M = m. If M divides num_groups, these are exactly the groups g with g mod M = m. The sample at a
position does not depend on M.

Example: 10 samples in blocks of 3 and two groups. The line may be 6 7 8 | 9 | 0 1 2 | 3 4 5. Group 0 has 6 7 8 9 0 and
group 1 has 1 2 3 4 5. Two nodes both read block 0, and each reads its own of the other blocks.
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
    """The lines of all epochs; the data set has at least one sample for each group, and the last block may be shorter.

    Without `shuffle` the blocks and their samples are in order.
    """

    num_samples: int
    block_size: int
    window_blocks: int
    num_groups: int
    shuffle: bool
    seed: int

    def settings(self) -> dict[str, int]:
        """Returns what decides the line besides its length and seed, by the names of ShardedSampler's arguments."""
        return {
            "block_size": self.block_size,
            "window_blocks": self.window_blocks,
            "canonical_nodes": self.num_groups,
        }

    def __len__(self) -> int:
        return self.num_samples

    def group_of(self, index: int) -> Indices:
        """Returns the samples of this sample's group in ascending order: its node reads them in every epoch."""
        line = blocks, edges = self._line()
        block, inside = divmod(index, self.block_size)
        place = int(edges[np.flatnonzero(blocks == block)[0]]) + inside
        least, num_longer = divmod(self.num_samples, self.num_groups)
        after_longer = place - num_longer * (least + 1)
        group = place // (least + 1) if after_longer < 0 else num_longer + after_longer // least
        return np.sort(_ranges(*self._pieces(line, group)))

    def dealt(self, epoch: int, positions: range) -> Indices:
        """Returns the samples at some positions of an epoch's line.

        Besides the result it needs memory for one group's part and for the list of blocks.
        """
        line = self._line()
        dealt = np.empty(len(positions), np.int64)
        # Within a period, each position belongs to another group; then the groups repeat.
        period = self.num_groups // math.gcd(positions.step, self.num_groups)
        for first in range(min(period, len(positions))):
            of_group = positions[first::period]
            order = self._order(line, epoch, of_group.start % self.num_groups)
            places = of_group.start // self.num_groups + np.arange(len(of_group)) * (of_group.step // self.num_groups)
            dealt[first::period] = order[places % len(order)]
        return dealt

    def _line(self) -> tuple[Indices, Indices]:
        """Returns the blocks in the order of the run, and their edges: where each begins in the line, and its end."""
        num_blocks = -(-self.num_samples // self.block_size)
        blocks: Indices = np.arange(num_blocks)
        if self.shuffle:
            blocks = _permutation(num_blocks, self._random(b"line"))
        edges: Indices = np.arange(num_blocks + 1) * self.block_size
        edges[np.flatnonzero(blocks == num_blocks - 1)[0] + 1 :] -= num_blocks * self.block_size - self.num_samples
        return blocks, edges

    def _order(self, line: tuple[Indices, Indices], epoch: int, group: int) -> Indices:
        """Returns the samples of a group in the order of an epoch."""
        firsts, counts = self._pieces(line, group)
        if not self.shuffle:
            return _ranges(firsts, counts)
        random = self._random(b"epoch", epoch, group)
        order = _permutation(len(firsts), random)
        firsts, counts = firsts[order], counts[order]
        windows = np.repeat(np.arange(len(counts)) // self.window_blocks, counts)
        return _ranges(firsts, counts)[_shuffled_inside(windows, random)]

    def _pieces(self, line: tuple[Indices, Indices], group: int) -> tuple[Indices, Indices]:
        """Returns the first sample and the number of samples of each block in a group, cut to the part inside it."""
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
        """Returns random bits that depend on the seed, the purpose and these numbers; the same in every NumPy."""
        name = np.array([self.seed, *numbers], np.uint64).tobytes()
        digest = hashlib.blake2b(name, digest_size=16, person=what).digest()
        return np.random.Philox(key=int.from_bytes(digest, "little"))


def _permutation(count: int, random: np.random.Philox) -> Indices:
    return np.argsort(random.random_raw(count), kind="stable")


def _shuffled_inside(windows: Indices, random: np.random.Philox) -> Indices:
    """Returns a permutation that leaves each window where it is: `windows` are numbered in order."""
    num_bits = int(windows[-1]).bit_length()
    keys = random.random_raw(len(windows)) >> np.uint64(num_bits)
    if num_bits:
        keys |= windows.astype(np.uint64) << np.uint64(64 - num_bits)
    return np.argsort(keys, kind="stable")


def _ranges(firsts: Indices, counts: Indices) -> Indices:
    """Returns the ranges that begin at `firsts` and have `counts` numbers, one after the other."""
    ends = np.cumsum(counts)
    return np.repeat(firsts - (ends - counts), counts) + np.arange(ends[-1])
