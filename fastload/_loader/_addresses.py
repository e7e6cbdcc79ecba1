"""Batches and samples by their address: an epoch and a position in it, or a saved state."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler

from fastload import _native
from fastload._errors import SampleError
from fastload._iteration._iterator import EpochIterator
from fastload._iteration._saved_state import SavedState
from fastload._iteration._states import order_from
from fastload._iteration.native._report import SampleReport
from fastload._loader._current import CurrentLoader, arguments_of
from fastload._planning._plan import NativePlan
from fastload._planning._verdicts import Mode
from fastload._process._interrupts import append_result, is_interrupt
from fastload.samplers._draw_numbers import (
    DrawNumbers,
    NumberedBatches,
    first_number_of,
    numbers_of,
    size_of,
)
from fastload.samplers._resting import epoch_holder, kind_of, sharded_of
from fastload.samplers._sampled import BadIndicesError

_SEEDED = "pass rng='sample' and seed= to the loader: random transforms then depend only on seed, epoch and sample"
_ORDERED = (
    "pass shuffle=True with rng='sample' and seed=, or a fastload.ShardedSampler: their order depends only on seed and "
    "epoch"
)
_SAVED = "; or pass state=, a state that state_dict() returned in that epoch"


class AddressedBatches:
    """Some batches of one epoch. Each iter() loads them again; several may run at once.

    len() is their number, including batches that fail.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], num_batches: int) -> None:
        self._begin = begin
        self._num_batches = num_batches

    def __iter__(self) -> Iterator[Any]:
        return self._begin()

    def __len__(self) -> int:
        return self._num_batches


class _Part:
    """The batches of a native iteration before position `stop`. An interrupt loses none: Note [interrupts]."""

    __next__ = _native.next_when_ready

    def __init__(self, iterator: EpochIterator, stop: int) -> None:
        self._iterator = iterator
        self._stop = stop
        self._ready: list[Any] = []

    def __iter__(self) -> _Part:
        return self

    def _prepare(self) -> None:
        if not self._ready and self._iterator.position < self._stop:
            append_result(self._ready, next, self._iterator)
        if not self._ready:
            raise StopIteration

    def batch_report(self) -> list[SampleReport]:
        return self._iterator.batch_report()


def batches_at(
    now: CurrentLoader,
    *,
    epoch: int | None,
    step: int | None,
    stop: int | None,
    state: dict[str, Any] | None,
) -> AddressedBatches:
    """Returns what DataLoader.at() returns."""
    if epoch is not None and state is None:
        return _batches_of_epoch(now, epoch, 0 if step is None else step, stop)
    if state is not None and epoch is None:
        return _batches_of_state(now, state, step, stop)
    raise ValueError("at() takes either an epoch or a state: pass one of them")


def sample_at(
    now: CurrentLoader, index: int, *, epoch: int | None, step: int | None, state: dict[str, Any] | None
) -> tuple[Any, SampleReport]:
    """Returns what DataLoader.replay() returns."""
    if epoch is not None and state is None:
        return _sample_of_epoch(now, index, epoch, step)
    if state is not None and epoch is None:
        return _sample_of_state(now, index, state, step)
    raise ValueError("replay() takes either an epoch or a state: pass one of them")


def _batches_of_epoch(now: CurrentLoader, epoch: int, step: int, stop: int | None) -> AddressedBatches:
    _check_seeded(now, f"epoch {epoch}")
    index_sampler = _sampler_of_epoch(now, epoch)
    step, stop = _range_of(step, stop, 0, len(index_sampler))
    part = _part_of(index_sampler, step, stop)
    return AddressedBatches(lambda: iter(_detached_seeded(now, epoch, **_NO_SAMPLER, batch_sampler=part)), stop - step)


def _batches_of_state(
    now: CurrentLoader, state: dict[str, Any], step: int | None, stop: int | None
) -> AddressedBatches:
    detached, saved = _checked_detached_at(now, state)
    position = saved.position
    step, stop = _range_of(
        position if step is None else step, stop, position, len(CurrentLoader(detached).index_sampler)
    )
    num_batches = stop - step
    if num_batches == 0:
        step = stop = position

    def begin() -> Iterator[Any]:
        reached = state if step == position else _state_at(now, state, step)
        return _Part(iter(_detached_at(now, reached)), stop)

    return AddressedBatches(begin, num_batches)


