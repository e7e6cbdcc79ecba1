"""Saved states of an iteration, assembled from the sampler's part and the workers' part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fastload._iteration._maker import WorkerStates
from fastload._iteration._saved_state import Moment, SavedState, Way
from fastload._iteration._setup import LoaderArguments
from fastload._process._distributed import rank_and_world_size
from fastload.samplers._epoch_order import EpochOrder
from fastload.samplers._resting import holds_generator, loaded_at_rest, sampler_at_rest
from fastload.samplers._saved_sampler import SavedSampler


@dataclass(frozen=True)
class EpochIdentity:
    """The values that all states of one epoch share. Does not lead to Progress, which keeps what makes a state.

    Attributes:
        rng, seed, num_workers, is_persistent, generator, index_sampler: The loader's; `num_workers` counts those used.
        way: The way in which the batches are made.
        fingerprint: Returns the fingerprint of everything that the batches depend on.
        epoch: The loader's epoch.
        base_seed: The base seed of the workers.
        resets: Number of epochs that the iterator had before.
        graph_seed: The seed of a data pipe, or None.
    """

    rng: str
    seed: int | None
    num_workers: int
    is_persistent: bool
    generator: torch.Generator | None
    index_sampler: Any
    way: Way
    fingerprint: Callable[[], Mapping[str, Any]]
    epoch: int
    base_seed: int
    resets: int
    graph_seed: int | None

    def state_at(self, position: int, sampler: SavedSampler, workers: WorkerStates) -> SavedState:
        """Returns the state after `position` batches of an unfinished epoch."""
        state = self._state("in an epoch", position, sampler, workers)
        return replace(
            state,
            position=position,
            base_seed=self.base_seed,
            resets=self.resets,
            replayed=workers.replayed,
            graph_seed=self.graph_seed,
        )

    def state_after(self, num_yielded: int, sampler: SavedSampler, workers: WorkerStates) -> SavedState:
        """Returns the state after all `num_yielded` batches of the epoch: the start of the next one."""
        state = replace(self._state("between epochs", num_yielded, sampler, workers), epoch=self.epoch + 1)
        return replace(state, base_seed=self.base_seed, resets=self.resets + 1) if self.is_persistent else state

    def _state(self, moment: Moment, num_yielded: int, sampler: SavedSampler, workers: WorkerStates) -> SavedState:
        return SavedState(
            moment,
            rng=self.rng,
            seed=self.seed,
            epoch=self.epoch,
            position=0,
            num_yielded=num_yielded,
            num_workers=self.num_workers,
            sampler=sampler,
            world=rank_and_world_size(),
            generator=generator_state(self.generator, self.index_sampler, sampler),
            draws=workers.draws,
            fingerprint=self.fingerprint(),
            way=self.way,
            workers=workers.workers,
            next_worker=workers.next_worker,
        )


def state_not_begun(arguments: LoaderArguments) -> SavedState:
    """Returns the state of a loader that was not used yet. Plans, draws and opens nothing."""
    sampler = sampler_at_rest(arguments.index_sampler)
    return SavedState(
        moment="not begun",
        rng=arguments.settings.rng,
        seed=arguments.settings.seed,
        epoch=arguments.progress.epoch,
        position=0,
        num_yielded=0,
        num_workers=arguments.num_threads,
        sampler=sampler,
        world=rank_and_world_size(),
        generator=generator_state(arguments.generator, arguments.index_sampler, sampler),
    )


def generator_state(
    generator: torch.Generator | None, index_sampler: Any, sampler: SavedSampler
) -> torch.Tensor | None:
    """Returns the state of a loader's generator; None: it has none, or the sampler's state includes it."""
    if generator is None or generator.device.type != "cpu":
        return None
    if sampler.generators and holds_generator(index_sampler, generator):
        return None
    return generator.get_state()


def order_from(saved: SavedState | None, index_sampler: Any, depth: int, *, takes_keys: bool) -> EpochOrder:
    """Returns the order of an epoch, resumed from `saved` if it is not None. See EpochOrder for the other arguments."""
    if saved is None:
        return EpochOrder(index_sampler, depth, takes_keys=takes_keys)
    if saved.moment != "in an epoch":
        loaded = loaded_at_rest(index_sampler, saved.sampler)
        return EpochOrder(index_sampler, depth, loaded=loaded, takes_keys=takes_keys)
    loaded = (saved.sampler.state,) if saved.sampler.kind == "stateful" else ()
    position = saved.begins_at if saved.next_worker is None else 0  # a stream's order is the same from any position
    return EpochOrder(index_sampler, depth, saved.sampler, position, loaded, takes_keys=takes_keys)
