"""Batches and samples by their address: an epoch and a place in it, or a saved state."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import BatchSampler, IterableDataset, SequentialSampler

from fastload import _native
from fastload._iteration.native._files import FoundFiles, find_files
from fastload._iteration.native._iterator import NativeIterator
from fastload._iteration.native._planner import BatchPlanner
from fastload._iteration.native._report import SampleReport
from fastload._loader._arguments import arguments_of
from fastload._loader._epoch_plan import EpochPlan, is_in_epoch, only_batch, place_in
from fastload._loader._journal import epoch_in_journal
from fastload._planning._native_plans import NativePlan
from fastload._process._interrupts import keep
from fastload.samplers._draw_numbers import (
    DrawNumbers,
    NumberedBatches,
    Numbers,
    first_number_of,
    numbers_of,
    size_of,
)
from fastload.samplers._lowering import BadIndicesError, IndexBatch, lower_batch_sampler
from fastload.samplers._resting import epoch_holder, kind_of, sharded_of
from fastload.sources._lowering import NotLoweredError

# Makes a loader.
Kind = Callable[..., Any]

_SEEDED = "pass rng='sample' and seed= to the loader: then they depend on seed, epoch and sample alone"
_ORDERED = (
    "pass shuffle=True with rng='sample' and seed=, or a fastload.ShardedSampler: their order depends on seed and epoch"
)
_SAVED = "; or pass state=, which state_dict() gave in that epoch, or let the loader note its epochs: journal="


class AddressedBatches:
    """Some batches of one epoch. Each iter() gives them anew, and several may run at once; len() is their number.

    Args:
        begin: Gives an iterator over them.
        num_batches: How many they are; where one fails, it counts.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], num_batches: int) -> None:
        self._begin = begin
        self._num_batches = num_batches

    def __iter__(self) -> Iterator[Any]:
        return self._begin()

    def __len__(self) -> int:
        return self._num_batches


class _Part:
    """The batches of a native iteration up to one of them. An interrupt costs none: Note [interrupts]."""

    __next__ = _native.next_in_hand

    def __init__(self, iterator: NativeIterator, stop: int) -> None:
        self._iterator = iterator
        self._stop = stop
        self._hand: list[Any] = []

    def __iter__(self) -> _Part:
        return self

    def _prepare(self) -> None:
        if not self._hand and self._iterator.position < self._stop:
            keep(self._hand, next, self._iterator)
        if not self._hand:
            raise StopIteration

    def batch_report(self) -> list[SampleReport]:
        return self._iterator.batch_report()


def state_of_address(name: str, loader: Any, epoch: int | None, state: Any) -> Any:
    """The state that an address is, in the loader's journal where an epoch is no function of seeds; else None.

    Raises:
        ValueError: It is not one of the two, or not in the journal.
    """
    if (epoch is None) == (state is None):
        raise ValueError(f"{name}() takes an epoch or a state: pass one of them")
    journal = loader._setting("journal")
    if epoch is None or journal is None or loader._native_plan_or_none() is None:
        return state
    needs_order = name != "replay" or numbers_of(loader._index_sampler) is not None
    if _problem_of_draws(loader) is None and not (needs_order and _problem_of_order(loader)):
        return None
    _check_epoch(epoch)
    return epoch_in_journal(journal, epoch)


def batches_of_epoch(loader: Any, kind: Kind, epoch: int, step: int, stop: int | None) -> AddressedBatches:
    """What at() of a fastload.DataLoader gives for an epoch."""
    _check_seeded(loader, f"epoch {epoch}")
    index_sampler = _sampler_of_epoch(loader, epoch)
    step, stop = _range_of(step, stop, 0, len(index_sampler))
    part = _part_of(index_sampler, step, stop)
    return AddressedBatches(
        lambda: iter(_seeded_twin(loader, kind, epoch, **_NO_SAMPLER, batch_sampler=part)), stop - step
    )


def batches_of_state(
    loader: Any, kind: Kind, state: dict[str, Any], step: int | None, stop: int | None
) -> AddressedBatches:
    """The same for the epoch that a saved state is of."""
    twin, position = _known_twin_at(loader, kind, state)
    step, stop = _range_of(position if step is None else step, stop, position, len(twin._index_sampler))
    num_batches = stop - step
    if num_batches == 0:
        step = stop = position

    def begin() -> Iterator[Any]:
        if step == position:
            return _Part(iter(_twin_at(loader, kind, state)), stop)
        plan = EpochPlan(_twin_at(loader, kind, _begun(loader, kind, state)))
        plan.pass_over(step)
        plan.leave_program()
        return _Part(iter(_twin_at(loader, kind, plan.state())), stop)

    return AddressedBatches(begin, num_batches)


