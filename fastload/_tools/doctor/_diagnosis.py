"""Finds the limit of a loader, in one sentence, and the change to make.

Note [limits]
One worker alone gives r samples/s and costs c seconds of CPU time for each. So n threads give at most n * r, and p
processors at most p / c, whatever the number of threads. Threads that run Python take turns with the GIL: if n threads
gave clearly less than both limits, and found the GIL held, then their rate is the limit of the GIL. If native code
waits for files, it reads several files at a time, and the rate of n threads grows with that number.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._tools.doctor._measure import Measured

# The name of each stage in a sentence.
_STAGES = {
    "read": "reading files",
    "header": "reading headers",
    "cache": "looking up the cache",
    "decode": "decoding",
    "transform": "the transform",
    "fallback": "decoding with Pillow",
    "tail": "the Python part of the transform",
    "dataset": "the data set's own Python",
    "collate": "collate_fn",
}
_WORTH_A_CHANGE = 1.15  # times as fast
_LARGE_SHARE = 0.5  # of the thread time
_MEMORY_SHARE = 0.25
BUSY_ELSEWHERE = 0.2
_SAMPLER_SHARE = 0.3
_POOL_SHARE = 0.2
_MOST_WORKERS = 64
_WAITING = 0.6  # a waiting thread uses a smaller share of the processor
_BUSY_GIL_SHARE = 0.25
_CLEARLY_LESS = 0.8
_READ_SHARE = 0.5
_UNLIMITED = float("inf")


@dataclass(frozen=True)
class Limits:
    """The rates in samples/s that limit a loader; infinite if there is no such limit, or it is unknown.

    They are the rate of one worker alone, of all processors whatever the number of workers, of threads that take turns
    with the GIL, and of the training steps. `waits_for_files` tells whether native code waits for files most of the
    time.
    """

    of_one: float
    of_processors: float
    of_gil: float
    of_step: float
    waits_for_files: bool = False

    def of_workers(self, number: int) -> float:
        """Returns the rate of this number of workers, with the training steps."""
        return min(self._without_limits(number), self.of_processors, self.of_gil, self.of_step)

    def enough_workers(self, most: int) -> int:
        """Returns the smallest number of workers that reaches the next limit; `most` if none does."""
        goal = min(self.of_processors, self.of_gil, self.of_step)
        return next((number for number in range(1, most) if self._without_limits(number) >= goal), most)

    def _without_limits(self, number: int) -> float:
        share = _reads_at_a_time(number) / _reads_at_a_time(1) if self.waits_for_files else number
        return self.of_one * share


def _reads_at_a_time(num_threads: int) -> float:
    """Returns the reads at a time by readers, as in count_readers() of csrc/engine/engine.cpp, and by the threads."""
    return min(max(6 * num_threads, 8), 64) + num_threads / 2


@dataclass(frozen=True)
class Finding:
    """The limit of a loader and its size, in a sentence, and the change to make; "" if no change of the loader helps.

    `cause` is one of "training step", "library threads", "sampler", "GIL", "too few workers", "storage", "data set
    waits", "processors" and "nothing". `arguments` of the loader make the change; None if arguments cannot make it.
    """

    cause: str
    sentence: str
    change: str = ""
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Evidence:
    """The measurements that a finding is based on.

    `now` is the loader as it is, without a training step; `one` has one worker, and `several` two or more threads, None
    if the loader has no Python threads. `processors` is the number of processors' worth of time that is available, and
    `sampler_seconds` the time to draw the indices of a batch. `advice` has lines of explain() on what to change, and
    `pools` for each library with a thread pool the setting that makes it one thread.
    """

    now: Measured
    one: Measured
    several: Measured | None
    processors: float
    step_seconds: float | None
    sampler_seconds: float
    is_native: bool
    advice: tuple[str, ...] = ()
    pools: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def limits(self) -> Limits:
        """The limits of the parts; see Note [limits]."""
        one, several, of_processors, of_gil = self.one, self.several, self.processors / self.one.cpu_seconds, _UNLIMITED
        if several is not None and several.gil_held_share >= _BUSY_GIL_SHARE:
            without_gil = min(several.num_workers * one.samples_per_second, of_processors)
            if several.samples_per_second < _CLEARLY_LESS * without_gil:
                of_gil = several.samples_per_second
        return Limits(
            of_one=one.samples_per_second,
            of_processors=of_processors,
            of_gil=of_gil,
            of_step=one.samples_per_batch / self.step_seconds if self.step_seconds else _UNLIMITED,
            waits_for_files=one.share_of("read") >= _READ_SHARE,
        )

    @property
    def rate(self) -> float:
        """The samples/s with the training steps."""
        return min(self.now.samples_per_second, self.limits.of_step)


def find_cause(evidence: Evidence) -> Finding:
    """Returns the first limit that is found; the surest ones are tried first."""
    for look in (_training_step, _library_threads, _sampler, _gil, _workers, _processors):
        finding = look(evidence)
        if finding is not None:
            return finding
    rate, best = evidence.rate, evidence.limits.of_workers(max(1, evidence.now.num_workers))
    return Finding("nothing", f"Nothing stands out: {rate:,.0f} of about {best:,.0f} samples/s that are possible here.")


def _training_step(evidence: Evidence) -> Finding | None:
    if evidence.step_seconds is None or evidence.now.samples_per_second < 1.1 * evidence.limits.of_step:
        return None
    batch = evidence.now.samples_per_batch / evidence.now.samples_per_second
    return Finding(
        "training step",
        f"The training step limits: it takes {in_seconds(evidence.step_seconds)}, and the loader could give a batch "
        f"every {in_seconds(batch)}.",
    )


def _library_threads(evidence: Evidence) -> Finding | None:
    if evidence.now.pool_share < _POOL_SHARE or evidence.now.workers != "threads":
        return None
    names = " and ".join(evidence.pools) or "a library"
    return Finding(
        "library threads",
        f"Thread pools run inside of threads: the pools of {names} take {in_percent(evidence.now.pool_share, 1)} of "
        f"the CPU time, beside {evidence.now.num_workers} worker threads.",
        "one thread for each call: " + ", ".join(evidence.pools.values()) if evidence.pools else "",
    )


def _sampler(evidence: Evidence) -> Finding | None:
    batch = evidence.now.samples_per_batch / evidence.rate
    if evidence.sampler_seconds < _SAMPLER_SHARE * batch:
        return None
    return Finding(
        "sampler",
        f"The sampler limits: the indices of a batch take {in_seconds(evidence.sampler_seconds)}, and a batch comes "
        f"every {in_seconds(batch)}.",
        "draw the indices of an epoch at once, as torch's samplers do, or in NumPy",
    )


def _gil(evidence: Evidence) -> Finding | None:
    limits, number = evidence.limits, max(2, evidence.now.num_workers)
    without_gil = replace(limits, of_gil=_UNLIMITED).of_workers(number)
    if without_gil < _WORTH_A_CHANGE * evidence.rate or limits.of_gil > without_gil:
        return None
    python = max(("collate", "tail", "dataset"), key=lambda stage: evidence.now.share_of(stage))
    share = in_percent(evidence.now.share_of(python), 1)
    return Finding(
        "GIL",
        f"The GIL limits: threads find it held {in_percent(evidence.now.gil_held_share, 1)} of the time, and "
        f"{_STAGES[python]} takes {share} of theirs.",
        f"workers='processes', num_workers={number}",
        {"workers": "processes", "num_workers": number},
    )


def _workers(evidence: Evidence) -> Finding | None:
    limits = evidence.limits
    number = limits.enough_workers(_MOST_WORKERS)
    predicted = limits.of_workers(number)
    if number <= evidence.now.num_workers or predicted < _WORTH_A_CHANGE * evidence.rate:
        return None
    one = evidence.one
    waits = one.cpu_seconds < _WAITING * one.thread_seconds
    cause, what = "too few workers", "each keeps one processor busy"
    if limits.waits_for_files:
        cause, what = "storage", f"reading a file takes {in_seconds(one.stage_seconds['read'])}, most of their time"
    elif waits and one.share_of("dataset") >= _LARGE_SHARE:
        cause = "data set waits"
        what = f"a sample waits {in_seconds(one.stage_seconds['dataset'])} for files or a network"
    few = {0: "There is no worker", 1: "1 worker is too few"}
    have = few.get(evidence.now.num_workers, f"{evidence.now.num_workers} workers are too few")
    return Finding(
        cause,
        f"{have}: {what}, and {evidence.rate:,.0f} of about {predicted:,.0f} possible samples/s come.",
        f"num_workers={number}",
        {"num_workers": number},
    )


def _processors(evidence: Evidence) -> Finding | None:
    now, limits = evidence.now, evidence.limits
    if evidence.rate < 0.75 * limits.of_processors:
        return None
    largest = max(now.stage_seconds, key=lambda stage: now.stage_seconds[stage], default="")
    busy = f", {in_percent(now.share_of(largest), 1)} of the time with {_STAGES[largest]}" if largest else ""
    change = "; ".join(evidence.advice) or ("" if evidence.is_native else "see explain()")
    return Finding("processors", f"The processors limit: all are busy{busy}.", change)


def remarks(now: Measured, free_bytes: int) -> Iterator[str]:
    """Yields other findings that are worth a line."""
    if now.busy_elsewhere >= BUSY_ELSEWHERE:
        yield f"other programs use {now.busy_elsewhere:.1f} of the processors"
    if free_bytes and now.bytes_held >= _MEMORY_SHARE * free_bytes:
        yield (
            f"batches in flight hold {in_bytes(now.bytes_held)} of {in_bytes(free_bytes)} of free memory: "
            "prefetch_factor=1, or smaller batches"
        )
