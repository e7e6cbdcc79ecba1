"""Progress on standard error: a bar if rich is installed and it is a terminal, otherwise lines."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from typing import Any, TextIO

from fastload._display._units import in_seconds
from fastload._process._started_thread import StartedThread

# Shorter work shows no progress.
QUIET_SECONDS = 2.0
_LINE_SECONDS = 10.0
_LOOK_SECONDS = 0.2


def is_rich(stream: TextIO) -> bool:
    """Returns whether output to `stream` may have colours and bars."""
    return stream.isatty() and importlib.util.find_spec("rich") is not None


class Progress:
    """A context that reports the progress of the work inside it to standard error once it takes over two seconds.

    `what` names the work, for example "comparing", and `unit` the unit of `advance` in the plural; "" if the progress
    is unknown. With `has_rate` the rate and the time left are shown, for work that may take an hour.
    """

    def __init__(self, what: str, unit: str = "", *, has_rate: bool = False, is_shown: bool = True) -> None:
        self._what = what
        self._unit = unit
        self._has_rate = has_rate
        self._is_shown = is_shown
        self._done = 0.0
        self._total: float | None = None
        self._begin = time.monotonic()
        self._has_ended = threading.Event()
        self._reporter = StartedThread(target=self._report, name="fastload progress", daemon=True)

    def advance(self, done: float, total: float | None = None) -> None:
        """Sets how much is done, and the total if it is known."""
        self._done, self._total = done, total

    def __enter__(self) -> Progress:
        if self._is_shown:
            self._reporter.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._has_ended.set()
        if self._is_shown:
            self._reporter.join()

    def _report(self) -> None:
        if self._has_ended.wait(QUIET_SECONDS):
            return
        if is_rich(sys.stderr):
            self._report_rich()
        else:
            while not self._has_ended.is_set():
                sys.stderr.write(f"{self._line()}\n")
                sys.stderr.flush()
                self._has_ended.wait(_LINE_SECONDS)

    def _line(self) -> str:
        passed = time.monotonic() - self._begin
        seconds = in_seconds(passed)
        if not self._unit:
            return f"fastload: {self._what}: {seconds}"
        if self._unit == "%":
            return f"fastload: {self._what}: {self._done:.0%}, {seconds}"
        total = "" if self._total is None else f" of {self._total:,.0f}"
        line = f"fastload: {self._what}: {self._done:,.0f}{total} {self._unit}, {seconds}"
        if not self._has_rate or not self._done or not self._total:
            return line
        return f"{line}, {self._rate()}, {in_seconds(passed / self._done * (self._total - self._done))} left"

    def _rate(self) -> str:
        return f"{self._done / (time.monotonic() - self._begin):,.0f} {self._unit}/s"

    def _report_rich(self) -> None:
        import rich.progress
        from rich.console import Console

        columns: list[Any] = [rich.progress.TextColumn("{task.description}"), rich.progress.BarColumn()]
        if self._has_rate:
            columns += [rich.progress.MofNCompleteColumn(), rich.progress.TextColumn("{task.fields[rate]}")]
            columns.append(rich.progress.TimeRemainingColumn(elapsed_when_finished=True))
        else:
            columns.append(rich.progress.TimeElapsedColumn())
        with rich.progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(self._what, total=None, rate="")
            while not self._has_ended.wait(_LOOK_SECONDS):
                total = 1.0 if self._unit == "%" else self._total
                bar.update(task, completed=self._done, total=total, rate=self._rate())