def _begun(loader: Any, kind: Kind, state: dict[str, Any]) -> dict[str, Any]:
    """The state, where an epoch is to begin there that of its first batch."""
    twin = _twin_at(loader, kind, state)
    if is_in_epoch(twin._fastload.progress.loaded[1]):
        return state
    iterator = iter(twin)
    begun: dict[str, Any] = iterator.state_dict()
    iterator._shutdown_workers()
    return begun


def plan_of_epoch(loader: Any, epoch: int, step: int) -> list[SampleReport]:
    """What plan() of a fastload.DataLoader gives for an epoch."""
    native = loader._native_plan_or_none()
    if native is not None or loader.batch_sampler is None or isinstance(loader.dataset, IterableDataset):
        _check_seeded(loader, f"epoch {epoch}")
    index_sampler = _sampler_of_epoch(loader, epoch)
    _check_step(step, 0, len(index_sampler))
    part = _part_of(index_sampler, step, step + 1)
    given = _lowered(part)
    if native is None:
        return _without_draws(loader, given)
    found = _without_error(find_files(native.source, given, _numbers_of_first(part)))
    key = loader._settings.seed or 0, epoch
    return BatchPlanner(native, [], step, key, loader._handling()).report(found)


def plan_of_state(loader: Any, kind: Kind, state: dict[str, Any], step: int | None) -> list[SampleReport]:
    """The same for the epoch that a saved state is of."""
    twin, position = _known_twin_at(loader, kind, state)
    step = position if step is None else step
    _check_step(step, position, len(twin._index_sampler))
    plan = EpochPlan(twin)
    plan.pass_over(step)
    return plan.report()


def _part_of(index_sampler: Any, step: int, stop: int) -> list[Any]:
    """Some batches of an epoch that has not begun."""
    part = itertools.islice(index_sampler, step, stop)
    numbers = numbers_of(index_sampler)
    if numbers is None:
        return list(part)
    size = size_of(index_sampler)
    return NumberedBatches(part, DrawNumbers(numbers.first + numbers.stride * size * step, numbers.stride), size)


def _numbers_of_first(batches: list[Any]) -> Numbers | None:
    numbers = numbers_of(batches)
    return None if numbers is None else numbers.of(0, len(batches[0]))


class _Sampled(NamedTuple):
    """Batches of indices in the place of the loader that has them."""

    batch_sampler: list[Any]


def _lowered(batches: list[Any]) -> IndexBatch | BadIndicesError:
    order = lower_batch_sampler(_Sampled(batches))
    given: list[IndexBatch | BadIndicesError] = []
    assert order is not None, "there are batches"
    order.give(given)
    return given[0]


def _without_draws(loader: Any, given: IndexBatch | BadIndicesError) -> list[SampleReport]:
    """What is known of a batch that Python makes: its indices, and the files where the data set is a list of some."""
    if isinstance(given, BadIndicesError):
        raise given
    try:
        source = loader._lowered_source()
    except NotLoweredError:
        return [SampleReport(index, "", "planned", (0, 0), ((),)) for index in given.tolist()]
    files = _without_error(find_files(source, given)).files.tolist()
    paths = [os.fsdecode(source.table.path_bytes(file)) for file in files]
    return [
        SampleReport(index, path, "planned", (0, 0), ((),)) for index, path in zip(given.tolist(), paths, strict=True)
    ]


def _without_error(found: FoundFiles) -> FoundFiles:
    if found.error is not None:
        raise found.error
    return found


def sample_of_epoch(loader: Any, kind: Kind, index: int, epoch: int, step: int | None) -> tuple[Any, SampleReport]:
    """What replay() of a fastload.DataLoader gives."""
    _check_seeded(loader, f"sample {index} of epoch {epoch}")
    _check_epoch(epoch)
    _check_index(loader, index)
    alone = only_batch(index, _number_in_epoch(loader, index, epoch, step))
    return _only_sample(_seeded_twin(loader, kind, epoch, **_NO_SAMPLER, batch_sampler=alone, **_NO_WORKERS))


