"""Measures a loader in parts, finds what limits it, tries the change and measures again."""

from __future__ import annotations

import contextlib
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from fastload._display._table import Shown, Table
from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._loader._counterparts import fastload_counterpart
from fastload._loader._current import CurrentLoader
from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader
from fastload._tools.doctor._diagnosis import BUSY_ELSEWHERE, Evidence, Finding, find_cause, remarks
from fastload._tools.doctor._machine import (
    Machine,
    Storage,
    examine_machine,
    examine_storage,
    find_pools,
    pools_of_one_thread,
)
from fastload._tools.doctor._measure import Measured, measure, measured_step_seconds

_SAMPLER_SECONDS = 0.5
_SAMPLER_BATCHES = 200
_ENOUGH_BATCHES = 10  # fewer batches of a loader in use do not show its step
_SMALL_SHARE = 0.01
_CLEARLY_FASTER = 1.05  # two measurements may differ by less than this


def doctor(
    loader: TorchDataLoader[Any],
    *,
    step_seconds: float | None = None,
    train_step: Callable[[Any], object] | None = None,
    seconds: float = 5.0,
    progress: Callable[[str], object] | None = None,
) -> DoctorReport:
    """Finds what limits a loader, what to change, and the gain from the change, in less than a minute.

    It reads a few files that the data set names, measures copies of the loader, and measures the change that it
    proposes. Samplers, random generators and data set are the loader's, and draw as in your own epochs.

    Args:
        loader: any torch.utils.data.DataLoader; for torch's own, a fastload.DataLoader with its arguments is measured.
        step_seconds: length of a training step.
        train_step: instead of step_seconds: a function that is called with some batches and timed. Default: the time
            between the batches of `loader` itself, if it is fastload's and has given ten of them; else the step is
            unknown, and only loading is judged.
        seconds: length of each measurement; there are at most five.
        progress: called with the name of each step before it begins.

    Returns:
        The report, which print() shows.

    Raises:
        TypeError: `loader` is not a torch.utils.data.DataLoader.
        ValueError: a time makes no sense, a step is given twice, or the loader gives no batch.
        Exception: any exception that the loader or `train_step` raises.

    Example:
        >>> report = fastload.doctor(fastload.DataLoader(list(range(1000))), seconds=0.1)
        >>> report.finding.sentence.endswith(".")
        True
    """
    if not isinstance(loader, TorchDataLoader):
        raise TypeError(f"loader must be a torch.utils.data.DataLoader, got {type(loader).__name__}")
    if not seconds > 0:
        raise ValueError(f"seconds must be a positive number, got {seconds!r}")
    if step_seconds is not None and not step_seconds >= 0:
        raise ValueError(f"step_seconds must not be negative, got {step_seconds!r}")
    if step_seconds is not None and train_step is not None:
        raise ValueError("a step is given twice: pass step_seconds or train_step")
    return _Examination(loader, seconds, progress or (lambda text: None)).report(step_seconds, train_step)


class _Examination:
    """The examination of one loader."""

    def __init__(self, loader: TorchDataLoader[Any], seconds: float, say: Callable[[str], object]) -> None:
        self._loader = loader
        self._twin = self._with()
        self._seconds = seconds
        self._say = say
        self._step_seconds: float | None = None

    def report(self, step_seconds: float | None, train_step: Callable[[Any], object] | None) -> DoctorReport:
        self._step_seconds, step_source = self._step(step_seconds, train_step)
        self._say("looking at the machine and the files")
        machine, storage = examine_machine(), examine_storage(self._loader.dataset)
        explanation = self._twin.explain()
        now = self._measured("the loader as it is", self._twin)
        one = self._measured_with_workers(1) if now.num_workers != 1 else now
        is_python = one.workers == "threads" and not explanation.is_native
        several = (now if now.num_workers > 1 else self._measured_with_workers(2)) if is_python else None
        processors = max(machine.processors - now.busy_elsewhere, machine.processors / 2)
        advice = tuple(row.what for row in explanation.rows if row.stage == "to change")
        evidence = Evidence(
            *(now, one, several, processors, self._step_seconds, self._sampler_seconds()),
            *(explanation.is_native, advice, find_pools()),
        )
        before = now if not self._step_seconds else self._measured("with training steps", self._twin, with_step=True)
        finding = find_cause(evidence)
        return DoctorReport(
            loader=repr(self._twin),
            step_seconds=self._step_seconds,
            step_source=step_source,
            finding=finding,
            before=before,
            after=self._tried(finding),
            remarks=tuple(remarks(now, machine.free_bytes)),
            machine=machine,
            storage=storage,
        )

    def _step(
        self, given_seconds: float | None, train_step: Callable[[Any], object] | None
    ) -> tuple[float | None, str]:
        """Returns the length of a training step, and its source."""
        if train_step is not None:
            self._say("measuring the training step")
            return measured_step_seconds(self._twin, train_step), "measured with batches that were there"
        if given_seconds is not None:
            return given_seconds, "as asked for"
        if isinstance(self._loader, DataLoader):
            with contextlib.suppress(AttributeError):
                stats = self._loader.stats()
                if stats.batches_delivered >= _ENOUGH_BATCHES:
                    return stats.mean_step_seconds, "between the batches of this loader"
        return None, "give step_seconds to know whether training waits"

    def _tried(self, finding: Finding) -> Measured | None:
        """Measures the loader with the change; returns None if it cannot be made here."""
        is_of_pools = finding.cause == "library threads" and bool(finding.change)
        if finding.arguments is None and not is_of_pools:
            return None
        with pools_of_one_thread() if is_of_pools else contextlib.nullcontext():
            return self._measured(f"with {finding.change}", self._with(**finding.arguments or {}), with_step=True)

    def _measured(self, what: str, loader: DataLoader[Any], *, with_step: bool = False) -> Measured:
        self._say(f"measuring {what}")
        step_seconds = (self._step_seconds or 0.0) if with_step else 0.0
        return measure(loader, self._seconds, step_seconds)

    def _measured_with_workers(self, number: int) -> Measured:
        return self._measured(f"with num_workers={number}", self._with(num_workers=number))

    def _with(self, **changes: Any) -> DataLoader[Any]:
        """Returns a fastload loader with the same arguments, the device included, except for these changes."""
        if isinstance(self._loader, DataLoader):
            settings = CurrentLoader(self._loader).settings
            names = ("device", "device_prefetch", "device_transform")
            changes = {**{name: getattr(settings, name) for name in names}, **changes}
        with warnings.catch_warnings():  # the change may be more threads than processors, which warns
            warnings.simplefilter("ignore")
            return fastload_counterpart(self._loader, **changes)

    def _sampler_seconds(self) -> float:
        """Measures the time to draw a batch's indices; 0.0 for torch's samplers, which draw in bulk."""
        samplers = (self._loader.sampler, self._loader.batch_sampler)
        if all(sampler is None or type(sampler).__module__.startswith("torch.") for sampler in samplers):
            return 0.0
        if isinstance(self._loader.dataset, torch.utils.data.IterableDataset):
            return 0.0
        begin, count = time.perf_counter(), 0
        source: Any = self._loader.batch_sampler if self._loader.batch_sampler is not None else self._loader.sampler
        for _ in itertools.islice(source, _SAMPLER_BATCHES):
            count += 1
            if time.perf_counter() - begin > _SAMPLER_SECONDS:
                break
        return (time.perf_counter() - begin) / max(1, count)


