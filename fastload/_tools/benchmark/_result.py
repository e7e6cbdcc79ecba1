"""The result of a benchmark of a loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastload._display._stats import LoaderStats
from fastload._display._table import Shown, Table
from fastload._display._units import counted, in_percent, in_seconds
from fastload._process._waits import quantile_seconds


@dataclass(frozen=True)
class BenchmarkResult(Shown):
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

    @property
    def wait_p50_seconds(self) -> float:
        """The time within which half of the batches came, to 3.2 %."""
        return quantile_seconds(self.wait_counts, 0.5)

    @property
    def wait_p99_seconds(self) -> float:
        """The time within which 99 of 100 batches came, to 3.2 %."""
        return quantile_seconds(self.wait_counts, 0.99)

    @property
    def wait_longest_seconds(self) -> float:
        """The longest wait for a batch, to 3.2 %."""
        return quantile_seconds(self.wait_counts, 1.0)

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields and the numbers computed from them, for logging as JSON.

        Returns:
            Name -> number, str, dict of numbers by text, or None.
        """
        values = {name: getattr(self, name) for name in (*self.__dataclass_fields__, *_DERIVED)}
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
        quantiles = (self.wait_p50_seconds, self.wait_p99_seconds, self.wait_longest_seconds)
        p50, p99, longest = map(in_seconds, quantiles)
        yield "waits", in_seconds(self.wait_seconds), f"p50 {p50}, p99 {p99}, longest {longest} for a batch"
        if self.step_seconds:
            yield "training step", in_seconds(self.step_seconds), "after each batch, as asked for"
        busy = f"{in_seconds(self.cpu_seconds_per_sample)} a sample, {self.cpu_seconds / self.seconds:.1f} processors"
        yield "CPU time", in_seconds(self.cpu_seconds), busy


_DERIVED = (
    "samples_per_second",
    "cpu_seconds_per_sample",
    "wait_p50_seconds",
    "wait_p99_seconds",
    "wait_longest_seconds",
)
