"""Runs a comparison: who can run, are the results equal, then interleaved timing, then memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks._children import Child, ContenderFailed, Spawner, running
from benchmarks._compare import Comparison, compare_evaluation, compare_training, no_promise_in_training
from benchmarks._protocol import Hello, LoaderSettings, Memory, Round
from benchmarks.contenders import REFERENCE

Log = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    Attributes:
        contenders: in the order they take turns; the reference is among them.
        settings: of the loaders; mode and workers are replaced by those of each scenario.
        cores: the cores each child is pinned to; None means as many as there are workers, one at least.
        repeats: timed rounds per contender and scenario, after one that is not timed.
        memory_workers: numbers of workers to measure memory with; empty means not at all.
    """

    contenders: Sequence[str]
    settings: LoaderSettings
    modes: Sequence[str] = ("train", "eval")
    workers: Sequence[int] = (1,)
    cores: Sequence[int] | None = None
    repeats: int = 5
    memory_workers: Sequence[int] = (1, 8)

    def cores_for(self, workers: int) -> list[int]:
        if self.cores is not None:
            return list(self.cores)
        return sorted(os.sched_getaffinity(0))[: max(1, workers)]


@dataclass
class Timing:
    """The rounds of one contender in one scenario.

    Attributes:
        options: the settings the loader really had.
        fresh_first_batch_seconds: from listing the data to a fresh loader's first batch, one a round.
        stage_ms_per_image: time per stage over the timed rounds, where the loader tells.
    """

    contender: str
    mode: str
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
    """All that a run found; `unavailable` and `failed` map a contender to the reason."""

    hellos: dict[str, Hello] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    memory: list[MemoryRow] = field(default_factory=list)


def run(plan: Plan, spawn: Spawner, log: Log, unavailable: Mapping[str, str] | None = None) -> Measurements:
    """Measures everything in the plan.

    Args:
        spawn: starts a contender's child.
        log: gets one line per step.
        unavailable: contenders known beforehand not to run here, with the reason.

    Raises: ResultsDiffer before anything is timed when a contender breaks its promise of equal bytes; ContenderFailed
        when the reference cannot run. Other contenders that fail are recorded and left out from there on.
    """
    found = Measurements(unavailable=dict(unavailable or {}))
    _greet(plan, spawn, found, log)
    _compare_all(plan, spawn, found, log)
    for mode in plan.modes:
        for workers in plan.workers:
            settings = replace(plan.settings, mode=mode, workers=workers)
            found.timings += _time_scenario(plan, settings, spawn, found, log)
    for workers in plan.memory_workers:
        _measure_memory(plan, workers, spawn, found, log)
    return found


def interleave(names: Sequence[str], repeats: int) -> Iterator[tuple[int, str]]:
    """(round, contender) in the order of measuring: everyone takes a turn before anyone takes the next."""
    for number in range(repeats):
        for name in names:
            yield number, name


def _active(plan: Plan, found: Measurements) -> list[str]:
    return [name for name in plan.contenders if name not in found.unavailable and name not in found.failed]


def _greet(plan: Plan, spawn: Spawner, found: Measurements, log: Log) -> None:
    for name in _active(plan, found):
        with running(spawn, [name], plan.cores_for(1)) as children, _failures_recorded(found, log):
            found.hellos[name] = children[name].call("hello")
            reason = found.hellos[name].unavailable
            if reason is not None:
                found.unavailable[name] = reason
    for name, reason in found.unavailable.items():
        log(f"{name}: not available: {reason}")
    if REFERENCE in found.unavailable:
        raise ContenderFailed(REFERENCE, f"the reference cannot run: {found.unavailable[REFERENCE]}")


def _compare_all(plan: Plan, spawn: Spawner, found: Measurements, log: Log) -> None:
    workers = max(plan.workers)
    evaluation = replace(plan.settings, mode="eval", workers=workers, persistent_workers=False)
    training = replace(evaluation, mode="train")
    for name in [name for name in _active(plan, found) if name != REFERENCE]:
        promises = found.hellos[name].promises_equal_bytes
        names = [name, REFERENCE]
        with running(spawn, names, plan.cores_for(workers)) as children, _failures_recorded(found, log):
            comparisons = [compare_evaluation(name, children[name], children[REFERENCE], evaluation, promises)]
            if promises:
                comparisons.append(compare_training(name, children[name], training))
            else:
                comparisons.append(no_promise_in_training(name, training))
            found.comparisons += comparisons
            for comparison in comparisons:
                log(describe(comparison))


