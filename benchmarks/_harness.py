"""Runs a comparison: which contenders can run, whether the results are equal, then interleaved timing, then memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from benchmarks._children import Child, ChildPool, ContenderFailed, Spawner
from benchmarks._compare import Comparison, compare_batches, compare_training, epoch_batches, no_promise_in_training
from benchmarks._protocol import Batch, Hello, LoaderSettings, Memory, Round
from benchmarks._rows import Row
from benchmarks.contenders import KERNEL_CHOICES, contenders_of, reference_of

Log = Callable[[str], None]

_Turn = TypeVar("_Turn")


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison.

    Attributes:
        contenders: in the order of their turns; the references of the rows are among them.
        cores: the cores each child is pinned to; None means as many as there are workers, one at least.
        memory_workers: numbers of workers to measure memory with, in training on the first row's images; empty means
            not at all.
    """

    contenders: Sequence[str]
    rows: Sequence[Row]
    cores: Sequence[int] | None = None
    memory_workers: Sequence[int] = (1, 8)

    def cores_for(self, workers: int) -> list[int]:
        if self.cores is not None:
            return list(self.cores)
        return sorted(os.sched_getaffinity(0))[: max(1, workers)]


@dataclass
class Timing:
    """The rounds of one contender in one row with one number of workers.

    Attributes:
        options: the settings the loader really had.
        fresh_first_batch_seconds: from listing the data to a fresh loader's first batch, one per round; empty if the
            row does not ask for it.
        stage_ms_per_image: time per stage over the timed rounds, if the loader reports it.
    """

    row: str
    contender: str
    workers: int
    cores: list[int]
    options: dict[str, Any] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    fresh_first_batch_seconds: list[float] = field(default_factory=list)
    stage_ms_per_image: dict[str, float] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryRow:
    contender: str
    workers: int
    figures: Memory


@dataclass
class Measurements:
    """All findings of a run.

    Attributes:
        unavailable: contender -> why it cannot run here.
        failed: contender -> row -> the failure there; the contender is left out of the rest of that row.
    """

    hellos: dict[str, Hello] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    memory: list[MemoryRow] = field(default_factory=list)

    def has_failed(self, contender: str, row: str) -> bool:
        return row in self.failed.get(contender, {})


def run(plan: Plan, spawn: Spawner, log: Log, unavailable: Mapping[str, str] | None = None) -> Measurements:
    """Measures everything in the plan.

    Args:
        spawn: starts a contender's child.
        log: gets one line per step.
        unavailable: contenders known beforehand not to run here, with the reason.

    Raises: ResultsDiffer before anything is timed if a contender breaks its promise of equal bytes; ContenderFailed if
    a reference cannot run. Other contenders that fail are recorded and left out of the row.
    """
    found = Measurements(unavailable=dict(unavailable or {}))
    with ChildPool(spawn, plan.cores_for) as pool:
        _greet(plan, pool, found, log)
        for row in plan.rows:
            _compare_row(plan, row, pool, found, log)
        for row in plan.rows:
            found.timings += _time_row(plan, row, pool, found, log)
            pool.end_all()  # some loaders keep memory when they are closed, FFCV's gigabytes after a row
    for workers in plan.memory_workers:
        _measure_memory(plan, workers, spawn, found, log)
    return found


def interleave(turns: Sequence[_Turn], repeats: int) -> Iterator[tuple[int, _Turn]]:
    """Yields (round, turn) in the order of measuring: every contender takes a turn before any takes the next."""
    for number in range(repeats):
        for turn in turns:
            yield number, turn


def _active(plan: Plan, row: Row, found: Measurements) -> list[str]:
    able = [name for name in plan.contenders if name in contenders_of(row.settings.mode)]
    return [name for name in able if name not in found.unavailable and not found.has_failed(name, row.name)]


def _greet(plan: Plan, pool: ChildPool, found: Measurements, log: Log) -> None:
    for row in plan.rows:
        for name in _active(plan, row, found):
            if name not in found.hellos:
                with _failures_recorded(row, pool, found, log):
                    found.hellos[name] = pool.get(name, max(row.workers)).call("hello")
                    reason = found.hellos[name].unavailable or _repeats(name, found)
                    if reason is not None:
                        found.unavailable[name] = reason
                        pool.end(name)
    for name, reason in found.unavailable.items():
        log(f"{name}: not available: {reason}")
    for reference in dict.fromkeys(reference_of(row.settings.mode) for row in plan.rows):
        if reference in found.unavailable:
            raise ContenderFailed(reference, f"the reference cannot run: {found.unavailable[reference]}")


def _repeats(name: str, found: Measurements) -> str | None:
    """Returns why a choice of kernels would only repeat another contender: on this processor the kernels are the same.

    Builds and kernels are in a contender's own description.
    """
    ours = found.hellos[name]
    for choice in next((names for names in KERNEL_CHOICES if name in names), ()):
        theirs = found.hellos.get(choice)
        if choice == name or theirs is None or choice in found.unavailable:
            continue
        if (theirs.versions, theirs.details) == (ours.versions, ours.details):
            return f"{choice} runs the same kernels here"
    return None


