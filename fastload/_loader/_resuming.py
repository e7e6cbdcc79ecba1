"""state_dict() and load_state_dict() of a loader, and the iteration that begins where a state says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from fastload._errors import StateError
from fastload._iteration._fingerprint import fingerprint_of, fingerprint_of_loader
from fastload._iteration._resumable_iterator import ResumableIterator
from fastload._iteration._state_maker import state_of_generator
from fastload._loader._saved_checks import (
    Fitting,
    check_num_workers,
    check_settings_of,
    check_way,
    checked_against,
    copied,
)
from fastload._planning._native_plans import NativePlan
from fastload._planning._plan import LoaderPlan
from fastload._planning._verdicts import Mode
from fastload._process._distributed import rank_and_world_size
from fastload._resume._obstacles import OF_PROCESSES, OF_STEPS, OF_TORCHS, obstacle
from fastload._resume._saved_state import SavedState, Way
from fastload._resume._user_state import is_stateful
from fastload._workers._places import unread_generators
from fastload._workers._worker_objects import NAMES
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
    if not progress.has_begun and not _begin_to_ask(loader):
        return _not_begun_dict(loader)
    iterator = progress.iterator
    if (why := _obstacle_of(loader, iterator)) is not None:
        return _begun(loader, why).as_dict()
    assert iterator is not None or progress.left is not None, "it lives, or was let go of"
    state: dict[str, Any] = iterator.state_dict() if progress.left is None else progress.left().as_dict()
    _warn_of_inexact(loader, state)
    return state


def _begin_to_ask(loader: Any) -> bool:
    """Begins the epoch that the next iter() gives, where only the workers' own data sets can say where they stand."""
    if not is_stateful(loader.dataset) or loader._mode() not in (Mode.PYTHON, Mode.PARTLY_NATIVE):
        return False
    state, holder = loader._fastload, epoch_holder(loader._index_sampler)
    iterator = loader._begin_epoch()
    state.epoch -= 1  # it was not asked for yet
    state.progress.begun = iterator, state.epoch, None if holder is None else holder.epoch
    return True


def take_begun(loader: Any) -> Any:
    """The iteration that state_dict() has begun, where it is still the one that would begin now; else None."""
    state, begun = loader._fastload, loader._fastload.progress.begun
    state.progress.begun = None
    if begun is None:
        return None
    iterator, *epochs = begun
    holder = epoch_holder(loader._index_sampler)
    if iterator.is_running and epochs == [state.epoch, None if holder is None else holder.epoch]:
        state.epoch += 1
        return iterator
    _end_iteration(loader)
    return None


def _obstacle_of(loader: Any, iterator: Any) -> str | None:
    """Why an epoch that has begun has no state but that of its beginning; None: it has."""
    is_ours = isinstance(iterator, ResumableIterator) or loader._fastload.progress.left is not None
    return None if is_ours else OF_TORCHS


def _check_kind(loader: Any) -> None:
    """Raises StateError for a loader of which no iteration has a state."""
    if loader._is_of_processes:
        raise obstacle("a loader with workers='processes'", OF_PROCESSES)
    if loader._setting("steps") is not None:
        raise obstacle(f"a loader with steps={loader._setting('steps')}", OF_STEPS)


def _begun(loader: Any, why: str) -> SavedState:
    """The beginning of the epoch that runs, with a warning: frameworks ask every loader, so it must not raise.

    Raises:
        StateError: The sampler's own state is ahead of what was handed out.
    """
    if kind_of(loader._index_sampler) == "stateful" and sharded_of(loader._index_sampler) is None:
        raise obstacle("the iteration of this loader", why)
    state = loader._fastload
    if not state.has_warned_of_beginning:
        state.has_warned_of_beginning = True
        problem, _, next_step = why.partition(". ")
        warnings.warn(
            f"state_dict() gives the beginning of the epoch, not the place in it: {problem}. {next_step}", stacklevel=4
        )
    saved = _not_begun(loader)
    return replace(saved, epoch=max(0, saved.epoch - 1))


def _warn_of_inexact(loader: Any, state: dict[str, Any]) -> None:
    """Once: of what the batches behind a state depend on, and it does not have."""
    if loader._fastload.has_warned_of_inexact:
        return
    found = sorted({path for worker in state["fastload"].get("workers", ()) for path in worker.get("not_exact", ())})
    reasons = [f"not exact: {path}, a generator whose state cannot be read or put there again" for path in found]
    if state["fastload"]["way"] != "native" and loader.num_workers > 0 and not loader.in_order:
        reasons.append("with in_order=False the first so many batches may not be those handed out")
    if reasons:
        loader._fastload.has_warned_of_inexact = True
        warnings.warn(f"the state does not tell all that later batches depend on: {'; '.join(reasons)}", stacklevel=4)


def _not_begun_dict(loader: Any) -> dict[str, Any]:
    """A new dict for each call. Frameworks ask before there is anything to tell; so what tells nothing but the epoch is
    made once, and read again."""
    index_sampler = loader._index_sampler
    sampler: Any = index_sampler.sampler if type(index_sampler) is BatchSampler else None
    is_plain = type(sampler) is SequentialSampler or (type(sampler) is RandomSampler and sampler.generator is None)
    if not is_plain or loader.generator is not None:
        return _not_begun(loader).as_dict()
    state = loader._fastload
    key = state.epoch, rank_and_world_size()
    if state.rest is None or state.rest[0] != key:
        # It is of dicts, lists, str, int and None alone. To run their literals takes a third of copying them.
        state.rest = key, compile(repr(_not_begun(loader).as_dict()), "<state>", "eval")
    told: dict[str, Any] = eval(state.rest[1])
    return told


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
        loader._num_threads,
        sampler,
        rank_and_world_size(),
        state_of_generator(loader.generator, index_sampler, sampler),
    )


