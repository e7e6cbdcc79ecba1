"""The records of files written into a store, and compared with their files."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypedDict

from fastload import _native
from fastload._decode_cache._builders import FileAction
from fastload._decode_cache._folder import find_store_folder, open_store_folder
from fastload._decode_cache._store import FULL, OpenStore, RecordKind, StorePlace, look_at_store
from fastload._pillow import _pillow
from fastload._process._config import MAX_FILE_BYTES

# Added to the system's clock, for tests: a file that was changed in the last minute has no record yet.
CLOCK_AHEAD_NS = 0
# A writer that is not done after so long never is.
_FLUSH_SECONDS = 60.0


class _Limits(TypedDict):
    max_file_bytes: int
    max_pixels: int


class ImageFiles(NamedTuple):
    """The files that a loader reads.

    Attributes:
        paths: Each file once.
        first_steps: The steps whose result pixels are.
    """

    paths: Sequence[bytes]
    first_steps: _native.FirstSteps | None = None


class Build(Protocol):
    """One build of records, by one process. Closing it publishes them."""

    def action(self) -> FileAction:
        """Returns what builds the record of a file, for one thread."""
        ...

    def trouble(self) -> str | None:
        """Returns why no more records are kept, or None."""
        ...

    def num_kept(self, num_made: int) -> int:
        """Returns how many of the records that were made are in the store; ask after close()."""
        ...

    def close(self) -> bool:
        """Publishes the records; returns whether all are published after CLOSE_SECONDS."""
        ...


def begin_build(path: Path, max_bytes: int, kind: RecordKind, files: ImageFiles) -> Build:
    """Opens the store at `path`, and makes it where there is none.

    Raises:
        OSError: It cannot be opened or written to, others may decide what is in it, or it is not on a disk of this
            machine and records of the kind must be.
    """
    if kind == "index":
        return _IndexBuild(StorePlace(path, max_bytes), len(files.paths))
    return _FileRecordBuild(path, max_bytes, kind, files.first_steps)


def comparing_actions(path: Path, kind: RecordKind, files: ImageFiles, number: int) -> list[FileAction]:
    """Returns what compares a file's record in a store with the file, for each of `number` threads; writes nothing."""
    if kind == "index":
        cache = look_at_store(path).make_decode_cache(len(files.paths))
        return [_native.make_index_builder(cache=cache, **_limits()).compare for _ in range(number)]
    records = open_built_records(path, kind)
    return [_comparing_action(_file_record_builder(records, None, files.first_steps), kind) for _ in range(number)]


def _comparing_action(builder: _native.RecordBuilder, kind: RecordKind) -> FileAction:
    def compare(path: bytes) -> _native.BuildOutcome:
        outcome = builder.compare(path)
        if outcome == "different" and kind == "pixels" and (pixels := _decoded_by_pillow(path)) is not None:
            return builder.compare_with_pixels(*pixels)
        return outcome

    return compare


def open_built_records(path: Path, kind: RecordKind) -> _native.BuiltRecords:
    """Opens the coefficients or pixels in the store at `path`, read-only.

    Raises:
        FileNotFoundError: There is no store.
        OSError: It cannot be opened, others may decide what is in it, or it is not on a disk of this machine.
    """
    with find_store_folder(path, is_local=True) as folder:
        return _native.open_built_records(folder.fd, folder.key, kind)


class _IndexBuild:
    def __init__(self, place: StorePlace, num_files: int) -> None:
        self._store = OpenStore(place, is_built=True)
        if self._store.obstacle is not None:
            raise OSError(errno.EACCES, self._store.obstacle)
        self._cache = self._store.native.make_decode_cache(num_files)

    def action(self) -> FileAction:
        return index_action(_native.make_index_builder(cache=self._cache, **_limits()), self._store)

    def trouble(self) -> str | None:
        if (reason := self._store.why_nothing_is_kept()) is not None:
            return reason
        return None if self._cache.is_worth_it else "those of fewer than one file in 20 would fit"

    def num_kept(self, num_made: int) -> int:
        # Records that a thread has left to the writer are lost where it finds no room.
        return min(num_made, self._store.native.counters()["records_published"])

    def close(self) -> bool:
        return self._store.close()


class _FileRecordBuild:
    def __init__(self, path: Path, max_bytes: int, kind: RecordKind, first_steps: _native.FirstSteps | None) -> None:
        with open_store_folder(path, is_local=True) as folder:
            if folder.obstacle is not None:
                raise OSError(errno.EACCES, folder.obstacle)
            self._records = _native.open_built_records(folder.fd, folder.key, kind)
        self._build = _native.begin_build(self._records, max_bytes)
        self._first_steps = first_steps

    def action(self) -> FileAction:
        builder = _file_record_builder(self._records, self._build, self._first_steps)

        def build(path: bytes) -> _native.BuildOutcome:
            outcome = builder.build(path)
            if outcome == "none" and self._first_steps is not None and (pixels := _decoded_by_pillow(path)) is not None:
                return builder.build_with_pixels(*pixels)
            return outcome

        return build

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


def _file_record_builder(
    records: _native.BuiltRecords, build: _native.RecordBuild | None, first_steps: _native.FirstSteps | None
) -> _native.RecordBuilder:
    return _native.make_file_record_builder(
        records=records,
        build=build,
        first_steps=first_steps,
        native_jpeg=_pillow.native_jpeg_is_exact().is_exact,
        clock_ahead_ns=CLOCK_AHEAD_NS,
        **_limits(),
    )


def _limits() -> _Limits:
    return {"max_file_bytes": MAX_FILE_BYTES, "max_pixels": _pillow.max_pixels()}


def _decoded_by_pillow(path: bytes) -> _pillow.DecodedPixels | None:
    """Returns the pixels of a file that native code does not decode; None where Pillow fails, too."""
    with contextlib.suppress(Exception):
        return _pillow.decode_rgb(path)
    return None
