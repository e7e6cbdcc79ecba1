"""Measurements of a loader and of a training step."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fastload._display._stats import LoaderStats
from fastload._loader._current import CurrentLoader
from fastload._loader._loader import DataLoader
from fastload._process._limits import num_available
from fastload._tools._benchmark import BenchmarkResult, benchmark, cpu_seconds

_MACHINE = Path("/proc/stat")
_TASKS = Path("/proc/self/task")
_NAME_OF_OURS = "fastload"  # name of the engine's native threads
_LOOK_SECONDS = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")
_STEP_BATCHES = 4
_STEP_WARMUPS = 3
_MOST_STEPS = 20
_STEPS_SECONDS = 5.0


@dataclass(frozen=True)
class Measured:
    """The steady state of a loader with some form of workers: "threads", "processes" or "caller".

    The rate is with no pause between two batches, or with the step that was asked for. A sample costs `cpu_seconds`,
    all threads and worker processes together, and the thread time `stage_seconds` by the stages of LoaderStats.
    `pool_share` of the CPU time is taken by threads of other libraries, NumPy's, OpenCV's, OpenMP's; 0.0 with worker
    processes, whose threads are not looked at. Other programs, except niced ones, took `busy_elsewhere` processors'
    worth of time; 0.0 if this process may not use all of the machine's processors.
    """

    workers: str
    num_workers: int
    samples_per_second: float
    samples_per_batch: float
    cpu_seconds: float
    stage_seconds: Mapping[str, float]
    gil_held_share: float
    pool_share: float
    busy_elsewhere: float
    bytes_held: int
    result: BenchmarkResult

    @property
    def thread_seconds(self) -> float:
        """The thread time that a sample costs in all stages."""
        return sum(self.stage_seconds.values())

    def share_of(self, stage: str) -> float:
        """Returns the share of the thread time that this stage takes."""
        return self.stage_seconds.get(stage, 0.0) / self.thread_seconds if self.thread_seconds else 0.0


def measure(loader: DataLoader[Any], seconds: float, step_seconds: float) -> Measured:
    """Runs epochs of a copy of `loader` for `seconds`, after a warm-up of one second or half of that time.

    After each batch it pauses for `step_seconds`.
    """
    pools = _Pools()
    begin, busy, ours = time.perf_counter(), _busy_seconds(), cpu_seconds()
    result = benchmark(
        loader,
        seconds,
        warmup_seconds=min(1.0, seconds / 2),
        step_seconds=step_seconds,
        progress=lambda share: pools.look(),
    )
    busy, ours = _busy_seconds() - busy, cpu_seconds() - ours
    stats, now = result.stats or LoaderStats(), CurrentLoader(loader)
    kind = now.form(now.plan()).kind
    return Measured(
        workers=kind,
        num_workers=loader.num_workers,
        samples_per_second=result.samples_per_second,
        samples_per_batch=result.samples / result.batches,
        cpu_seconds=result.cpu_seconds_per_sample,
        stage_seconds={stage: spent / result.samples for stage, spent in stats.stage_seconds.items() if spent > 0},
        gil_held_share=stats.gil_held_share,
        pool_share=0.0 if kind == "processes" else pools.share(),
        busy_elsewhere=max(0.0, busy - ours) / (time.perf_counter() - begin),
        bytes_held=stats.bytes_held,
        result=result,
    )


def measured_step_seconds(loader: DataLoader[Any], train_step: Callable[[Any], object]) -> float:
    """Measures the median time of calls with batches that are already loaded, including the work of the GPU."""
    batches = list(itertools.islice(loader, _STEP_BATCHES))
    loader.close()
    if not batches:
        raise ValueError("the loader gives no batch, so there is nothing to measure")
    times: list[float] = []
    deadline = time.perf_counter() + _STEPS_SECONDS
    for number, batch in enumerate(itertools.islice(itertools.cycle(batches), _STEP_WARMUPS + _MOST_STEPS)):
        begin = time.perf_counter()
        train_step(batch)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if number >= _STEP_WARMUPS:
            times.append(time.perf_counter() - begin)
        if times and time.perf_counter() > deadline:
            break
    return statistics.median(times)


def _busy_seconds() -> float:
    """Returns the CPU time of all programs since the machine started; 0.0 if this process may not use it all."""
    if num_available() != os.cpu_count():
        return 0.0
    try:
        # proc(5): user, nice, system, idle, iowait, irq, softirq, steal.
        ticks = _MACHINE.read_text().partition("\n")[0].split()[1:9]
    except OSError:
        return 0.0
    return sum(int(ticks[number]) for number in (0, 2, 5, 6, 7)) / _TICKS


class _Pools:
    """The CPU time of threads that are neither Python's nor the engine's, between the first and the last look."""

    def __init__(self) -> None:
        self._next_look = 0.0
        self._looks: list[tuple[float, dict[str, float]]] = []  # the first and the last

    def look(self) -> None:
        if time.monotonic() >= self._next_look:
            self._looks[1:] = [(time.process_time(), _seconds_of_others())]
            self._next_look = time.monotonic() + _LOOK_SECONDS

    def share(self) -> float:
        if len(self._looks) < 2:
            return 0.0
        (begin, before), (end, after) = self._looks
        theirs = sum(seconds - before.get(task, 0.0) for task, seconds in after.items())
        return theirs / (end - begin) if end > begin else 0.0


def _seconds_of_others() -> dict[str, float]:
    """Returns the CPU time by thread, to 10 ms."""
    pythons = {str(thread.native_id) for thread in threading.enumerate()}
    found = {}
    for task in _TASKS.iterdir():
        try:
            if task.name in pythons or (task / "comm").read_text().startswith(_NAME_OF_OURS):
                continue
            # The name may hold anything, so split after it: fields 14 and 15 are ticks in user and system mode.
            ticks = (task / "stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:  # it has ended
            continue
        found[task.name] = sum(map(int, ticks)) / _TICKS
    return found
