"""The report of the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from fastload._display._table import Shown, Table
from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._tools.doctor._diagnosis import BUSY_ELSEWHERE, Finding
from fastload._tools.doctor._machine import Machine, Storage
from fastload._tools.doctor._measure import Measured


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
        found: dict[str, Any] = {
            "loader": self.loader,
            "step_seconds": self.step_seconds,
            "step_source": self.step_source,
            "cause": self.finding.cause,
            "sentence": self.finding.sentence,
            "change": self.finding.change,
            "measured_gain": self.measured_gain,
            "change_helps": self.change_helps,
            "remarks": list(self.remarks),
            "machine": asdict(self.machine),
            "storage": asdict(self.storage),
        }
        for name, measured in (("before", self.before), ("after", self.after)):
            found[name] = None if measured is None else measured.result.as_dict()
        return found

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


_SMALL_SHARE = 0.01
_CLEARLY_FASTER = 1.05  # two measurements may differ by less than this