@dataclass(frozen=True)
class DoctorReport(Shown):
    """The limit of a loader, and the gain from a change; ``print(report)`` shows it, and so does a notebook.

    Attributes:
        loader: The loader, in words.
        step_seconds: Assumed length of the training step; None if unknown.
        step_source: Source of that number, in words.
        finding: The limit, in `finding.sentence`, and the change to make, in `finding.change`.
        before: The loader as it is, measured with the training step.
        after: The loader with the change; None if there is none to try.
        remarks: Further findings.
        machine: Processors and memory of the machine.
        storage: A few of the data set's files.

    Example:
        >>> report = fastload.doctor(fastload.DataLoader(list(range(1000))), step_seconds=0.01, seconds=0.1)
        >>> report.finding.cause
        'training step'
    """

    loader: str
    step_seconds: float | None
    step_source: str
    finding: Finding
    before: Measured
    after: Measured | None
    remarks: tuple[str, ...]
    machine: Machine
    storage: Storage

    @property
    def measured_gain(self) -> float | None:
        """How many times as fast the loader was with the change; None if it was not tried."""
        return None if self.after is None else self.after.samples_per_second / self.before.samples_per_second

    @property
    def change_helps(self) -> bool | None:
        """Whether the loader was clearly faster with the change; None if it was not tried."""
        return None if self.measured_gain is None else self.measured_gain >= _CLEARLY_FASTER

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields, for logging as JSON.

        Returns:
            Name -> number, str, None, list or dict of these.
        """
        names = ("loader", "step_seconds", "step_source", "measured_gain", "change_helps")
        return {
            **{name: getattr(self, name) for name in names},
            **{name: getattr(self.finding, name) for name in ("cause", "sentence", "change")},
            "remarks": list(self.remarks),
            "machine": asdict(self.machine),
            "storage": asdict(self.storage),
            "before": self.before.result.as_dict(),
            "after": None if self.after is None else self.after.result.as_dict(),
        }

    def _table(self) -> Table:
        return Table(f"fastload doctor: {self.finding.sentence}", tuple(self._rows()), right=(2,))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        yield "loader", "", "", self.loader
        yield from self.machine.rows()
        yield from self.storage.rows()
        step = "not known" if self.step_seconds is None else in_seconds(self.step_seconds)
        yield "training", "step", step, self.step_source
        yield from _rows_of(self.before)
        for remark in self.remarks:
            yield "also", "", "", remark
        if self.finding.change:
            yield "change", "", "", self.finding.change
        if self.after is not None:
            rate = f"{self.after.samples_per_second:,.0f}"
            yield "with it", "samples/s", rate, f"{self.measured_gain:.2f} times as fast"
        if self.change_helps is False:
            yield "", "", "", "it does not help here: keep the loader as it is"
            if self.before.busy_elsewhere >= BUSY_ELSEWHERE:
                yield "", "", "", "or measure again while no other program runs"


def _rows_of(measured: Measured) -> Iterator[tuple[str, ...]]:
    each = f"{in_seconds(measured.cpu_seconds)} of CPU time each"
    yield "now", "samples/s", f"{measured.samples_per_second:,.0f}", each
    for stage, seconds in measured.stage_seconds.items():
        yield "now", stage, in_seconds(seconds), f"a sample, {in_percent(seconds, measured.thread_seconds)}"
    if measured.gil_held_share:
        yield "now", "GIL", in_percent(measured.gil_held_share, 1), "of the time held by another thread"
    if measured.pool_share >= _SMALL_SHARE:
        yield "now", "library threads", in_percent(measured.pool_share, 1), "of the CPU time"
    if measured.bytes_held:
        yield "now", "memory", in_bytes(measured.bytes_held), "of batches"