def _state_at(now: CurrentLoader, state: dict[str, Any], step: int) -> dict[str, Any]:
    """Returns the state at a later batch of the epoch; loads the batches between if their draws are needed."""
    detached = _detached_at(now, state, device=None, device_prefetch=None, device_transform=None)
    if (
        _saved_in(detached).moment == "in an epoch"
        and not _native_plan_of(CurrentLoader(detached), "the epoch of a state").has_ordered_draws
    ):
        return {**state, "_num_yielded": step, "_sampler_iter_yielded": step}
    iterator: EpochIterator = iter(detached)
    while iterator.position < step:
        _drop_next(iterator)
    reached = iterator.state_dict()
    iterator._shutdown_workers()
    return reached


def _drop_next(iterator: EpochIterator) -> None:
    """Loads the next batch for its draws only. A batch that fails counts, as in the epoch itself."""
    position = iterator.position
    try:
        next(iterator)
    except Exception as error:
        if is_interrupt(error) or iterator.position == position:
            raise


def _part_of(index_sampler: Any, step: int, stop: int) -> list[Any]:
    """Returns the batches in [step, stop) of an epoch that has not begun."""
    part = itertools.islice(index_sampler, step, stop)
    numbers = numbers_of(index_sampler)
    if numbers is None:
        return list(part)
    size = size_of(index_sampler)
    return NumberedBatches(part, DrawNumbers(numbers.first + numbers.stride * size * step, numbers.stride), size)


def _sample_of_epoch(now: CurrentLoader, index: int, epoch: int, step: int | None) -> tuple[Any, SampleReport]:
    _check_seeded(now, f"sample {index} of epoch {epoch}")
    _check_int("epoch", epoch, 0, 2**63)
    _check_int("index", index, 0, _num_samples(now))
    number = _number_in_epoch(now, index, epoch, step)
    alone = [[index]] if number is None else NumberedBatches([[index]], DrawNumbers(number, 0), 1)
    iterator = iter(_detached_seeded(now, epoch, **_NO_SAMPLER, batch_sampler=alone, **_NO_WORKERS))
    batch = next(iterator)
    (report,) = iterator.batch_report()
    return _sample_at(batch, 0), report


def _number_in_epoch(now: CurrentLoader, index: int, epoch: int, step: int | None) -> int | None:
    """Returns the number of a sample's draw: the first on any rank, or the one in a batch; None if draws have none."""
    if step is None and numbers_of(now.index_sampler) is None:
        return None
    index_sampler = _sampler_of_epoch(now, epoch)
    if step is not None:
        _check_step(step, 0, len(index_sampler))
        part = _part_of(index_sampler, step, step + 1)
        positions = (at for at, given in enumerate(part[0]) if given % _num_samples(now) == index)
        if (position := next(positions, None)) is None:
            raise ValueError(_not_in_batch(index, step, epoch))
        numbers = numbers_of(part)
        return None if numbers is None else int(numbers.of(position, 1)[0])
    sharded = sharded_of(index_sampler)
    assert sharded is not None, "it is the only sampler that draws in a known order"
    number = first_number_of(sharded, index, epoch)
    if number is None:
        raise ValueError(f"sample {index} is not in epoch {epoch}: none of its {sharded.total_size} draws gave it")
    return number


