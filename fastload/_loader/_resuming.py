"""state_dict() and load_state_dict() of a loader, and the start of an iteration at a resume point."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fastload._errors import StateError
from fastload._iteration._fingerprint import fingerprint_of, fingerprint_of_loader
from fastload._iteration._iterator import EpochIterator
from fastload._iteration._progress import Progress
from fastload._iteration._saved_state import SavedState, Way
from fastload._iteration._setup import LoaderArguments
from fastload._iteration._states import state_not_begun
from fastload._loader._current import CurrentLoader
from fastload._loader._saved_checks import (
    ResumeRequirements,
    check_num_workers,
    check_settings_of,
    check_way,
    checked_against,
    copied,
)
from fastload._planning._plan import LoaderPlan
from fastload._planning._verdicts import Mode
from fastload._planning._worker_form import WorkerForm
from fastload._quarantine._substitutes import describe_errors
from fastload._resume._user_state import is_stateful
from fastload._workers._places import HeldGenerators
from fastload.samplers._resting import (
    common_epoch,
    epoch_holder,
    load_own_state,
    loaded_at_rest,
    set_generators,
)
from fastload.samplers._seeded_shuffle import SeededShuffle

# The most paths in one row of explain().
_MAX_PATHS = 8
# Why a loader with steps= has no state, and what to do.
_WITH_STEPS = (
    "with steps= an iteration covers a part of an epoch or several epochs, and only whole epochs can be resumed",
    "Leave out steps and end the loop yourself",
)


def state_of(now: CurrentLoader, begin_epoch: Callable[[], Any]) -> dict[str, Any]:
    """Returns the result of DataLoader.state_dict(); calls `begin_epoch` if the next epoch must start first."""
    _check_kind(now)
    progress = now.kept.progress
    if progress.loaded is not None:
        return copied(progress.loaded[0])
    if not progress.has_begun and not _begin_early(now, begin_epoch):
        return state_not_begun(now.arguments).as_dict()
    iterator = progress.iterator
    if not isinstance(iterator, EpochIterator) and progress.left is None:
        raise StateError(
            "fastload.position",
            "is not known: this process has a copy of an iterator, or a derived class has made another",
            "ask for the state in the process that iterates",
        )
    state: dict[str, Any] = iterator.state_dict() if progress.left is None else progress.left().as_dict()
    _warn_of_inexact(now, state)
    return state


def _begin_early(now: CurrentLoader, begin_epoch: Callable[[], Any]) -> bool:
    """Starts the epoch of the next iter() now, if only the workers' data sets know their positions; else False."""
    if not is_stateful(now.loader.dataset) or now.plan().mode is Mode.NATIVE:
        return False
    progress, holder = now.kept.progress, epoch_holder(now.index_sampler)
    iterator = begin_epoch()
    progress.epoch -= 1  # the program has not asked for it yet
    progress.begun = iterator, progress.epoch, None if holder is None else holder.epoch
    return True


def take_begun(now: CurrentLoader) -> Any:
    """Returns the iteration that state_dict() has begun, if it is still the one that would begin now; else None."""
    progress = now.kept.progress
    begun, progress.begun = progress.begun, None
    if begun is None:
        return None
    iterator, *epochs = begun
    holder = epoch_holder(now.index_sampler)
    if iterator.is_running and epochs == [progress.epoch, None if holder is None else holder.epoch]:
        progress.epoch += 1
        return iterator
    _end_iteration(progress)
    return None


def _check_kind(now: CurrentLoader) -> None:
    """Raises StateError for a loader whose iterations have no states."""
    if now.settings.steps is not None:
        problem, next_step = _WITH_STEPS
        what = f"a loader with steps={now.settings.steps}"
        raise StateError("fastload.way", f"{what} has no state to resume from: {problem}", next_step)