def _compare_row(plan: Plan, row: Row, pool: ChildPool, found: Measurements, log: Log) -> None:
    settings = replace(row.settings, workers=max(row.workers), persistent_workers=False)
    reference = reference_of(settings.mode)
    candidates = [name for name in _active(plan, row, found) if name != reference]
    is_random = settings.mode == "train"
    wanted: list[Batch] = []
    if candidates and not is_random:
        wanted = list(epoch_batches(pool.get(reference, settings.workers), settings))
    for name in candidates:
        promises = found.hellos[name].promises_equal_bytes
        with _failures_recorded(row, pool, found, log):
            child = pool.get(name, settings.workers)
            if not is_random:
                comparison = compare_batches(row.name, name, child, wanted, settings, promises)
            elif promises:
                comparison = compare_training(row.name, name, child, settings)
            else:
                comparison = no_promise_in_training(row.name, name)
            found.comparisons.append(comparison)
            log(describe(comparison))


def describe(comparison: Comparison) -> str:
    """Returns one line for the reader."""
    head = f"compared {comparison.row}, {comparison.contender}: "
    if comparison.is_equal is None:
        return head + comparison.method
    verdict = (
        "equal"
        if comparison.is_equal
        else f"levels differ by {comparison.mean_abs_levels:.2f} in the mean, PSNR {comparison.psnr_db:.1f} dB"
    )
    sources = f" ({', '.join(f'{n} {kind}' for kind, n in comparison.sources.items())})" if comparison.sources else ""
    return f"{head}{comparison.image_count} images, {comparison.method}: {verdict}{sources}"


def _time_row(plan: Plan, row: Row, pool: ChildPool, found: Measurements, log: Log) -> list[Timing]:
    log(f"{row.name}: one warm-up and {row.repeats} rounds each")
    names = _active(plan, row, found)
    timings = [Timing(row.name, name, workers, plan.cores_for(workers)) for workers in row.workers for name in names]

    def take_turns(action: Callable[[Child, Timing], None], repeats: int = 1) -> None:
        for _, timing in interleave(timings, repeats):
            if not found.has_failed(timing.contender, row.name):
                with _failures_recorded(row, pool, found, log):
                    action(pool.get(timing.contender, timing.workers), timing)

    def run_round(child: Child, timing: Timing) -> None:
        timing.rounds.append(child.call("epoch"))
        speed = timing.rounds[-1].images_per_second
        log(f"  round {len(timing.rounds)} {timing.contender}, {timing.workers} workers: {speed:.1f} images/s")

    take_turns(lambda child, timing: _warm_up(child, row.settings, timing))
    take_turns(run_round, row.repeats)
    take_turns(_read_stages)
    if row.measures_first_batch:
        take_turns(
            lambda child, timing: timing.fresh_first_batch_seconds.append(child.call("first_batch")), row.repeats
        )
    take_turns(lambda child, timing: child.call("close"))
    return [timing for timing in timings if not found.has_failed(timing.contender, row.name)]


def _warm_up(child: Child, settings: LoaderSettings, timing: Timing) -> None:
    """Opens the loader, runs one epoch that fills caches and starts workers, and notes the counters after it."""
    timing.options = child.call("open", replace(settings, workers=timing.workers))
    child.call("epoch")
    timing.stats = child.call("stats")


def _read_stages(child: Child, timing: Timing) -> None:
    earlier = timing.stats.get("stage_seconds", {})
    timing.stats = child.call("stats")
    images = sum(timed.image_count for timed in timing.rounds)
    for stage, seconds in timing.stats.get("stage_seconds", {}).items():
        timing.stage_ms_per_image[stage] = 1000 * (seconds - earlier.get(stage, 0.0)) / images


def _measure_memory(plan: Plan, workers: int, spawn: Spawner, found: Measurements, log: Log) -> None:
    """Measures one fresh child per contender. The epoch is long enough that prefetching fills before it ends."""
    row = next((row for row in plan.rows if row.settings.mode != "decode"), None)
    if row is None:
        return
    in_flight = max(1, workers) * row.settings.prefetch_factor
    image_count = row.settings.batch_size * (in_flight + 2)
    settings = replace(row.settings, mode="train", workers=workers, image_count=image_count)
    for name in _active(plan, row, found):
        with ChildPool(spawn, plan.cores_for) as pool, _failures_recorded(row, pool, found, log):
            figures = pool.get(name, workers).call("memory", settings)
            found.memory.append(MemoryRow(name, workers, figures))
            log(f"memory, {workers} workers, {name}: {figures.total_bytes / 2**20:.0f} MiB")


@contextmanager
def _failures_recorded(row: Row, pool: ChildPool, found: Measurements, log: Log) -> Iterator[None]:
    """Notes a contender's failure and goes on without it; a reference's failure ends the run."""
    try:
        yield
    except ContenderFailed as error:
        if error.contender == reference_of(row.settings.mode):
            raise
        # Another row gets a fresh process, because this one's state is unknown.
        pool.end(error.contender)
        found.failed.setdefault(error.contender, {})[row.name] = str(error).splitlines()[0]
        log(f"{row.name}: failed and left out: {error}")
