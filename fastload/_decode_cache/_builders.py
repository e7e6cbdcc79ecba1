"""Files gone through in several threads, each with the scratch of its own."""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fastload import _native
from fastload._process._exit import DaemonThread, start_threads

NUM_NAMED = 3
_FILES_AT_ONCE = 16
_LOOK_SECONDS = 0.1
_END_SECONDS = 60.0

FileAction = Callable[[bytes], "_native.BuildOutcome"]


class FileRun:
    """Calls something with each file, in threads, and counts what becomes of them.

    Args:
        paths: The files.
        actions: One for each thread; called with a path.
        must_end: Asked every few files by each thread: whether the rest is left out.

    Attributes:
        counts: Files by outcome.
    """

    def __init__(
        self, paths: Sequence[bytes], actions: Sequence[FileAction], must_end: Callable[[], bool] = lambda: False
    ) -> None:
        self.counts: Counter[_native.BuildOutcome] = Counter()
        self._named: dict[_native.BuildOutcome, list[tuple[int, bytes]]] = {}
        self._paths = paths
        self._must_end = must_end
        self._begins: Iterator[int] = iter(range(0, len(paths), _FILES_AT_ONCE))
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._error: BaseException | None = None
        self._threads = [_RunThread(self, action) for action in actions]

    @property
    def num_done(self) -> int:
        """The number of files that are done."""
        with self._lock:
            return self.counts.total()

    def named(self, outcome: _native.BuildOutcome) -> list[bytes]:
        """Returns the first NUM_NAMED files of an outcome, in their order."""
        return [path for _, path in sorted(self._named.get(outcome, []))]

    def run(self, progress: Callable[[int, int], object]) -> None:
        """Returns when all is done, or `must_end` says so. An exception ends the threads first.

        Args:
            progress: Called again and again with the files done, and their number.

        Raises:
            ThreadStartError: The system refuses a thread.
            BaseException: An action has raised it.
        """
        try:
            start_threads(self._threads)
            while not self._have_ended(_LOOK_SECONDS):
                progress(self.num_done, len(self._paths))
        finally:
            self.end()
            self._have_ended(_END_SECONDS)
        if self._error is not None:
            raise self._error

    def _have_ended(self, timeout_seconds: float) -> bool:
        """Waits for those that have begun. Not by join(): where that was interrupted, its thread passes for dead."""
        deadline = time.monotonic() + timeout_seconds
        begun = [thread for thread in self._threads if thread.ident is not None]
        return all(thread.has_ended.wait(max(0.0, deadline - time.monotonic())) for thread in begun)

    def end(self) -> None:
        """Keeps the threads from taking another file."""
        self._has_ended.set()

    def take_files(self, action: FileAction) -> None:
        """Works on files; each thread calls it."""
        try:
            while not self._has_ended.is_set() and (begin := self._next()) is not None:
                self._take(action, begin)
                if self._must_end():
                    self.end()
        except BaseException as error:  # noqa: BLE001 - run() raises it
            self._error = error
            self.end()

    def _next(self) -> int | None:
        with self._lock:
            return next(self._begins, None)

    def _take(self, action: FileAction, begin: int) -> None:
        for place in range(begin, min(begin + _FILES_AT_ONCE, len(self._paths))):
            if self._has_ended.is_set():
                return
            path = self._paths[place]
            outcome = action(path)
            with self._lock:
                self.counts[outcome] += 1
                self._note(outcome, place, path)

    def _note(self, outcome: _native.BuildOutcome, place: int, path: bytes) -> None:
        named = self._named.setdefault(outcome, [])
        if len(named) < NUM_NAMED or place < named[-1][0]:
            self._named[outcome] = heapq.nsmallest(NUM_NAMED, [*named, (place, path)])


class _RunThread(DaemonThread):
    def __init__(self, files: FileRun, action: FileAction) -> None:
        super().__init__("fastload-cache-files")
        self.has_ended = threading.Event()
        self._files = files
        self._action = action

    def run(self) -> None:
        try:
            self._files.take_files(self._action)
        finally:
            self.has_ended.set()

    def signal_end(self) -> None:
        self._files.end()
