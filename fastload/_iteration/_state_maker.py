"""Saved states of an iteration: what of them does not change while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from fastload._process._distributed import rank_and_world_size
from fastload._resume._saved_sampler import SavedSampler
from fastload._resume._saved_state import SavedState, Way
from fastload._resume._saved_worker import SavedWorker
from fastload.samplers._epoch_order import EpochOrder
from fastload.samplers._resting import holds_generator, loaded_at_rest


class Draws(NamedTuple):
    """Where the workers stand; the same as the attributes of SavedState.

    Attributes:
        native: What native workers draw from next, as text.
        workers: Of those that run Python.
        replayed: So many of the batches that were handed out come behind that.
        next_worker: Of a stream.
    """

    native: tuple[str, ...] | None = None
    workers: tuple[SavedWorker, ...] | None = None
    replayed: int = 0
    next_worker: int | None = None


NO_DRAWS = Draws()


class StateMaker:
    """Makes the states of one iterator.

    Args:
        loader: It is not kept.
        way: Who makes the batches.
        make_fingerprint: Called once, with the first state.
    """

    def __init__(self, loader: Any, way: Way, make_fingerprint: Callable[[], dict[str, Any]]) -> None:
        self._rng, self._seed = loader._setting("rng"), loader._setting("seed")
        self._num_workers: int = loader._num_threads
        self._is_persistent = bool(loader.persistent_workers) and loader.num_workers > 0
        self._generator: torch.Generator | None = loader.generator
        self._index_sampler = loader._index_sampler
        self._way: Way = way
        self._make_fingerprint = make_fingerprint
        self._fingerprint: dict[str, Any] | None = None

    def in_epoch(
        self, epoch: int, position: int, sampler: SavedSampler, base_seed: int, resets: int, draws: Draws
    ) -> SavedState:
        """Of an epoch of which `position` batches were handed out."""
        return SavedState(
            "in an epoch",
            self._rng,
            self._seed,
            epoch,
            position,
            position,
            self._num_workers,
            sampler,
            rank_and_world_size(),
            self._state_of_generator(sampler),
            base_seed,
            resets,
            draws.native,
            self._of_loader(),
            way=self._way,
            workers=draws.workers,
            replayed=draws.replayed,
            next_worker=draws.next_worker,
        )

    def between_epochs(
        self, epoch: int, num_yielded: int, sampler: SavedSampler, base_seed: int, resets: int, draws: Draws
    ) -> SavedState:
        """Behind `num_yielded` batches, which were all; `epoch` and `resets` are of the epoch that is over."""
        goes_on = self._is_persistent
        return SavedState(
            "between epochs",
            self._rng,
            self._seed,
            epoch + 1,
            0,
            num_yielded,
            self._num_workers,
            sampler,
            rank_and_world_size(),
            self._state_of_generator(sampler),
            base_seed if goes_on else None,
            resets + 1 if goes_on else 0,
            draws.native,
            self._of_loader(),
            way=self._way,
            workers=draws.workers,
            next_worker=draws.next_worker,
        )

    def _of_loader(self) -> dict[str, Any]:
        if self._fingerprint is None:
            self._fingerprint = self._make_fingerprint()
        return self._fingerprint

    def _state_of_generator(self, sampler: SavedSampler) -> torch.Tensor | None:
        return state_of_generator(self._generator, self._index_sampler, sampler)


def state_of_generator(
    generator: torch.Generator | None, index_sampler: Any, sampler: SavedSampler
) -> torch.Tensor | None:
    """State of a loader's generator; None where there is none, or the state of its sampler tells."""
    if generator is None or generator.device.type != "cpu":
        return None
    if sampler.generators and holds_generator(index_sampler, generator):
        return None
    return generator.get_state()


def order_of(index_sampler: Any, depth: int, saved: SavedState | None, *, takes_keys: bool = False) -> EpochOrder:
    """The order of the epoch that begins, or goes on where `saved` says; the others as of EpochOrder."""
    if saved is None:
        return EpochOrder(index_sampler, depth, takes_keys=takes_keys)
    if saved.moment != "in an epoch":
        loaded = loaded_at_rest(index_sampler, saved.sampler)
        return EpochOrder(index_sampler, depth, loaded=loaded, takes_keys=takes_keys)
    loaded = (saved.sampler.state,) if saved.sampler.kind == "stateful" else ()
    position = saved.begins_at if saved.next_worker is None else 0  # of a stream any order is the same
    return EpochOrder(index_sampler, depth, saved.sampler, position, loaded, takes_keys=takes_keys)
