"""Measures a loader by taking batches from it."""

from __future__ import annotations

import collections
import contextlib
import copy
import inspect
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

import torch

from fastload._display._stats import LoaderStats, WaitTimes
from fastload._display._table import Table
from fastload._display._units import counted, in_percent, in_seconds
from fastload._loader._counterparts import described
from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader
from fastload._process._waits import interval_of


@dataclass(frozen=True)
class BenchmarkResult(WaitTimes):
    """The result of `fastload.benchmark`; ``print(result)`` shows it, and so does a notebook.

    The steady state begins after the warm-up and ends with the first batch after `seconds`. All fields but the first
    two describe it.

    Attributes:
        loader: The loader, in words.
        first_batch_seconds: From iter() to the first batch, before the warm-up.
        seconds: Length of the steady state.
        batches: Batches that came in it.
        samples: Samples in them.
        epochs: Epochs that began in it.
        epoch_start_seconds: Total time from the end of one epoch to the first batch of the next.
        wait_seconds: Time in next(), and in iter() of further epochs.
        wait_counts: Batches by waiting time, as in LoaderStats.wait_counts.
        step_seconds: How long the consumer was busy after each batch, as asked for.
        cpu_seconds: CPU time of all threads of this process and of its worker processes.
        stats: Counters of a fastload.DataLoader in the steady state; None for any other loader.

    Example:
        >>> result = fastload.benchmark(fastload.DataLoader(list(range(100))), seconds=0.05, warmup_seconds=0.0)
        >>> result.samples == result.batches > 0
        True
    """

    loader: str
    first_batch_seconds: float
    seconds: float
    batches: int
    samples: int
    epochs: int
    epoch_start_seconds: float
    wait_seconds: float
    wait_counts: Mapping[int, int] = field(repr=False)
    step_seconds: float
    cpu_seconds: float
    stats: LoaderStats | None = field(repr=False)

    @property
    def samples_per_second(self) -> float:
        """The rate in the steady state, starts of epochs included."""
        return self.samples / self.seconds

    @property
    def cpu_seconds_per_sample(self) -> float:
        """The CPU time that a sample costs, on all processors together."""
        return self.cpu_seconds / self.samples

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields and the numbers computed from them, for logging as JSON.

        Returns:
            Name -> number, str, dict of numbers by text, or None.
        """
        derived = dict(inspect.getmembers(type(self), lambda member: isinstance(member, property)))
        values = {name: getattr(self, name) for name in (*self.__dataclass_fields__, *derived)}
        values["wait_counts"] = {str(interval): count for interval, count in self.wait_counts.items()}
        values["stats"] = None if self.stats is None else self.stats.as_dict()
        return values

    def _table(self) -> Table:
        return Table(f"fastload benchmark: {self.samples_per_second:,.0f} samples/s", tuple(self._rows()))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        yield "loader", self.loader
        yield "first batch", in_seconds(self.first_batch_seconds), "from iter()"
        extent = f"{counted(self.samples, 'sample')} in {counted(self.batches, 'batch', 'batches')}"
        yield "steady state", in_seconds(self.seconds), extent
        if self.epochs:
            share = in_percent(self.epoch_start_seconds, self.seconds)
            yield "epoch starts", in_seconds(self.epoch_start_seconds), f"{self.epochs:,} of them, {share} of the time"
        yield "waits", in_seconds(self.wait_seconds), f"{self._wait_quantiles()} for a batch"
        if self.step_seconds:
            yield "training step", in_seconds(self.step_seconds), "after each batch, as asked for"
        busy = f"{in_seconds(self.cpu_seconds_per_sample)} a sample, {self.cpu_seconds / self.seconds:.1f} processors"
        yield "CPU time", in_seconds(self.cpu_seconds), busy


# The clock that clock_getcpuclockid(3) names on Linux: the inverted process number, above a kind; 2 is run time.
_RUN_TIME_KIND = 2


def benchmark(
    loader: TorchDataLoader[Any],
    seconds: float = 10.0,
    *,
    warmup_seconds: float = 1.0,
    step_seconds: float = 0.0,
    progress: Callable[[float], object] | None = None,
) -> BenchmarkResult:
    """Takes batches from a loader for some time and measures how fast they come, the first batch separately.

    It runs one epoch after the other on a copy of the loader, which has its own workers and iterator. Samplers and
    random generators are the loader's: they draw as in your own epochs.

    Args:
        loader: any torch.utils.data.DataLoader, fastload's included.
        seconds: length of the steady state, which ends with the first batch after this time.
        warmup_seconds: time between the first batch and the steady state.
        step_seconds: how long to sleep after each batch, instead of a training step.
        progress: called after each batch with the share of the time that has passed, from 0.0 to 1.0.

    Returns:
        The result, which print() shows; ``result.samples_per_second``, ``result.first_batch_seconds``.

    Raises:
        TypeError: `loader` is not a torch.utils.data.DataLoader.
        ValueError: `seconds` is not positive, another time is negative, or the loader gives no batch.
        Exception: any exception that the loader raises.

    Example:
        >>> result = fastload.benchmark(fastload.DataLoader(dataset, batch_size=2), seconds=0.1, warmup_seconds=0.0)
        >>> result.samples_per_second > 0
        True
    """
    if not isinstance(loader, TorchDataLoader):
        raise TypeError(f"loader must be a torch.utils.data.DataLoader, got {type(loader).__name__}")
    if not seconds > 0:
        raise ValueError(f"seconds must be a positive number, got {seconds!r}")
    for name, value in (("warmup_seconds", warmup_seconds), ("step_seconds", step_seconds)):
        if not value >= 0:
            raise ValueError(f"{name} must not be negative, got {value!r}")
    with contextlib.closing(_Run(loader, step_seconds)) as run:
        return run.measure(seconds, warmup_seconds, progress or (lambda share: None))


class _Run:
    """Runs epoch after epoch on a copy of a loader, and measures the wait for each batch."""

    def __init__(self, loader: TorchDataLoader[Any], step_seconds: float) -> None:
        self._description = described(loader)
        self._loader: Any = copy.copy(loader)
        vars(self._loader)["_iterator"] = None  # else it would be the iterator of the loader's own persistent workers
        self._step_seconds = step_seconds
        self._iterator: Any = None
        self._count = SampleCount(loader)
        self._reset_counts()

    def measure(self, seconds: float, warmup_seconds: float, progress: Callable[[float], object]) -> BenchmarkResult:
        begin = time.perf_counter()
        self._take()
        first_batch_seconds = time.perf_counter() - begin
        whole = warmup_seconds + seconds
        self._run(warmup_seconds, lambda passed: progress(passed / whole))
        self._reset_counts()
        stats, cpu = self._stats(), cpu_seconds()
        steady_seconds = self._run(seconds, lambda passed: progress((warmup_seconds + passed) / whole))
        cpu = cpu_seconds() - cpu
        return BenchmarkResult(
            loader=self._description,
            first_batch_seconds=first_batch_seconds,
            seconds=steady_seconds,
            batches=self._waits.total(),
            samples=self._samples,
            epochs=self._epochs,
            epoch_start_seconds=self._epoch_start_seconds,
            wait_seconds=self._wait_seconds,
            wait_counts=dict(self._waits),
            step_seconds=self._step_seconds,
            cpu_seconds=cpu,
            stats=None if stats is None else self._stats() - stats,
        )

    def _run(self, seconds: float, progress: Callable[[float], object]) -> float:
        """Takes batches, with a step after each, until `seconds` have passed. Returns the time that has passed.

        It takes at least one batch unless `seconds` is 0. `progress` gets the time passed, at most `seconds`.
        """
        begin = time.perf_counter()
        passed = 0.0
        while passed < seconds:
            self._take()
            if self._step_seconds:
                time.sleep(self._step_seconds)
            passed = time.perf_counter() - begin
            progress(min(seconds, passed))
        return passed

    def _take(self) -> None:
        """Takes one batch, from the next epoch if this one is over."""
        begin = time.perf_counter_ns()
        batch = _NONE if self._iterator is None else next(self._iterator, _NONE)
        is_first = batch is _NONE
        if is_first:
            if not self._loader.persistent_workers:
                self._iterator = None  # which ends its workers
            self._iterator = iter(self._loader)
            self._count.begin_epoch()
            batch = next(self._iterator, _NONE)
        if batch is _NONE:
            raise ValueError(f"the loader gives no batch, so there is nothing to measure: {self._description}")
        waited = time.perf_counter_ns() - begin
        self._waits[interval_of(waited)] += 1
        self._wait_seconds += waited / 1e9
        self._epochs += is_first
        self._epoch_start_seconds += waited / 1e9 if is_first else 0.0
        self._samples += self._count.of(batch)

    def _reset_counts(self) -> None:
        self._waits: collections.Counter[int] = collections.Counter()
        self._samples = self._epochs = 0
        self._wait_seconds = self._epoch_start_seconds = 0.0

    def _stats(self) -> Any:
        return self._loader.stats() if isinstance(self._loader, DataLoader) else None

    def close(self) -> None:
        iterator, self._iterator = self._iterator, None
        vars(self._loader)["_iterator"] = None
        if shutdown := getattr(iterator, "_shutdown_workers", None):
            shutdown()
        if isinstance(self._loader, DataLoader):
            DataLoader.close(self._loader)


_NONE = object()


class SampleCount:
    """Counts the samples of a loader's batches: from its settings if they tell, else from the batches."""

    def __init__(self, loader: TorchDataLoader[Any]) -> None:
        self._batch_size = loader.batch_size
        self._is_batched = loader.batch_size is not None or loader.batch_sampler is not None
        self._total: int | None = None
        if loader.batch_size is not None and isinstance(loader.sampler, Sized):
            try:
                self._total = len(loader.sampler)
            except TypeError:  # a sampler over data without a length
                self._total = None
        self._given = 0

    def begin_epoch(self) -> None:
        self._given = 0

    def of(self, batch: Any) -> int:
        """Returns the number of samples in the next batch of this epoch."""
        if not self._is_batched:
            return 1
        if self._batch_size is None or self._total is None:
            return max(1, _longest(batch))
        count = min(self._batch_size, max(1, self._total - self._given))
        self._given += count
        return count


def _longest(batch: Any) -> int:
    """Returns the length of the longest part: a list of views is shorter than the labels beside it."""
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    return max(map(_length, batch), default=0) if isinstance(batch, (list, tuple)) else _length(batch)


def _length(part: Any) -> int:
    if isinstance(part, torch.Tensor):
        return len(part) if part.dim() else 1
    return len(part) if isinstance(part, Sized) and not isinstance(part, (str, bytes)) else 1


def cpu_seconds() -> float:
    """Returns the CPU time of all threads, of running worker processes, and of ended ones that were waited for.

    Ended processes are counted in ticks of 10 ms, the others to nanoseconds.
    """
    times = os.times()
    ended = times.children_user + times.children_system
    # active_children() waits for processes that have just ended: these are in the sum above the next time.
    workers = [process.pid for process in multiprocessing.active_children()]
    seconds = time.process_time() + ended
    for pid in filter(None, workers):
        with contextlib.suppress(OSError):  # it has ended
            seconds += time.clock_gettime((~pid << 3) | _RUN_TIME_KIND)
    return seconds
