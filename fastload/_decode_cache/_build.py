"""The records of files written into a store, and compared with their files, in several threads."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fastload import _native
from fastload._decode_cache._folder import open_store_folder
from fastload._decode_cache._store import FULL, ImageFiles, OpenStore, RecordKind, look_at_store, open_built_records
from fastload._pillow import _pillow
from fastload._process._config import MAX_FILE_BYTES
from fastload._process._exit import DaemonThread, start_threads

# Added to the system's clock, for tests: a file that was changed in the last minute has no record yet.
CLOCK_AHEAD_NS = 0
# A writer that is not done after so long never is.
_FLUSH_SECONDS = 60.0
_NUM_NAMED = 3
_LOOK_SECONDS = 0.1
_END_SECONDS = 60.0

FileAction = Callable[[bytes], "_native.BuildOutcome"]


def begin_build(path: Path, max_bytes: int, kind: RecordKind, files: ImageFiles) -> _IndexBuild | _FileRecordBuild:
    """Opens the store at `path`, and makes it where there is none.

    Raises OSError if it cannot be opened or written to, if others may decide what is in it, or if it must be on a
    disk of this machine and is not.
    """
    if kind == "index":
        return _IndexBuild(path, max_bytes, len(files.paths))
    return _FileRecordBuild(path, max_bytes, kind, files.first_steps)


def comparing_actions(path: Path, kind: RecordKind, files: ImageFiles, number: int) -> list[FileAction]:
    """Returns what compares a file's record in a store with the file, for each of `number` threads; writes nothing."""
    if kind == "index":
        cache = look_at_store(path).make_decode_cache(len(files.paths))
        return [_index_builder(cache).compare for _ in range(number)]
    records = open_built_records(path, kind)
    return [_file_record_action(records, None, files.first_steps) for _ in range(number)]


class _IndexBuild:
    """One build of records, by one process. Closing it publishes them."""

    def __init__(self, path: Path, max_bytes: int, num_files: int) -> None:
        self._store = OpenStore(path, max_bytes, is_built=True)
        if self._store.obstacle is not None:
            raise OSError(errno.EACCES, self._store.obstacle)
        self._cache = self._store.native.make_decode_cache(num_files)

    def action(self) -> FileAction:
        """Returns what builds the record of a file, for one thread."""
        return index_action(_index_builder(self._cache), self._store)

    def trouble(self) -> str | None:
        """Returns why no more records are kept, or None."""
        if (reason := self._store.why_nothing_is_kept()) is not None:
            return reason
        return None if self._cache.is_worth_it else "those of fewer than one file in 20 would fit"

    def num_kept(self, num_made: int) -> int:
        """Returns how many of the records that were made are in the store; ask after close()."""
        # Records that a thread has left to the writer are lost where it finds no room.
        return min(num_made, self._store.native.counters()["records_published"])

    def close(self) -> bool:
        """Publishes the records; returns whether all are published after CLOSE_SECONDS."""
        return self._store.close()


class _FileRecordBuild:
    """The same for coefficients and pixels."""

    def __init__(self, path: Path, max_bytes: int, kind: RecordKind, first_steps: _native.FirstSteps | None) -> None:
        with open_store_folder(path, is_local=True) as folder:
            if folder.obstacle is not None:
                raise OSError(errno.EACCES, folder.obstacle)
            self._records = _native.open_built_records(folder.fd, folder.key, kind)
        self._build = _native.begin_build(self._records, max_bytes)
        self._first_steps = first_steps

    def action(self) -> FileAction:
        return _file_record_action(self._records, self._build, self._first_steps)

    def trouble(self) -> str | None:
        if self._build.error == FULL:
            return "its max_bytes are used up"
        return os.strerror(self._build.error) if self._build.error > 0 else None

    def num_kept(self, num_made: int) -> int:
        return min(num_made, self._build.num_records)

    def close(self) -> bool:
        self._build.finish()
        return True


