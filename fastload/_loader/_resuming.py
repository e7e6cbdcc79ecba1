"""state_dict() and load_state_dict() of a loader, and the iteration that begins where a state says."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastload._errors import StateError
from fastload._loader._saved_checks import (
    check_num_workers,
    check_settings_of,
    checked_against,
    copied,
)
from fastload._native_batches._iterator import NativeIterator
from fastload._native_batches._state import state_of_generator
from fastload._planning._native_plans import NativePlan
from fastload._planning._verdicts import Mode
from fastload._process._distributed import rank_and_world_size
from fastload._resume._obstacles import NOT_NATIVE, OF_PROCESSES, OF_STEPS, obstacle
from fastload._resume._saved_state import SavedState
from fastload._threads._iterator import ThreadIterator
from fastload.samplers._resting import (
    epoch_holder,
    kind_of,
    load_own_state,
    loaded_at_rest,
    sampler_at_rest,
    set_generators,
    sharded_of,
)
from fastload.samplers._seeded_shuffle import SeededShuffle


def state_of(loader: Any) -> dict[str, Any]:
    """What state_dict() of a fastload.DataLoader gives."""
    _check_kind(loader)
    progress = loader._fastload.progress
    if progress.loaded is not None:
        return copied(progress.loaded[0])
    if not progress.has_begun:
        return _not_begun(loader).as_dict()
    iterator = progress.iterator
    if isinstance(iterator, NativeIterator):
        return iterator.state_dict()
    if progress.left is not None:
        state: dict[str, Any] = progress.left().as_dict()
        return state
    return _begun_in_python(loader).as_dict()


def _check_kind(loader: Any) -> None:
    """Raises StateError for a loader of which no iteration has a state."""
    if loader._is_of_processes:
        raise obstacle("a loader with workers='processes'", OF_PROCESSES)
    if loader._setting("steps") is not None:
        raise obstacle(f"a loader with steps={loader._setting('steps')}", OF_STEPS)


def _begun_in_python(loader: Any) -> SavedState:
    """The beginning of the epoch that runs, with a warning: frameworks ask every loader, so it must not raise.

    Raises:
        StateError: The sampler's own state is ahead of what was handed out.
    """
    if kind_of(loader._index_sampler) == "stateful" and sharded_of(loader._index_sampler) is None:
        raise obstacle("the iteration of this loader", NOT_NATIVE)
    state = loader._fastload
    if not state.has_warned_of_python:
        state.has_warned_of_python = True
        problem, _, next_step = NOT_NATIVE.partition(". ")
        warnings.warn(
            f"state_dict() gives the beginning of the epoch, not the place in it: {problem}. {next_step}", stacklevel=4
        )
    saved = _not_begun(loader)
    return replace(saved, epoch=max(0, saved.epoch - 1))


def _not_begun(loader: Any) -> SavedState:
    """Of a loader that nothing was asked for: nothing is planned, drawn or opened for it."""
    index_sampler = loader._index_sampler
    sampler = sampler_at_rest(index_sampler)
    return SavedState(
        "not begun",
        loader._setting("rng"),
        loader._setting("seed"),
        loader._fastload.epoch,
        0,
        0,
        loader.num_workers,
        sampler,
        rank_and_world_size(),
        state_of_generator(loader.generator, index_sampler, sampler),
    )


def load_state(loader: Any, state: Any, make_plan: Callable[[], NativePlan | None], *, strict: bool) -> None:
    """What load_state_dict() of a fastload.DataLoader does; `make_plan` gives None where that is not native."""
    _check_kind(loader)
    if type(state) is dict and not state:
        _end_iteration(loader)
        loader._fastload.progress.load(None, None)
        loader._fastload.epoch = 0
        return
    saved = SavedState.parse(state)
    kept = copied(state)
    check_settings_of(saved, loader._setting("rng"), loader._setting("seed"), loader._index_sampler)
    if saved.generator is not None and loader.generator is None:
        raise StateError(
            "fastload.generator", "is of a loader with generator=, and this one has none", "give it a torch.Generator"
        )
    if saved.fingerprint is not None:
        plan = make_plan()
        if plan is None:
            raise obstacle("this loader", NOT_NATIVE)
        saved = checked_against(plan, saved, loader, strict=strict)
        _warn_of_program_draws(loader, plan, saved)
    _end_iteration(loader)
    loader._fastload.progress.load(kept, saved)
    loader._fastload.epoch = saved.epoch
    sampler = epoch_holder(loader._index_sampler)
    if sampler is not None and saved.sampler.epoch is not None and sampler.epoch != saved.sampler.epoch:
        sampler.set_epoch(saved.sampler.epoch)


def _end_iteration(loader: Any) -> None:
    """Ends the iteration that began last, which may be a persistent one."""
    iterator, loader._iterator = loader._fastload.progress.iterator, None
    if isinstance(iterator, (NativeIterator, ThreadIterator)):
        iterator._shutdown_workers()


def _warn_of_program_draws(loader: Any, plan: NativePlan, saved: SavedState) -> None:
    """Once: without workers random transforms draw from the program's generator, which no state has."""
    state = loader._fastload
    is_concerned = plan.has_ordered_draws and loader.num_workers == 0 and saved.moment == "in an epoch"
    if is_concerned and not state.has_warned_of_program_draws:
        state.has_warned_of_program_draws = True
        warnings.warn(
            "num_workers=0: random transforms draw from torch's default generator, which is the program's and not in "
            "the state. Save torch.get_rng_state() beside it, and set it behind the iter() that resumes",
            stacklevel=4,
        )