def _sample_of_state(
    now: CurrentLoader, index: int, state: dict[str, Any], step: int | None
) -> tuple[Any, SampleReport]:
    detached, saved = _checked_detached_at(now, state)
    _check_int("index", index, 0, _num_samples(now))
    if saved.moment != "in an epoch":
        raise ValueError(
            f"the state is from before the start of epoch {saved.epoch}, which draws its seeds: pass a state from "
            "within that epoch, which state_dict() returns after iter()"
        )
    if step is None:
        step = _step_of(detached, saved, index)
    _check_step(step, saved.position, len(CurrentLoader(detached).index_sampler))
    with torch.random.fork_rng(devices=()):  # without workers, batches draw from the program's generator
        iterator: Any = iter(_batches_of_state(now, state, step, step + 1))
        try:
            batch = next(iterator)
        except SampleError as error:
            if error.index % _num_samples(now) == index:
                raise
            raise ValueError(
                f"sample {index} is not made in epoch {saved.epoch}: {error.path!r} in batch {step} cannot be loaded"
            ) from error
    reports = iterator.batch_report()
    for row, report in enumerate(reports):
        given = report.index if report.replaced is None else report.replaced
        if given % _num_samples(now) == index:
            return _sample_at(batch, row), report
    raise ValueError(_not_in_batch(index, step, saved.epoch))


def _step_of(detached: Any, saved: SavedState, index: int) -> int:
    """Returns the number of the first batch that has a sample, from the position of the state in `detached` on."""
    current = CurrentLoader(detached)
    order = order_from(saved, current.index_sampler, current.arguments.max_batches)
    order.begin(None)
    for step in itertools.count(saved.position):
        given: list[Any] = []
        order.give(given)
        if not given:
            break
        batch = order.item(given[0], takes_keys=False)
        indices = batch.before if isinstance(batch, BadIndicesError) else batch
        if index in indices % len(detached.dataset):
            return step
    raise ValueError(
        f"sample {index} is not in epoch {saved.epoch} from batch {saved.position} on, the position of the state: pass "
        "an earlier state of that epoch"
    )


def _not_in_batch(index: int, step: int, epoch: int) -> str:
    return f"sample {index} is not in batch {step} of epoch {epoch}: batch_report() says which samples a batch has"


def _sample_at(batch: Any, row: int) -> tuple[Any, int]:
    """Returns a sample of a batch as the data set gives it, in its own memory."""
    images, labels = batch
    image = images[row].clone() if isinstance(images, torch.Tensor) else [view[row].clone() for view in images]
    return image, int(labels[row])


# Arguments for a loader with a batch sampler, and for one without workers.
_NO_SAMPLER = {"sampler": None, "batch_size": 1, "drop_last": False}
_NO_WORKERS = {"num_workers": 0, "prefetch_factor": None, "multiprocessing_context": None, "timeout": 0}


def _check_seeded(now: CurrentLoader, what: str) -> None:
    """Raises ValueError if a random transform depends on more than seed, epoch and sample."""
    is_random = any(view.is_random for view in _native_plan_of(now, what).views)
    rng, seed = now.settings.rng, now.settings.seed
    if is_random and not now.settings.is_seeded:
        problem = f"with rng={rng!r} and seed={seed!r} the draws of random transforms are not known"
        raise ValueError(f"{what} cannot be made again: {problem}. {_SEEDED}{_SAVED}")


def _native_plan_of(now: CurrentLoader, what: str) -> NativePlan:
    """Returns the native plan; raises ValueError, which says that `what` needs it, if there is none."""
    plan = now.plan()
    if plan.mode is not Mode.NATIVE:
        raise ValueError(f"{what} cannot be made again: batches are not native; explain() says why, and what to change")
    return now.native_plan(plan)


def _sampler_of_epoch(now: CurrentLoader, epoch: int) -> Any:
    """Returns a separate sampler that gives the order of that epoch. Raises ValueError if the order is not known."""
    _check_int("epoch", epoch, 0, 2**63)
    sharded = sharded_of(now.index_sampler)
    is_known = kind_of(now.index_sampler) in ("fixed", "distributed")
    if not is_known and (sharded is None or sharded._infinite):
        sampler = type(getattr(now.index_sampler, "sampler", now.index_sampler)).__name__
        problem = f"a {sampler} draws the order of each epoch"
        raise ValueError(f"epoch {epoch} cannot be made again: {problem}. {_ORDERED}{_SAVED}")
    index_sampler = copy.copy(now.index_sampler)
    if type(index_sampler) is BatchSampler:
        index_sampler.sampler = copy.copy(index_sampler.sampler)
    holder = epoch_holder(index_sampler)
    if holder is not None:
        holder.set_epoch(epoch)
    return index_sampler


