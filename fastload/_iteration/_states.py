"""Saved states of an iteration, assembled from the sampler's part and the workers' part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fastload._iteration._maker import WorkerStates
from fastload._iteration._setup import LoaderArguments
from fastload._process._distributed import rank_and_world_size
from fastload._resume._saved_sampler import SavedSampler
from fastload._resume._saved_state import SavedState, Way
from fastload.samplers._epoch_order import EpochOrder
from fastload.samplers._resting import holds_generator, loaded_at_rest, sampler_at_rest


@dataclass(frozen=True)
class EpochIdentity:
    """The values that all states of one epoch share.

    Attributes:
        arguments: The loader's arguments.
        way: The way in which the batches are made.
        fingerprint: Returns the fingerprint of everything that the batches depend on.
        epoch: The loader's epoch.
        base_seed: The base seed of the workers.
        resets: Number of epochs that the iterator had before.
    """

    arguments: LoaderArguments
    way: Way
    fingerprint: Callable[[], Mapping[str, Any]]
    epoch: int
    base_seed: int
    resets: int

    def state_at(self, position: int, sampler: SavedSampler, workers: WorkerStates) -> SavedState:
        """Returns the state after `position` batches of an unfinished epoch."""
        arguments = self.arguments
        return SavedState(
            moment="in an epoch",
            rng=arguments.settings.rng,
            seed=arguments.settings.seed,
            epoch=self.epoch,
            position=position,
            num_yielded=position,
            num_workers=arguments.num_threads,
            sampler=sampler,
            world=rank_and_world_size(),
            generator=generator_state(arguments, sampler),
            base_seed=self.base_seed,
            resets=self.resets,
            draws=workers.draws,
            fingerprint=self.fingerprint(),
            way=self.way,
            workers=workers.workers,
            replayed=workers.replayed,
            next_worker=workers.next_worker,
        )

    def state_after(self, num_yielded: int, sampler: SavedSampler, workers: WorkerStates) -> SavedState:
        """Returns the state after all `num_yielded` batches of the epoch."""
        arguments = self.arguments
        goes_on = arguments.is_persistent
        return SavedState(
            moment="between epochs",
            rng=arguments.settings.rng,
            seed=arguments.settings.seed,
            epoch=self.epoch + 1,
            position=0,
            num_yielded=num_yielded,
            num_workers=arguments.num_threads,
            sampler=sampler,
            world=rank_and_world_size(),
            generator=generator_state(arguments, sampler),
            base_seed=self.base_seed if goes_on else None,
            resets=self.resets + 1 if goes_on else 0,
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
        generator=generator_state(arguments, sampler),
    )


def generator_state(arguments: LoaderArguments, sampler: SavedSampler) -> torch.Tensor | None:
    """Returns the state of a loader's generator; None: it has none, or the sampler's state includes it."""
    generator = arguments.generator
    if generator is None or generator.device.type != "cpu":
        return None
    if sampler.generators and holds_generator(arguments.index_sampler, generator):
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