def load_state(loader: Any, state: Any, make_fitting: Callable[[], Fitting], *, strict: bool) -> None:
    """What load_state_dict() of a fastload.DataLoader does; `make_fitting` raises StateError where no state fits."""
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
        fitting = make_fitting()
        saved = checked_against(fitting, saved, loader, strict=strict)
        _warn_of_program_draws(loader, fitting, saved)
    _end_iteration(loader)
    loader._fastload.progress.load(kept, saved)
    loader._fastload.epoch = saved.epoch
    sampler = epoch_holder(loader._index_sampler)
    if sampler is not None and saved.sampler.epoch is not None and sampler.epoch != saved.sampler.epoch:
        sampler.set_epoch(saved.sampler.epoch)


def _end_iteration(loader: Any) -> None:
    """Ends the iteration that began last, which may be a persistent one."""
    iterator, loader._iterator = loader._fastload.progress.iterator, None
    if isinstance(iterator, ResumableIterator):
        iterator._shutdown_workers()


def _warn_of_program_draws(loader: Any, fitting: Fitting, saved: SavedState) -> None:
    """Once: without workers random transforms draw from the program's generators, which no state has."""
    state = loader._fastload
    is_concerned = fitting.has_ordered_draws and loader.num_workers == 0 and loader._setting("rng") == "torch"
    is_concerned = is_concerned and saved.moment == "in an epoch"
    if is_concerned and not state.has_warned_of_program_draws:
        state.has_warned_of_program_draws = True
        others = (
            "" if fitting.way == "native" else ", and random.getstate() and numpy.random.get_state() where they draw"
        )
        warnings.warn(
            "num_workers=0: random transforms draw from torch's default generator, which is the program's and not in "
            f"the state. Save torch.get_rng_state() beside it{others}, and set it behind the iter() that resumes",
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
        saved = replace(saved, base_seed=None, resets=0, draws=None, workers=None)
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


def check_not_resumed(loader: Any, why: str) -> None:
    """Raises StateError where a state of an epoch was loaded into a loader whose epochs have none now."""
    saved = loader._fastload.progress.beginning
    if saved is not None and saved.fingerprint is not None:
        raise obstacle("this loader", why)


def check_beginning(loader: Any, make_fitting: Callable[[], Fitting]) -> SavedState | None:
    """Where an iteration begins. Raises StateError where it cannot."""
    saved: SavedState | None = loader._fastload.progress.beginning
    if saved is not None and saved.fingerprint is not None:
        fitting = make_fitting()
        check_way(fitting, saved)
        check_num_workers(fitting, saved, loader._num_threads)
    return saved


def fitting_of(loader: Any, plan: LoaderPlan, make_native: Callable[[LoaderPlan], NativePlan]) -> Fitting:
    """What a state must fit to go on with `loader`. Raises StateError: of such a loader no epoch has a state."""
    if plan.mode is Mode.NATIVE:
        native = make_native(plan)
        return Fitting(
            "native",
            fingerprint_of(native, loader.batch_sampler, loader._describe_errors()),
            native.has_ordered_draws,
        )
    if plan.mode is Mode.TORCH:
        raise obstacle("this loader", OF_TORCHS)
    fingerprint = fingerprint_of_loader(loader.dataset, loader._index_sampler, loader._describe_errors())
    way: Way = "tail" if plan.mode is Mode.PARTLY_NATIVE else "python"
    is_of_stream = isinstance(loader.dataset, IterableDataset)
    has_states = is_of_stream or is_stateful(loader.dataset)
    return Fitting(way, fingerprint, loader._setting("rng") == "torch" or has_states, is_of_stream)


def state_rows(loader: Any, mode: Mode) -> list[str]:
    """What explain() says where an epoch has no state, or one that does not tell all."""
    if loader._is_of_processes:
        return [_row(f"raises StateError: {OF_PROCESSES}")]
    if loader._setting("steps") is not None:
        return [_row(f"raises StateError: {OF_STEPS}")]
    if mode is Mode.NATIVE:
        return []
    if mode is Mode.TORCH:
        return [_row(f"gives the epoch's beginning: {OF_TORCHS}")]
    return list(map(_row, _losses(loader)))


def _losses(loader: Any) -> Iterator[str]:
    """What a state of an epoch lacks whose batches Python makes."""
    if isinstance(loader.dataset, IterableDataset) and not is_stateful(loader.dataset):
        yield (
            "tells how many batches to ask for again: data set or iterator need state_dict() and load_state_dict() to "
            "go on at once"
        )
    if loader.num_workers == 0:
        return
    if not loader.in_order:
        yield "counts the batches handed out, which with in_order=False may be others than the first so many"
    if loader._setting("rng") != "torch":
        return
    if not loader._setting("copy"):
        if is_stateful(loader.dataset):
            yield "has the data set's own state as all workers have left it: with copy=False they share it"
        yield "is without the generators that the data set and transforms hold: with copy=False all workers share them"
        return
    for path in unread_generators(tuple(loader._user_code()), NAMES):
        yield f"is not exact: {path}, a generator whose state cannot be read"


def _row(what: str) -> str:
    return f"{'state':<10} in an epoch state_dict() {what}"