def _number_in_epoch(loader: Any, index: int, epoch: int, step: int | None) -> int | None:
    """That of a sample's draw: the first of all ranks, or that of a batch; None: draws have none."""
    if step is None and numbers_of(loader._index_sampler) is None:
        return None
    index_sampler = _sampler_of_epoch(loader, epoch)
    if step is not None:
        _check_step(step, 0, len(index_sampler))
        part = _part_of(index_sampler, step, step + 1)
        place = place_in(_lowered(part), index, len(loader.dataset))
        if place is None:
            raise ValueError(f"sample {index} is not in batch {step} of epoch {epoch}: plan() says which ones are")
        numbers = _numbers_of_first(part)
        return None if numbers is None else int(numbers[place])
    sharded = sharded_of(index_sampler)
    assert sharded is not None, "no other sampler that draws has an order that is known"
    number = first_number_of(sharded, index, epoch)
    if number is None:
        raise ValueError(f"sample {index} is not in epoch {epoch}: none of its {sharded.total_size} draws gave it")
    return number


def sample_of_state(
    loader: Any, kind: Kind, index: int, state: dict[str, Any], step: int | None
) -> tuple[Any, SampleReport]:
    """The same for the epoch that a saved state is of."""
    twin, position = _known_twin_at(loader, kind, state)
    _check_index(loader, index)
    if step is not None:
        _check_step(step, position, len(twin._index_sampler))
    state_of_one, alone = EpochPlan(twin).sample_alone(index, step)
    of_one = {**_NO_SAMPLER, **_NO_WORKERS, "num_workers": 1, "worker_init_fn": None}  # whose draws are in the state
    twin = _twin(loader, kind, generator=torch.Generator(), batch_sampler=alone, **of_one)
    twin.load_state_dict(state_of_one)
    return _only_sample(twin)


def _check_index(loader: Any, index: int) -> None:
    number = len(loader.dataset)
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < number:
        raise ValueError(f"index must be an int in [0, {number}), got {index!r}")


def _only_sample(loader: Any) -> tuple[Any, SampleReport]:
    """That of a loader with one, as the data set gives it."""
    iterator = iter(loader)
    images, labels = next(iterator)
    (report,) = iterator.batch_report()
    image = images[0] if isinstance(images, torch.Tensor) else [view[0] for view in images]
    return (image, int(labels[0])), report


# The arguments of a loader with a batch sampler, and of one without workers.
_NO_SAMPLER = {"sampler": None, "batch_size": 1, "drop_last": False}
_NO_WORKERS = {"num_workers": 0, "prefetch_factor": None, "multiprocessing_context": None, "timeout": 0}


def _check_seeded(loader: Any, what: str) -> None:
    """Raises ValueError where a random transform does not depend on seed, epoch and sample alone."""
    _native_plan_of(loader, what)
    problem = _problem_of_draws(loader)
    if problem is not None:
        raise ValueError(f"{what} cannot be made again: {problem}. {_SEEDED}{_SAVED}")


def _problem_of_draws(loader: Any) -> str | None:
    """Why the draws of a native loader are no function of seed, epoch and sample; None: they are."""
    settings = loader._settings
    if settings.is_seeded or not any(view.is_random for view in loader._native_plan_or_none().views):
        return None
    return f"with rng={settings.rng!r} and seed={settings.seed!r} nothing tells what random transforms have drawn"


def _problem_of_order(loader: Any) -> str | None:
    """Why the order of an epoch is no function of that; None: it is."""
    sharded = sharded_of(loader._index_sampler)
    if kind_of(loader._index_sampler) in ("fixed", "distributed") or (sharded is not None and not sharded._infinite):
        return None
    sampler = getattr(loader._index_sampler, "sampler", loader._index_sampler)
    return f"a {type(sampler).__name__} draws the order of each"


def _native_plan_of(loader: Any, what: str) -> NativePlan:
    """Raises ValueError where there is none, and `what` is asked for."""
    plan: NativePlan | None = loader._native_plan_or_none()
    if plan is None:
        raise ValueError(f"{what} cannot be made again: explain() says why batches are not native, and what to change")
    return plan