def prepare_iteration(loader: Any) -> None:
    """Called where an iteration begins: sets what of the state that was loaded belongs to no worker."""
    progress = loader._fastload.progress
    progress.beginning = None
    if progress.loaded is None:
        return
    saved: SavedState = progress.loaded[1]
    is_persistent = loader.persistent_workers and loader.num_workers > 0
    if saved.moment == "between epochs" and saved.goes_on and not is_persistent:
        saved = replace(saved, base_seed=None, resets=0, draws=None)
    progress.beginning = saved
    if saved.moment == "in an epoch":
        _follow_epoch(loader, saved)
        return
    if loader.generator is not None and saved.generator is not None:
        loader.generator.set_state(saved.generator)
    set_generators(loader._index_sampler, saved.sampler.generators)
    for state in loaded_at_rest(loader._index_sampler, saved.sampler):
        load_own_state(loader._index_sampler, state)


def follow_sampler(loader: Any) -> None:
    """Makes one of the epochs of a seeded loader and its sampler, where an iteration begins: the later one counts."""
    state, sampler = loader._fastload, epoch_holder(loader._index_sampler)
    if sampler is None or not loader._settings.is_seeded:
        return
    is_ours = isinstance(sampler, SeededShuffle)
    if state.progress.beginning is None:
        state.epoch = max(state.epoch, sampler.asked_epoch if is_ours else sampler.epoch)
    if is_ours:
        sampler.begin_epoch(state.epoch)


def _follow_epoch(loader: Any, saved: SavedState) -> None:
    state = loader._fastload
    if state.epoch != saved.epoch:
        warnings.warn(
            f"set_epoch({state.epoch}) was called behind load_state_dict(), and the state is of epoch {saved.epoch}, "
            "which goes on: call set_epoch() for the epochs behind it only",
            stacklevel=4,
        )
        state.epoch = saved.epoch


def check_way(loader: Any) -> None:
    """Raises StateError where a state of native batches was loaded into a loader that has none now."""
    saved = loader._fastload.progress.beginning
    if saved is not None and saved.fingerprint is not None:
        raise obstacle("this loader", NOT_NATIVE)


def check_beginning(loader: Any, make_plan: Callable[[], NativePlan]) -> SavedState | None:
    """Where an iteration of native batches begins. Raises StateError where it cannot."""
    saved: SavedState | None = loader._fastload.progress.beginning
    if saved is not None:
        check_num_workers(make_plan(), saved, loader.num_workers)
    return saved


def state_rows(loader: Any, mode: Mode) -> list[str]:
    """What explain() says where an epoch has no state."""
    if loader._is_of_processes:
        why = OF_PROCESSES
    elif loader._setting("steps") is not None:
        why = OF_STEPS
    elif mode is Mode.NATIVE:
        return []
    else:
        why = NOT_NATIVE
    what = "gives the epoch's beginning" if why is NOT_NATIVE else "raises StateError"
    return [f"{'state':<10} in an epoch state_dict() {what}: {why}"]
