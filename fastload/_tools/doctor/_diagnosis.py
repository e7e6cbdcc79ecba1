"""What limits a loader, in one sentence, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._tools.doctor._limits import Limits
from fastload._tools.doctor._measure import Measured

# What each stage is called in a sentence.
_STAGES = {
    "read": "reading files",
    "header": "reading headers",
    "cache": "looking for what is known of images",
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
_WAITING = 0.6  # a thread that waits uses less of the processor's time


@dataclass(frozen=True)
class Finding:
    """What limits.

    Attributes:
        cause: One of "training step", "GIL", "collate_fn", "library threads", "sampler", "storage", "data set waits",
            "too few workers", "processors" and "nothing".
        sentence: What limits, and by how much.
        change: What to do about it; "" where nothing about the loader helps.
        arguments: Of the loader, with the change; None where it cannot be tried by arguments.
        predicted: Samples/s with the change; None where nobody knows, or where it takes a measurement to tell.
    """

    cause: str
    sentence: str
    change: str = ""
    arguments: Mapping[str, Any] | None = None
    predicted: float | None = None


@dataclass(frozen=True)
class Facts:
    """What a finding is made from.

    Attributes:
        now: The loader as it is, without a training step.
        one: The same with one worker; `now` where it has one.
        limits: What each part allows.
        step_seconds: Of a training step; None where nobody knows.
        sampler_seconds: To draw the indices of a batch.
        is_native: Whether native code makes the batches as a whole.
        advice: Lines of explain() on what to change.
        pools: How the thread pools of libraries that are loaded are made one thread each, by name.
    """

    now: Measured
    one: Measured
    limits: Limits
    step_seconds: float | None
    sampler_seconds: float
    is_native: bool
    advice: tuple[str, ...] = ()
    pools: Mapping[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Samples/s, with the training steps."""
        return min(self.now.samples_per_second, self.limits.of_step)


def find_cause(facts: Facts) -> Finding:
    """The first that is found of what can limit, the surest first."""
    for look in (_training_step, _library_threads, _sampler, _gil, _workers, _processors):
        finding = look(facts)
        if finding is not None:
            return finding
    rate, best = facts.rate, facts.limits.of_workers(max(1, facts.now.num_workers))
    return Finding("nothing", f"Nothing stands out: {rate:,.0f} of about {best:,.0f} samples/s that are possible here.")


def _training_step(facts: Facts) -> Finding | None:
    if facts.step_seconds is None or facts.now.samples_per_second < 1.1 * facts.limits.of_step:
        return None
    batch = facts.now.samples_per_batch / facts.now.samples_per_second
    return Finding(
        "training step",
        f"The training step limits: it takes {in_seconds(facts.step_seconds)}, and the loader could give a batch every "
        f"{in_seconds(batch)}.",
    )


def _library_threads(facts: Facts) -> Finding | None:
    if facts.now.pool_share < _POOL_SHARE or facts.now.num_workers == 0:
        return None
    names = " and ".join(facts.pools) or "a library"
    return Finding(
        "library threads",
        f"Thread pools inside of threads: those of {names} take {in_percent(facts.now.pool_share, 1)} of the CPU time, "
        f"beside {facts.now.num_workers} worker threads.",
        "one thread for each call: " + ", ".join(facts.pools.values()) if facts.pools else "",
    )


def _sampler(facts: Facts) -> Finding | None:
    batch = facts.now.samples_per_batch / facts.rate
    if facts.sampler_seconds < _SAMPLER_SHARE * batch:
        return None
    return Finding(
        "sampler",
        f"The sampler limits: the indices of a batch take {in_seconds(facts.sampler_seconds)}, and a batch comes every "
        f"{in_seconds(batch)}.",
        "draw the indices of an epoch at once, as torch's samplers do, or in NumPy",
    )


def _gil(facts: Facts) -> Finding | None:
    limits, number = facts.limits, max(2, facts.now.num_workers)
    without_gil = replace(limits, of_gil=float("inf")).of_workers(number)
    if without_gil < _WORTH_A_CHANGE * facts.rate or limits.of_gil > without_gil:
        return None
    python = max(("collate", "tail", "dataset"), key=lambda stage: facts.now.share_of(stage))
    share = in_percent(facts.now.share_of(python), 1)
    return Finding(
        "collate_fn" if python == "collate" else "GIL",
        f"The GIL limits: threads find it held {in_percent(facts.now.gil_held_share, 1)} of the time, and "
        f"{_STAGES[python]} takes {share} of theirs.",
        f"workers='processes', num_workers={number}",
        {"workers": "processes", "num_workers": number},
    )


def _workers(facts: Facts) -> Finding | None:
    limits = facts.limits
    number = limits.enough_workers(_MOST_WORKERS)
    predicted = limits.of_workers(number)
    if number <= facts.now.num_workers or predicted < _WORTH_A_CHANGE * facts.rate:
        return None
    one = facts.one
    waits = one.cpu_seconds < _WAITING * one.thread_seconds
    cause, what = "too few workers", "each keeps one processor busy"
    if one.share_of("collate") >= _LARGE_SHARE:
        cause, what = "collate_fn", f"collate_fn takes {in_percent(one.share_of('collate'), 1)} of their time"
    elif limits.waits_for_files:
        cause, what = "storage", f"reading a file takes {in_seconds(one.stage_seconds['read'])}, most of their time"
    elif waits and one.share_of("dataset") >= _LARGE_SHARE:
        cause = "data set waits"
        what = f"a sample waits {in_seconds(one.stage_seconds['dataset'])} for files or a network"
    few = {0: "There is no worker", 1: "1 worker is too few"}
    have = few.get(facts.now.num_workers, f"{facts.now.num_workers} workers are too few")
    return Finding(
        cause,
        f"{have}: {what}, and {facts.rate:,.0f} of about {predicted:,.0f} possible samples/s come.",
        f"num_workers={number}",
        {"num_workers": number},
        predicted,
    )


def _processors(facts: Facts) -> Finding | None:
    now, limits = facts.now, facts.limits
    if facts.rate < 0.75 * limits.of_processors:
        return None
    largest = max(now.stage_seconds, key=lambda stage: now.stage_seconds[stage], default="")
    share = now.share_of(largest)
    busy = f", {in_percent(share, 1)} of the time with {_STAGES[largest]}" if largest else ""
    sentence = f"The processors limit: all are busy{busy}."
    if largest == "collate":
        return Finding(
            "collate_fn",
            sentence,
            "a cheaper collate_fn; collate_fn=list shows what is to be gained",
            {"collate_fn": list},
            min(limits.of_step, facts.rate / max(1 - share, 0.01)),
        )
    return Finding("processors", sentence, "; ".join(facts.advice) or ("" if facts.is_native else "see explain()"))


def remarks(now: Measured, free_bytes: int) -> Iterator[str]:
    """What else is worth a line."""
    if now.busy_elsewhere >= BUSY_ELSEWHERE:
        yield f"other programs use {now.busy_elsewhere:.1f} of the processors"
    if free_bytes and now.bytes_held >= _MEMORY_SHARE * free_bytes:
        yield (
            f"batches in flight hold {in_bytes(now.bytes_held)} of {in_bytes(free_bytes)} of free memory: "
            "prefetch_factor=1, or smaller batches"
        )