def describe(comparison: Comparison) -> str:
    """One line for the reader."""
    head = f"compared {comparison.contender}, {comparison.mode}: "
    if comparison.is_equal is None:
        return head + comparison.method
    verdict = (
        "equal"
        if comparison.is_equal
        else (f"abs difference at most {comparison.max_abs_difference:.4f}, mean {comparison.mean_abs_difference:.5f}")
    )
    sources = f" ({', '.join(f'{n} {kind}' for kind, n in comparison.sources.items())})" if comparison.sources else ""
    return f"{head}{comparison.image_count} images, {comparison.method}: {verdict}{sources}"


def _time_scenario(plan: Plan, settings: LoaderSettings, spawn: Spawner, found: Measurements, log: Log) -> list[Timing]:
    cores = plan.cores_for(settings.workers)
    names = _active(plan, found)
    timings = {name: Timing(name, settings.mode, settings.workers, cores) for name in names}
    log(f"{settings.mode}, {settings.workers} workers, cores {cores}: one warm-up and {plan.repeats} rounds each")
    with running(spawn, names, cores) as children:
        before = {}
        for name in names:
            with _failures_recorded(found, log):
                before[name] = _warm_up(children[name], settings, timings[name])
        for number, name in interleave(names, plan.repeats):
            if name in found.failed:
                continue
            with _failures_recorded(found, log):
                timings[name].rounds.append(children[name].call("epoch"))
                speed = timings[name].rounds[-1].images_per_second
                log(f"  round {number + 1} {name}: {speed:.1f} images/s")
        for _, name in interleave(names, plan.repeats):
            if name not in found.failed:
                with _failures_recorded(found, log):
                    timings[name].fresh_first_batch_seconds.append(children[name].call("first_batch"))
        for name in names:
            if name not in found.failed:
                with _failures_recorded(found, log):
                    _read_stages(children[name], timings[name], before[name])
    return [timings[name] for name in names if name not in found.failed]


def _warm_up(child: Child, settings: LoaderSettings, timing: Timing) -> dict[str, Any]:
    """Opens the loader, runs one epoch that fills caches and starts workers, and returns its counters after it."""
    timing.options = child.call("open", settings)
    child.call("epoch")
    stats: dict[str, Any] = child.call("stats")
    return stats


def _read_stages(child: Child, timing: Timing, before: Mapping[str, Any]) -> None:
    timing.stats = child.call("stats")
    images = sum(timed.image_count for timed in timing.rounds)
    earlier = before.get("stage_seconds", {})
    for stage, seconds in timing.stats.get("stage_seconds", {}).items():
        timing.stage_ms_per_image[stage] = 1000 * (seconds - earlier.get(stage, 0.0)) / images


def _measure_memory(plan: Plan, workers: int, spawn: Spawner, found: Measurements, log: Log) -> None:
    """One fresh child per contender. The epoch is long enough that prefetching fills before it ends."""
    base = plan.settings
    in_flight = max(1, workers) * base.prefetch_factor
    settings = replace(base, mode="train", workers=workers, image_count=base.batch_size * (in_flight + 2))
    for name in _active(plan, found):
        with running(spawn, [name], plan.cores_for(workers)) as children, _failures_recorded(found, log):
            figures = children[name].call("memory", settings)
            found.memory.append(MemoryRow(name, workers, figures))
            log(f"memory, {workers} workers, {name}: {figures.total_bytes / 2**20:.0f} MiB")


@contextmanager
def _failures_recorded(found: Measurements, log: Log) -> Iterator[None]:
    """Notes a contender's failure and goes on without it; the reference's ends the run."""
    try:
        yield
    except ContenderFailed as error:
        if error.contender == REFERENCE:
            raise
        found.failed[error.contender] = str(error)
        log(f"failed and left out: {str(error).splitlines()[0]}")
