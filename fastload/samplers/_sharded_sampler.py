"""fastload.ShardedSampler."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DistributedSampler

from fastload.samplers._blocks import Blocks
from fastload.samplers._sharding_arguments import (
    CANONICAL_NODES,
    NUM_SEEDS,
    WINDOW_BLOCKS,
    blocks_of,
    check_no_blocks,
    cumulative_of,
    dataset_of,
    num_nodes_of,
    whole,
)
from fastload.samplers._shards import ResumePoint, Shards

# Number of indices that become ints at a time.
_PIECE = 4096


@dataclass
class Pass:
    """One iteration over a sampler: its first position, and how many samples of this rank it has given."""

    begun: ResumePoint
    num_given: int = 0


class ShardedSampler(DistributedSampler[int]):
    """Deals out the samples to the ranks of a process group as torch's DistributedSampler does, and can be resumed.

    By default a rank gets exactly the list of a DistributedSampler with these arguments. With any arguments, all ranks
    get equally many samples in each epoch. A rank keeps only its own part of a permutation, 8 bytes a sample.

    The state is the number of samples that all ranks together were dealt. Any number of ranks with any batch size can
    continue from there, and each sample is given once: docs/distributed.md. All ranks load the state of one step.

    Args:
        dataset_or_length: the data set, or its number of samples.
        num_replicas: number of ranks; None: as in the process group.
        rank: rank of this process, from 0; None: as in the process group.
        shuffle: whether each epoch is a permutation of the samples, seeded by seed + epoch; else they are in order.
        seed: in [0, 2**63), the same on all ranks.
        drop_last: whether samples that do not suffice for a last round of all ranks are left out. False: the round is
            filled up with repeats from the start of the epoch.
        weights: one number >= 0 for each sample: samples are drawn with these odds, with replacement. Draw number q of
            an epoch depends on seed, epoch and q alone. An incomplete last round is filled up with further draws.
        num_samples: draws of all ranks in an epoch, only with `weights`; None: as many as there are samples.
        infinite: whether epochs follow each other without end, not padded and not cut. A batch may have samples of two
            epochs. There is no len(); DataLoader(steps=) gives one.
        block_size: samples of a block, a range of indices, for data that a node cannot keep: each node gets the same
            part of the data in every epoch, and reads a few blocks at a time. With shuffle=False each part is in order.
            None: there are no blocks, and any node may get any sample.
        window_blocks: number of blocks of a part whose samples are shuffled together.
        canonical_nodes: number of equal parts of the data. Any number of nodes that divides it gets the same global
            batches.
        nodes: number of machines, each with equally many consecutive ranks; None: from LOCAL_WORLD_SIZE.

    Attributes:
        num_samples: samples of this rank in an epoch, as in a DistributedSampler.
        total_size: samples of all ranks in an epoch, repeats included.
        dataset, num_replicas, rank, shuffle, seed, drop_last, epoch: as in a DistributedSampler.

    Raises:
        TypeError, ValueError: at construction, if arguments make no sense, or if num_replicas or rank is missing and
            there is no process group. TypeError from len() if `infinite` is set.

    Example:
        >>> sampler = fastload.ShardedSampler(dataset, num_replicas=2, rank=0, seed=1)
        >>> loader = fastload.DataLoader(dataset, batch_size=3, sampler=sampler, num_workers=2)
        >>> for epoch in range(2):
        ...     sampler.set_epoch(epoch)
        ...     for images, labels in loader:
        ...         train(images, labels)
    """

    def __init__(
        self,
        dataset_or_length: Sized | int,
        *,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        weights: Sequence[float] | NDArray[Any] | torch.Tensor | None = None,
        num_samples: int | None = None,
        infinite: bool = False,
        block_size: int | None = None,
        window_blocks: int = WINDOW_BLOCKS,
        canonical_nodes: int = CANONICAL_NODES,
        nodes: int | None = None,
    ) -> None:
        dataset = dataset_of(dataset_or_length)
        for name, value in (("shuffle", shuffle), ("drop_last", drop_last), ("infinite", infinite)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        if num_replicas is not None:
            num_replicas = whole("num_replicas", num_replicas, 1, sys.maxsize)
        if rank is not None:
            rank = whole("rank", rank, 0, sys.maxsize)
        super().__init__(
            dataset,  # type: ignore[arg-type]  # torch asks no more of it than a length
            num_replicas,
            rank,
            shuffle,
            whole("seed", seed, 0, NUM_SEEDS),
            drop_last,
        )
        self._infinite = infinite
        self._num_samples = len(dataset)
        self._blocks: Blocks | None = None
        self._nodes = 1
        self._cumulative = None if weights is None else cumulative_of(weights, len(dataset))
        self._length = len(dataset) if num_samples is None else whole("num_samples", num_samples, 1, sys.maxsize)
        self._check_together(num_samples)
        if block_size is None:
            check_no_blocks(window_blocks=window_blocks, canonical_nodes=canonical_nodes, nodes=nodes)
        else:
            self._blocks = blocks_of(self._shards, block_size, window_blocks, canonical_nodes)
            self._nodes = num_nodes_of(nodes, self.num_replicas, self._blocks)
        self.num_samples = self._shards.num_steps()
        self.total_size = self.num_samples * self.num_replicas
        self._loaded: ResumePoint | None = None  # start of the next iteration, if it is not the start of `epoch`
        self._last: Pass | None = None  # the iteration that began last, in this epoch

    def _check_together(self, num_samples: int | None) -> None:
        """Raises ValueError for arguments that make sense only without each other."""
        if num_samples is not None and self._cumulative is None:
            raise ValueError(f"num_samples={num_samples} needs weights: without them an epoch has each sample once")
        if self._cumulative is not None and not self.shuffle:
            raise ValueError("shuffle=False makes no sense with weights, by which samples are drawn: leave it out")
        if self._infinite and self.drop_last:
            raise ValueError(
                "drop_last=True makes no sense with infinite=True, where no round is the last: leave it out"
            )
        if self._infinite and self._length == 0:
            raise ValueError("infinite=True needs at least one sample, and the data set has none")

    @property
    def _shards(self) -> Shards:
        """The arithmetic for the current attributes, which may have been set meanwhile."""
        return Shards(
            self._num_samples,
            self._length,
            self.num_replicas,
            self.rank,
            self.shuffle,
            self.seed,
            self.drop_last,
            self._infinite,
            self._cumulative,
            self._nodes,
            None if self._blocks is None else replace(self._blocks, shuffle=self.shuffle, seed=self.seed),
        )

    def __iter__(self) -> Iterator[int]:
        shards, passed = self._begin([])
        while len(piece := shards.piece(passed.begun, passed.num_given, _PIECE)):
            for first in range(0, len(piece), _PIECE):
                for index in piece[first : first + _PIECE].tolist():
                    passed.num_given += 1
                    yield index

    def _begin(self, begun: list[ResumePoint]) -> tuple[Shards, Pass]:
        """Begins an iteration, and appends its resume point to the empty list `begun`. The caller counts the samples.

        A second call with the same list, after an interrupt, begins the same iteration: Note [interrupts].
        """
        if len(self.dataset) != self._num_samples:  # type: ignore[arg-type]
            raise ValueError(
                f"the data set has {len(self.dataset)} samples, and had {self._num_samples} when this sampler was "  # type: ignore[arg-type]
                "made: make a new one"
            )
        if not begun:
            begun.append(self._loaded or ResumePoint(self.epoch, 0))
        passed = Pass(begun[0])
        self._loaded, self._last = None, passed
        return self._shards, passed

    def __len__(self) -> int:
        """Returns the samples of this rank in a whole epoch, even if a state was loaded in the middle of one.

        Raises:
            TypeError: `infinite` is set.
        """
        self._check_ends()
        return self._shards.num_steps()

    @property
    def num_real(self) -> int:
        """The number of this rank's samples that are no repeats, in the iteration that began last or else the next one.

        Repeats come last, so metrics over the first `num_real` samples of each rank count every sample once.

        Raises:
            TypeError: `infinite` is set.
        """
        self._check_ends()
        return self._shards.num_real(self._begun().position)

    def real_in(self, step: int, batch_size: int) -> int:
        """Returns how many samples of one batch are no repeats; they are its first.

        Args:
            step: number of the batch in its epoch, from 0. If a state was loaded in the middle of an epoch, the first
                batch keeps the number that it would have had otherwise.
            batch_size: samples of a batch of this rank.

        Returns:
            A number from 0 to `batch_size`.

        Raises:
            ValueError: there is no such batch: it lies after the end of the epoch or before the loaded state, or the
                state ends in the middle of a batch of this size.
        """
        if self._infinite:
            return batch_size
        shards, position = self._shards, self._begun().position
        before, inside = divmod(position, self.num_replicas * batch_size)
        first = (step - before) * batch_size
        if inside or not 0 <= first < shards.num_steps(position):
            raise ValueError(
                f"step {step} with batch_size={batch_size} on {self.num_replicas} ranks is no batch of this iteration, "
                f"which began at sample {position} of an epoch of {self._length}"
            )
        return max(0, min(batch_size, shards.num_real(position) - first))

    def _check_ends(self) -> None:
        if self._infinite:
            raise TypeError("a ShardedSampler with infinite=True has no length; DataLoader(steps=) gives a loader one")

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch whose samples the next iteration gives.

        Between load_state_dict() and the next iteration, the state's epoch stays if it has samples left, with a warning
        if `epoch` is another: frameworks set epochs that they count themselves.

        Args:
            epoch: from 0.

        Raises:
            TypeError, ValueError: it is no int in [0, 2**63).

        Example:
            >>> sampler = fastload.ShardedSampler(6, num_replicas=2, rank=0)
            >>> first = list(sampler)
            >>> sampler.set_epoch(1)
            >>> list(sampler) == first
            False
        """
        epoch = whole("epoch", epoch, 0, NUM_SEEDS)
        if epoch == self.epoch:
            return
        if self._loaded is not None and self._shards.num_steps(self._loaded.position) > 0:
            warnings.warn(
                f"set_epoch({epoch}) is ignored: the loaded state is of epoch {self.epoch}, and the next iteration "
                "gives the rest of that epoch. Call set_epoch() before load_state_dict(), or after the iteration has "
                "begun",
                stacklevel=2,
            )
            return
        self.epoch, self._loaded, self._last = epoch, None, None

    def state_dict(self) -> dict[str, int]:
        """Returns the state after the samples that a loader, or any other caller, has taken.

        A loader with workers takes batches ahead; for the state after the batches it has handed out, use state_at().

        Returns:
            A new dict of ints, equal on all ranks that have taken equally many samples: "epoch"; "position", the
            number of its samples that all ranks together were dealt; "length" of an epoch; and "seed". With blocks also
            "block_size", "window_blocks" and "canonical_nodes".

        Example:
            >>> sampler = fastload.ShardedSampler(100, num_replicas=4, rank=1)
            >>> iterator = iter(sampler)
            >>> taken = [next(iterator) for _ in range(3)]
            >>> sampler.state_dict()
            {'epoch': 0, 'position': 12, 'length': 100, 'seed': 0}
        """
        return self._state_after(0 if self._last is None else self._last.num_given)

    def state_at(self, num_batches: int, batch_size: int) -> dict[str, int]:
        """Returns the state after a number of batches of the iteration that began last.

        Args:
            num_batches: number of batches that the loader of this rank has handed out in it, from 0.
            batch_size: samples of each.

        Returns:
            A state as from state_dict().

        Raises:
            TypeError, ValueError: an argument is not a number in its range.

        Example:
            >>> sampler = fastload.ShardedSampler(100, num_replicas=4, rank=1)
            >>> sampler.state_at(5, batch_size=2)["position"]
            40
        """
        num_batches = whole("num_batches", num_batches, 0, sys.maxsize)
        return self._state_after(num_batches * whole("batch_size", batch_size, 1, sys.maxsize))

    def _state_after(self, num_given: int) -> dict[str, int]:
        begun = self._begun()
        point = self._shards.after(begun, num_given) if num_given else begun
        return {**point._asdict(), "length": self._length, "seed": self.seed, **self._block_settings}

    @property
    def _block_settings(self) -> dict[str, int]:
        return {} if self._blocks is None else self._blocks.settings()

    def _begun(self) -> ResumePoint:
        """Returns where the last iteration began, or else where the next one will begin."""
        return self._loaded or ResumePoint(self.epoch, 0) if self._last is None else self._last.begun

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration begin where a state says; the one after it begins at the start of an epoch again.

        Args:
            state: a state from state_dict() or state_at(), of a sampler with the same data set, seed, weights, blocks
                and `infinite`, and with any number of ranks.

        Raises:
            TypeError: it is not a dict of ints.
            ValueError: an entry is missing, out of range, or of another data set or seed. Nothing is changed then.

        Example:
            >>> before = fastload.ShardedSampler(100, num_replicas=4, rank=0)
            >>> state = before.state_at(5, batch_size=2)
            >>> sampler = fastload.ShardedSampler(100, num_replicas=2, rank=0)
            >>> sampler.load_state_dict(state)
            >>> len(list(sampler))
            30
        """
        if not isinstance(state, dict):
            raise TypeError(f"the state of a sampler must be a dict, got {type(state).__name__}")
        for name in ("epoch", "position", "length", "seed"):
            if name not in state:
                raise ValueError(f"the state has no {name!r}: it must be one that ShardedSampler.state_dict() gave")
        epoch = whole("epoch of the state", state["epoch"], 0, NUM_SEEDS)
        for name, own in (("length", self._length), ("seed", self.seed)):
            if whole(f"{name} of the state", state[name], 0, NUM_SEEDS) != own:
                raise ValueError(
                    f"{name} of the state is {state[name]}, and this sampler's is {own}: load it into a sampler of the "
                    "same data set, seed and weights"
                )
        for name in ("block_size", "window_blocks", "canonical_nodes"):
            theirs, mine = state.get(name), self._block_settings.get(name)
            if theirs != mine:
                raise ValueError(
                    f"{name} of the state is {theirs!r}, and this sampler's is {mine!r}: pass the same, because it "
                    "decides the order"
                )
        last = self._length - 1 if self._infinite else self._length
        position = whole("position of the state", state["position"], 0, last + 1)
        self._loaded, self._last, self.epoch = ResumePoint(epoch, position), None, epoch

    @property
    def node(self) -> int:
        """The machine of this rank, from 0; 0 where there are no blocks."""
        return self.rank // (self.num_replicas // self._nodes)

    def __repr__(self) -> str:
        parts = [f"rank {self.rank} of {self.num_replicas}", f"epochs of {self._length}", f"seed={self.seed}"]
        if self._cumulative is not None:
            parts.append("with weights")
        elif not self.shuffle:
            parts.append("in order")
        if self._blocks is not None:
            parts += [f"{name}={value}" for name, value in self._block_settings.items()]
            parts.append(f"node {self.node} of {self._nodes}")
        parts += [name for name, is_set in (("drop_last", self.drop_last), ("infinite", self._infinite)) if is_set]
        return f"<fastload.ShardedSampler: {', '.join(parts)}>"


def blocks_text(sampler: ShardedSampler) -> str | None:
    """Returns explain()'s text about what the sampler's node reads at a time; None if there are no blocks."""
    blocks, num_nodes = sampler._blocks, sampler._nodes
    if blocks is None:
        return None
    num_blocks = blocks.num_groups // num_nodes * blocks.window_blocks
    num_samples = min(num_blocks * blocks.block_size, -(-blocks.num_samples // num_nodes))
    read = f"{num_blocks} blocks of {blocks.block_size} at once, {num_samples} samples"
    return f"node {sampler.node} of {num_nodes} works on {read}"


def given_by(sampler: ShardedSampler) -> int | list[int] | Blocks:
    """Returns the indices that all ranks together can be given: a number of samples, or the samples that have a weight,
    or blocks, if each node is given only its groups."""
    if (blocks := sampler._shards.blocks) is not None:
        return blocks
    if sampler._cumulative is None:
        return sampler._num_samples
    odds = np.diff(sampler._cumulative, prepend=0.0)
    return [int(index) for index in np.flatnonzero(odds > 0)]
