"""Files gone through with a store, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from fastload._decode_cache._build import FileAction, FileRun
from fastload._display._progress import Progress
from fastload._display._units import in_seconds
from fastload._process._exit import ThreadStartError
from fastload.cli._errors import CommandError


def gone_through(
    what: str,
    paths: Sequence[bytes],
    actions: Sequence[FileAction],
    must_end: Callable[[], bool] = lambda: False,
) -> tuple[FileRun, bool]:
    """Returns the run over the files, and whether Ctrl-C did not interrupt it.

    Args:
        what: The work, for the progress.
        paths, actions, must_end: Arguments of FileRun.

    Raises:
        CommandError: The system refuses threads.
    """
    files = FileRun(paths, actions, must_end)
    try:
        with RatedProgress(what, "files") as progress:
            files.run(progress.advance)
    except KeyboardInterrupt:
        return files, False
    except ThreadStartError as error:
        raise CommandError(str(error)) from error
    return files, True


class RatedProgress(Progress):
    """Progress with the rate and the time left: this may take an hour."""

    def _line(self) -> str:
        seconds = time.monotonic() - self._begin
        if not self._done or not self._total:
            return super()._line()
        left = seconds / self._done * (self._total - self._done)
        return f"{super()._line()}, {self._done / seconds:,.0f} {self._unit}/s, {in_seconds(left)} left"

    def _report_rich(self) -> None:
        import rich.progress
        from rich.console import Console

        columns: tuple[Any, ...] = (
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn("{task.fields[rate]}"),
            rich.progress.TimeRemainingColumn(elapsed_when_finished=True),
        )
        with rich.progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(self._what, total=None, rate="")
            while not self._has_ended.wait(0.2):
                rate = f"{self._done / (time.monotonic() - self._begin):,.0f} {self._unit}/s"
                bar.update(task, completed=self._done, total=self._total, rate=rate)
