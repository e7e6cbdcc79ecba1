"""Files gone through with a store, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from fastload import _native
from fastload._decode_cache._builders import FileAction, FileRun
from fastload._decode_cache._store import OpenStore
from fastload._display._progress import Progress
from fastload._display._units import in_seconds
from fastload._pillow import _pillow
from fastload._process._config import MAX_FILE_BYTES
from fastload._process._exit import ThreadStartError
from fastload.cli._cache._files import TargetFiles
from fastload.cli._cache._kinds import Builder, Kind
from fastload.cli._errors import CommandError

# A writer that is behind for so long does not come.
FLUSH_SECONDS = 60.0


def builders(kind: Kind, cache: _native.DecodeCache, files: TargetFiles, number: int) -> list[Builder]:
    """One for each thread, that takes the files a loader would take. Raises UsageError as `Kind.make_builder`."""
    limits = {"max_file_bytes": MAX_FILE_BYTES, "max_pixels": _pillow.max_pixels()}
    return [kind.make_builder(files, cache=cache, **limits) for _ in range(number)]


def record_action(builder: Builder, store: OpenStore) -> FileAction:
    """Keeps a file's record; waits where records come faster than they are written."""

    def build(path: bytes) -> _native.BuildOutcome:
        outcome = builder.build(path)
        if outcome == "different":  # this process does not find that record again
            return "different" if (again := builder.build(path)) == "kept" else again
        if outcome == "not kept" and store.why_nothing_is_kept() is None:  # the writer is behind
            store.native.flush(FLUSH_SECONDS)
            return builder.build(path)
        return outcome

    return build


def gone_through(
    what: str,
    paths: Sequence[bytes],
    actions: Sequence[FileAction],
    must_end: Callable[[], bool] = lambda: False,
) -> tuple[FileRun, bool]:
    """What became of the files, and whether all that went on was not interrupted by Ctrl-C.

    Args:
        what: Is done, for the progress.
        paths, actions, must_end: Of a FileRun.

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
    """As the other commands', with the rate and the time left: this may take an hour."""

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