def _warn_of_inexact(now: CurrentLoader, state: dict[str, Any]) -> None:
    """Warns once if later batches depend on something that the state does not contain."""
    kept = now.kept
    if kept.has_warned_of_inexact:
        return
    found = sorted({path for worker in state["fastload"].get("workers", ()) for path in worker.get("not_exact", ())})
    reasons = [f"not exact: {path}, a generator whose state cannot be read or restored" for path in found]
    if state["fastload"]["way"] != "native" and now.loader.num_workers > 0 and not now.loader.in_order:
        reasons.append("with in_order=False, the batches handed out may not be the first ones of the epoch")
    if reasons:
        kept.has_warned_of_inexact = True
        warnings.warn(f"later batches depend on more than the state contains: {'; '.join(reasons)}", stacklevel=4)


def load_state(now: CurrentLoader, state: Any, *, strict: bool) -> None:
    """Implements DataLoader.load_state_dict()."""
    _check_kind(now)
    progress, arguments = now.kept.progress, now.arguments
    if type(state) is dict and not state:
        _end_iteration(progress)
        progress.load(None, None)
        progress.epoch = 0
        return
    saved = SavedState.parse(state)
    kept = copied(state)
    check_settings_of(saved, now.settings.rng, now.settings.seed, now.index_sampler)
    if saved.generator is not None and arguments.generator is None:
        raise StateError(
            "fastload.generator",
            "is from a loader with generator=, and this one has none",
            "pass generator= a torch.Generator",
        )
    if saved.fingerprint is not None:
        requirements = _requirements_of(now, now.plan())
        saved = checked_against(requirements, saved, arguments, strict=strict)
        _warn_of_program_draws(now, requirements, saved)
    _end_iteration(progress)
    progress.load(kept, saved)
    progress.epoch = saved.epoch
    sampler = epoch_holder(now.index_sampler)
    if sampler is not None and saved.sampler.epoch is not None and sampler.epoch != saved.sampler.epoch:
        sampler.set_epoch(saved.sampler.epoch)


def _end_iteration(progress: Progress) -> None:
    """Ends the last iteration."""
    if isinstance(progress.iterator, EpochIterator):
        progress.iterator._shutdown_workers()


def _warn_of_program_draws(now: CurrentLoader, requirements: ResumeRequirements, saved: SavedState) -> None:
    """Warns once that random transforms draw from the program's generators, which no state contains."""
    kept = now.kept
    is_concerned = requirements.has_ordered_draws and now.loader.num_workers == 0 and now.settings.rng == "torch"
    is_concerned = is_concerned and saved.moment == "in an epoch"
    if is_concerned and not kept.has_warned_of_program_draws:
        kept.has_warned_of_program_draws = True
        others = (
            ""
            if requirements.way == "native"
            else ", and random.getstate() and numpy.random.get_state() if transforms use them"
        )
        warnings.warn(
            "num_workers=0: random transforms draw from torch's default generator, which belongs to the program and is "
            f"not in the state. Save torch.get_rng_state() with it{others}, and restore it after the iter() that "
            "resumes",
            stacklevel=4,
        )


def prepare_iteration(arguments: LoaderArguments) -> None:
    """Restores generators and sampler from a loaded state, at the start of an iteration."""
    progress = arguments.progress
    progress.resumed = None
    if progress.loaded is None:
        return
    saved: SavedState = progress.loaded[1]
    if saved.moment == "between epochs" and saved.goes_on and not arguments.is_persistent:
        saved = replace(saved, base_seed=None, resets=0, draws=None, workers=None)
    progress.resumed = saved
    if saved.moment == "in an epoch":
        _follow_epoch(progress, saved)
        return
    if arguments.generator is not None and saved.generator is not None:
        arguments.generator.set_state(saved.generator)
    set_generators(arguments.index_sampler, saved.sampler.generators)
    for state in loaded_at_rest(arguments.index_sampler, saved.sampler):
        load_own_state(arguments.index_sampler, state)