def _sampler_of_epoch(loader: Any, epoch: int) -> Any:
    """A sampler of its own that gives the order of that epoch. Raises ValueError where that is not known."""
    _check_epoch(epoch)
    problem = _problem_of_order(loader)
    if problem is not None:
        raise ValueError(f"epoch {epoch} cannot be made again: {problem}. {_ORDERED}{_SAVED}")
    index_sampler = _copied_sampler(loader._index_sampler)
    holder = epoch_holder(index_sampler)
    if holder is not None:
        holder.set_epoch(epoch)
    return index_sampler


def _check_epoch(epoch: int) -> None:
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch < 2**63:
        raise ValueError(f"epoch must be an int in [0, 2**63), got {epoch!r}")


def _copied_sampler(index_sampler: Any) -> Any:
    """One whose epoch can be set; of torch's own classes and ShardedSampler."""
    if type(index_sampler) is BatchSampler and type(index_sampler.sampler) is not SequentialSampler:
        inner = copy.copy(index_sampler.sampler)
        return BatchSampler(inner, index_sampler.batch_size, index_sampler.drop_last)
    return copy.copy(index_sampler)


def _check_step(step: int, first: int, length: int) -> None:
    """Raises ValueError for a number that is none of a batch in [first, length)."""
    if isinstance(step, bool) or not isinstance(step, int) or not first <= step < length:
        raise ValueError(
            f"step must be an int in [{first}, {length}), the batches of the epoch that can be had, got {step!r}"
        )


def _range_of(step: int, stop: int | None, first: int, length: int) -> tuple[int, int]:
    """Raises ValueError for numbers that are none of batches in [first, length)."""
    stop = length if stop is None else stop
    for name, value in (("step", step), ("stop", stop)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be an int, got {value!r}")
    if not first <= step <= stop <= length:
        raise ValueError(
            f"step and stop must lie in {first} <= step <= stop <= {length}, the batches of the epoch that can be "
            f"had, got step={step} and stop={stop}"
        )
    return step, stop


def _twin(loader: Any, kind: Kind, **changes: Any) -> Any:
    """A loader with the same settings and nothing in common but the data set."""
    arguments = {
        **arguments_of(loader),
        **vars(loader._settings),
        "persistent_workers": False,
        "steps": None,
        "journal": None,
        **_errors_of(loader),
        **changes,
    }
    return kind(**arguments)


def _errors_of(loader: Any) -> dict[str, Any]:
    """Arguments with which the same samples stand in for bad ones, whatever the sampler; they are not noted again."""
    handling = loader._handling()
    if handling is None:
        return {}
    policy, candidates = handling
    substitutes = "all" if isinstance(candidates, int) else candidates
    return {"ledger": None, "substitutes": substitutes if policy.on_error == "replace" else None}


def _seeded_twin(loader: Any, kind: Kind, epoch: int, **changes: Any) -> Any:
    """Of which the next iter() is of that epoch. It draws nothing from the program's generators."""
    twin = _twin(loader, kind, generator=torch.Generator(), **changes)
    twin.set_epoch(epoch)
    return twin


def _twin_at(loader: Any, kind: Kind, state: dict[str, Any]) -> Any:
    """Of which the next iter() goes on from a state, with generators of its own."""
    arguments = arguments_of(loader)
    generator = None if loader.generator is None else _cloned(loader.generator)
    # Of persistent workers the next epoch goes on with their draws.
    changes: dict[str, Any] = {"generator": generator, "persistent_workers": loader.persistent_workers}
    if "sampler" in arguments:
        sampler = copy.copy(arguments["sampler"])
        held = getattr(sampler, "generator", None)
        if isinstance(held, torch.Generator):
            sampler.generator = generator if held is loader.generator else _cloned(held)
        changes["sampler"] = sampler
    twin = _twin(loader, kind, **changes)
    twin.load_state_dict(state)
    return twin


def _known_twin_at(loader: Any, kind: Kind, state: dict[str, Any]) -> tuple[Any, int]:
    """The same, and its position. Raises ValueError where an epoch of its sampler cannot be made beside another."""
    _native_plan_of(loader, "the epoch of a state")
    if kind_of(loader._index_sampler) in ("stateful", "asked again") and sharded_of(loader._index_sampler) is None:
        name = type(loader._index_sampler).__name__
        raise ValueError(f"the epoch of a state cannot be made again beside this one with a {name}. {_ORDERED}")
    twin = _twin_at(loader, kind, state)
    return twin, twin._fastload.progress.loaded[1].position


def _cloned(generator: torch.Generator) -> torch.Generator:
    return torch.Generator(generator.device).set_state(generator.get_state())
