"""The sampler of ``DataLoader(dataset, shuffle=True, rng="sample", seed=1)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import RandomSampler

from fastload.samplers._sharded_sampler import ShardedSampler
from fastload.samplers._sharding_arguments import NUM_SEEDS


class SeededShuffle(RandomSampler):
    """Gives each epoch the order of a ShardedSampler with one rank: a function of seed and epoch.

    It derives from RandomSampler because frameworks replace a RandomSampler by a sampler that knows the ranks.
    `takes_all` tells that every rank of a process group gets every sample. `asked_epoch` is the last argument of
    set_epoch(); the loader, which counts epochs itself, does not go below it.
    """

    takes_all = True

    def __init__(self, data_source: Any, seed: int) -> None:
        super().__init__(data_source)
        self._seed = seed % NUM_SEEDS
        self.asked_epoch = 0
        self._sharded = self._made(0)

    def __copy__(self) -> SeededShuffle:
        copied = SeededShuffle(self.data_source, self._seed)
        copied.set_epoch(self.epoch)
        return copied

    def _made(self, epoch: int) -> ShardedSampler:
        sharded = ShardedSampler(len(self.data_source), num_replicas=1, rank=0, seed=self._seed)
        sharded.set_epoch(epoch)
        return sharded

    @property
    def sharded(self) -> ShardedSampler:
        """The sampler that gives the order; replaced when the data set's length changes, as in torch's sampler."""
        if len(self._sharded.dataset) != len(self.data_source):  # type: ignore[arg-type]
            self._sharded = self._made(self._sharded.epoch)
        return self._sharded

    @property
    def epoch(self) -> int:
        """The epoch of the next iteration."""
        return self._sharded.epoch

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, as ShardedSampler.set_epoch() does."""
        self.begin_epoch(epoch)
        self.asked_epoch = epoch

    def begin_epoch(self, epoch: int) -> None:
        """Does the same for the loader."""
        self.sharded.set_epoch(epoch)

    def __iter__(self) -> Iterator[int]:
        return iter(self.sharded)

    def __len__(self) -> int:
        return len(self.data_source)

    def state_dict(self) -> dict[str, Any]:
        return dict(self.sharded.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sharded.load_state_dict(state)


def sharded_in(sampler: Any) -> ShardedSampler | None:
    """Returns the ShardedSampler that gives the order of a ShardedSampler or SeededShuffle; None for any other."""
    if isinstance(sampler, SeededShuffle):
        return sampler.sharded
    return sampler if isinstance(sampler, ShardedSampler) else None