def follow_sampler(arguments: LoaderArguments) -> None:
    """Gives a seeded loader and its sampler the same epoch, the later of the two, at the start of an iteration."""
    progress, sampler = arguments.progress, epoch_holder(arguments.index_sampler)
    if not arguments.settings.is_seeded:
        return
    if progress.resumed is None:
        progress.epoch = common_epoch(arguments.index_sampler, progress.epoch)
    elif isinstance(sampler, SeededShuffle):
        sampler.begin_epoch(progress.epoch)


def _follow_epoch(progress: Progress, saved: SavedState) -> None:
    if progress.epoch != saved.epoch:
        warnings.warn(
            f"set_epoch({progress.epoch}) was called after load_state_dict(), but the loaded state resumes epoch "
            f"{saved.epoch}: call set_epoch() only for the epochs after it",
            stacklevel=4,
        )
        progress.epoch = saved.epoch


def checked_resume_point(now: CurrentLoader, plan: LoaderPlan) -> SavedState | None:
    """Returns the resume point of an iteration. Raises StateError if the loader cannot resume there."""
    saved = now.kept.progress.resumed
    if saved is not None and saved.fingerprint is not None:
        requirements = _requirements_of(now, plan)
        check_way(requirements, saved)
        check_num_workers(requirements, saved, now.arguments.num_threads)
    return saved


def _requirements_of(now: CurrentLoader, plan: LoaderPlan) -> ResumeRequirements:
    """Returns what a state must fit to be resumed."""
    errors = describe_errors(now.settings.error_policy, now.candidates)
    if plan.mode is Mode.NATIVE:
        native = now.native_plan(plan)
        fingerprint = fingerprint_of(native, now.index_sampler, errors)
        return ResumeRequirements("native", fingerprint, native.has_ordered_draws)
    fingerprint = fingerprint_of_loader(now.loader.dataset, now.index_sampler, errors)
    way: Way = "tail" if plan.mode is Mode.PARTLY_NATIVE else "python"
    return ResumeRequirements(way, fingerprint, now.arguments.is_ordered)


def state_rows(now: CurrentLoader, mode: Mode, form: WorkerForm) -> list[str]:
    """Returns the rows of explain() for an epoch that has no state, or an incomplete one."""
    if now.settings.steps is not None:
        return [_row(f"raises StateError: {'. '.join(_WITH_STEPS)}")]
    if mode is Mode.NATIVE:
        return []
    return list(map(_row, _losses(now, form)))


def _losses(now: CurrentLoader, form: WorkerForm) -> Iterator[str]:
    """Yields what is missing in a state of an epoch whose batches Python makes."""
    if now.arguments.is_of_stream and not is_stateful(now.loader.dataset):
        yield (
            "only counts batches, which are loaded again to resume: to resume at once, the data set or its iterator "
            "needs state_dict() and load_state_dict()"
        )
    if now.loader.num_workers == 0:
        return
    if not now.loader.in_order:
        yield "counts the batches handed out, which with in_order=False may not be the first ones of the epoch"
    are_shared = form.kind == "threads" and now.arguments.num_threads > 1
    if now.settings.rng != "torch" and not are_shared:
        return
    held = HeldGenerators(now.arguments.code)
    if not are_shared:
        for path in held.unread:
            yield f"is not exact: {path}, a generator whose state cannot be read"
        return
    if is_stateful(now.loader.dataset):
        yield "contains the data set's own state as all worker threads have left it: they share it"
    if held.paths:
        shown = ", ".join(held.paths[:_MAX_PATHS])
        more = "" if len(held.paths) <= _MAX_PATHS else f" and {len(held.paths) - _MAX_PATHS} more"
        seeds = "" if now.settings.rng == "torch" else ", and rng='sample' does not seed them"
        yield f"lacks generators that all worker threads share: {shown}{more}{seeds}"


def _row(what: str) -> str:
    return f"{'state':<10} in an epoch state_dict() {what}"