def index_action(builder: _native.RecordBuilder, store: OpenStore) -> FileAction:
    """Returns what keeps a file's index; it waits where indexes are made faster than they are written."""

    def build(path: bytes) -> _native.BuildOutcome:
        outcome = builder.build(path)
        if outcome == "different":  # this process does not find that record again
            return "different" if (again := builder.build(path)) == "kept" else again
        if outcome == "not kept" and store.why_nothing_is_kept() is None:
            store.native.flush(_FLUSH_SECONDS)
            return builder.build(path)
        return outcome

    return build


def _file_record_action(
    records: _native.BuiltRecords, build: _native.RecordBuild | None, first_steps: _native.FirstSteps | None
) -> FileAction:
    """Returns what keeps a file's coefficients, or with `first_steps` its pixels, or compares them without a `build`.

    Pillow decodes the pixels of files that native code does not decode.
    """
    builder = _native.make_file_record_builder(
        records=records,
        build=build,
        first_steps=first_steps,
        native_jpeg=_pillow.native_jpeg_is_exact().is_exact,
        clock_ahead_ns=CLOCK_AHEAD_NS,
        max_file_bytes=MAX_FILE_BYTES,
        max_pixels=_pillow.max_pixels(),
    )
    begin, end, not_native = builder.build, builder.build_with_pixels, "none"
    if build is None:
        begin, end, not_native = builder.compare, builder.compare_with_pixels, "different"

    def act(path: bytes) -> _native.BuildOutcome:
        outcome = begin(path)
        if outcome != not_native or first_steps is None:
            return outcome
        try:
            pixels = _pillow.decode_rgb(path)
        except Exception:  # noqa: BLE001 - Pillow fails, too
            return outcome
        return end(*pixels)

    return act


def _index_builder(cache: _native.DecodeCache) -> _native.RecordBuilder:
    return _native.make_index_builder(cache, MAX_FILE_BYTES, _pillow.max_pixels())


class FileRun:
    """Calls each of `actions` in a thread with files until none is left or `must_end` says so; counts the outcomes."""

    def __init__(
        self, paths: Sequence[bytes], actions: Sequence[FileAction], must_end: Callable[[], bool] = lambda: False
    ) -> None:
        self.counts: Counter[_native.BuildOutcome] = Counter()
        self._named: dict[_native.BuildOutcome, list[int]] = {}
        self._paths = paths
        self._must_end = must_end
        self._places = iter(range(len(paths)))  # of all threads, each of which takes the next one in a single step
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._error: BaseException | None = None
        self._threads = [_RunThread(self, action) for action in actions]

    def named(self, outcome: _native.BuildOutcome) -> list[bytes]:
        """Returns the first _NUM_NAMED files of an outcome, in their order."""
        return [self._paths[place] for place in self._named.get(outcome, [])]

    def run(self, progress: Callable[[int, int], object]) -> None:
        """Returns when all is done, or `must_end` says so. Calls `progress` with the number of files done, and of all.

        An exception ends the threads first. Raises ThreadStartError, and what an action raises.
        """
        try:
            start_threads(self._threads)
            while not self._have_ended(_LOOK_SECONDS):
                with self._lock:
                    num_done = self.counts.total()
                progress(num_done, len(self._paths))
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
            for place in self._places:
                if self._has_ended.is_set():
                    return
                self._take(action, place)
                if self._must_end():
                    self.end()
        except BaseException as error:  # noqa: BLE001 - run() raises it
            self._error = error
            self.end()

    def _take(self, action: FileAction, place: int) -> None:
        outcome = action(self._paths[place])
        with self._lock:
            self.counts[outcome] += 1
            named = self._named.setdefault(outcome, [])
            if len(named) < _NUM_NAMED or place < named[-1]:
                self._named[outcome] = sorted([*named, place])[:_NUM_NAMED]


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
