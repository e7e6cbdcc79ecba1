"""Saved states of a native iteration: what of them does not change while it goes on, and the draws of its workers."""

from __future__ import annotations

from typing import Any

import torch

from fastload import _native
from fastload._native_batches._fingerprint import fingerprint_of
from fastload._planning._native_plans import NativePlan
from fastload._planning._torch_draws import uniform_rule
from fastload._process._distributed import rank_and_world_size
from fastload._resume._fields import decoded
from fastload._resume._saved_sampler import SavedSampler
from fastload._resume._saved_state import DRAWS_BYTES, SavedState
from fastload.samplers._epoch_order import EpochOrder
from fastload.samplers._resting import holds_generator, loaded_at_rest


class StateMaker:
    """Makes the states of one iterator.

    Args:
        loader: It is not kept.
        plan: The iterator's.
    """

    def __init__(self, loader: Any, plan: NativePlan) -> None:
        self._rng, self._seed = loader._setting("rng"), loader._setting("seed")
        self._num_workers: int = loader.num_workers
        self._is_persistent = bool(loader.persistent_workers) and loader.num_workers > 0
        self._generator: torch.Generator | None = loader.generator
        self._batch_sampler = loader.batch_sampler
        self._plan = plan
        self._fingerprint: dict[str, Any] | None = None

    def in_epoch(
        self, epoch: int, position: int, sampler: SavedSampler, base_seed: int, resets: int, draws: list[str] | None
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
            None if draws is None else tuple(draws),
            self._of_plan(),
        )

    def between_epochs(
        self,
        epoch: int,
        num_yielded: int,
        sampler: SavedSampler,
        base_seed: int,
        resets: int,
        draws: list[str] | None,
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
            tuple(draws) if goes_on and draws is not None else None,
            self._of_plan(),
        )

    def _of_plan(self) -> dict[str, Any]:
        if self._fingerprint is None:
            self._fingerprint = fingerprint_of(self._plan, self._batch_sampler)
        return self._fingerprint

    def _state_of_generator(self, sampler: SavedSampler) -> torch.Tensor | None:
        return state_of_generator(self._generator, self._batch_sampler, sampler)


def state_of_generator(
    generator: torch.Generator | None, batch_sampler: Any, sampler: SavedSampler
) -> torch.Tensor | None:
    """State of a loader's generator; None where there is none, or the state of its sampler tells."""
    if generator is None or generator.device.type != "cpu":
        return None
    if sampler.generators and holds_generator(batch_sampler, generator):
        return None
    return generator.get_state()


def order_of(loader: Any, depth: int, saved: SavedState | None) -> EpochOrder:
    """The order of the epoch that begins, or goes on where `saved` says; `depth` as of EpochOrder."""
    if saved is None:
        return EpochOrder(loader, depth)
    if saved.moment != "in an epoch":
        return EpochOrder(loader, depth, loaded=loaded_at_rest(loader.batch_sampler, saved.sampler))
    loaded = (saved.sampler.state,) if saved.sampler.kind == "stateful" else ()
    return EpochOrder(loader, depth, saved.sampler, saved.position, loaded)


def worker_draws(
    base_seed: int, num_workers: int, generators: list[torch.Generator] | None, saved: SavedState | None
) -> list[_native.TorchDraws]:
    """What each worker draws from: as torch seeds it, as worker_init_fn has left it, or as it was saved.

    torch seeds each worker with the base seed and its number. Without workers it draws from its default generator,
    whose state goes in before each batch and comes out after it.
    """
    seeds = [(base_seed + worker) % 2**64 for worker in range(max(1, num_workers))]
    draws = [_native.TorchDraws(seed, uniform_rule()) for seed in seeds]
    if saved is not None and saved.draws is not None:
        for worker, text in zip(draws, saved.draws, strict=True):
            worker.unpack(decoded("fastload.draws", text, DRAWS_BYTES))
        return draws
    for worker, generator in zip(draws, generators or (), strict=False):
        worker.load(generator.get_state().numpy())
    return draws


def untaken_draws(
    iteration: _native.Iteration, num_workers: int, position: int, failed: _native.Batch | None, taken: Any
) -> list[str] | None:
    """What each worker draws from in its first batch that was not handed out, as text; None where nothing is in order.

    Without workers that is what the program's generator says, and None here, unless the engine has given the batch.

    Args:
        iteration: The engine's.
        num_workers: Of it.
        position: Number of the batch that is handed out next.
        failed: The batch before that, where those behind it have still to be loaded again.
        taken: That batch itself, where the engine has given it already; or None.
    """
    before = None if taken is None else taken.draws_before()
    if num_workers == 0:  # the program's generator may be behind that batch already
        return None if before is None else [before.text()]
    draws = iteration.draws_untaken()
    if not draws:
        return None
    if before is not None:
        draws[position % num_workers] = before
    elif failed is not None and (after := failed.draws_after()) is not None:
        draws[(position - 1) % num_workers] = after
    return [worker.text() for worker in draws]