def _check_int(name: str, value: int, first: int, end: int, meaning: str = "") -> None:
    """Raises ValueError if an argument is not an int in [first, end)."""
    if isinstance(value, bool) or not isinstance(value, int) or not first <= value < end:
        shown = "2**63" if end == 2**63 else end
        raise ValueError(f"{name} must be an int in [{first}, {shown}){meaning}, got {value!r}")


def _check_step(step: int, first: int, length: int) -> None:
    _check_int("step", step, first, length, ", the available batches of the epoch")


def _range_of(step: int, stop: int | None, first: int, length: int) -> tuple[int, int]:
    """Returns step and stop. Raises ValueError if they are not numbers of batches in [first, length)."""
    stop = length if stop is None else stop
    for name, value in (("step", step), ("stop", stop)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be an int, got {value!r}")
    if not first <= step <= stop <= length:
        raise ValueError(
            f"step and stop must satisfy {first} <= step <= stop <= {length}, the available batches of the epoch, got "
            f"step={step} and stop={stop}"
        )
    return step, stop


def _detached(now: CurrentLoader, **changes: Any) -> Any:
    """Returns a detached loader: it has the same settings, and shares only the data set."""
    arguments = {
        **arguments_of(now.loader),
        **vars(now.settings),
        "persistent_workers": False,
        "steps": None,
        **_errors_of(now),
        **changes,
    }
    return now.kept.kind(**arguments)


def _errors_of(now: CurrentLoader) -> dict[str, Any]:
    """Returns arguments by which the same samples replace bad ones with any sampler, and the ledger is not written."""
    policy, candidates = now.settings.error_policy, now.candidates
    if not policy.is_active:
        return {}
    substitutes = "all" if isinstance(candidates, int) else candidates
    return {"ledger": None, "substitutes": substitutes if policy.on_error == "replace" else None}


def _detached_seeded(now: CurrentLoader, epoch: int, **changes: Any) -> Any:
    """Returns a detached loader whose next iter() starts that epoch. It draws nothing from the program's generators."""
    detached = _detached(now, generator=torch.Generator(), **changes)
    detached.set_epoch(epoch)
    return detached


def _detached_at(now: CurrentLoader, state: dict[str, Any], **changes: Any) -> Any:
    """Returns a detached loader whose next iter() resumes from a state, with its own generators."""
    arguments = arguments_of(now.loader)
    generator = None if now.loader.generator is None else _cloned(now.loader.generator)
    # The next epoch of persistent workers continues with their draws.
    changes |= {"generator": generator, "persistent_workers": now.loader.persistent_workers}
    if "sampler" in arguments:
        sampler = copy.copy(arguments["sampler"])
        held = getattr(sampler, "generator", None)
        if isinstance(held, torch.Generator):
            sampler.generator = generator if held is now.loader.generator else _cloned(held)
        changes["sampler"] = sampler
    detached = _detached(now, **changes)
    detached.load_state_dict(state)
    return detached


def _checked_detached_at(now: CurrentLoader, state: dict[str, Any]) -> tuple[Any, SavedState]:
    """Returns a detached loader at a state, and the state as it was read.

    Raises ValueError if batches are not native, or the sampler cannot give an epoch while another one runs.
    """
    _native_plan_of(now, "the epoch of a state")
    if kind_of(now.index_sampler) in ("stateful", "asked again") and sharded_of(now.index_sampler) is None:
        name = type(now.index_sampler).__name__
        raise ValueError(f"the epoch of a state cannot be made again while a {name} gives another one. {_ORDERED}")
    detached = _detached_at(now, state)
    return detached, _saved_in(detached)


def _saved_in(detached: Any) -> SavedState:
    """Returns the state that was loaded into a loader that has not begun."""
    loaded = CurrentLoader(detached).kept.progress.loaded
    assert loaded is not None, "a state was loaded"
    return loaded[1]


def _cloned(generator: torch.Generator) -> torch.Generator:
    return torch.Generator(generator.device).set_state(generator.get_state())


def _num_samples(now: CurrentLoader) -> int:
    return len(now.source())
