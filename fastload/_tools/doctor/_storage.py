"""The files of a data set: where they are, and how long it takes to read one."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._process._file_system import file_system_of

_NUM_FILES = 32
_NUM_SAMPLES = 8  # loaded to see which files they open
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Storage:
    """A few files of a data set.

    Attributes:
        files: Number of files that were read; 0 if no sample opens a file through Python.
        folder: Folder of the first file.
        file_system: Type of its file system, for example "ext4" or "nfs4"; "" if unknown.
        mean_bytes: Mean size of a file.
        data_bytes: Estimated size of all files, by that mean; 0 if their number is unknown.
        cached_share: Share of the files that were in the page cache.
        cached_seconds: Median time to open and read a file in the page cache; None if none was.
        uncached_seconds: The same for files that are not in it, including files that were dropped from it for this;
            None if none could be read so.
    """

    files: int = 0
    folder: str = ""
    file_system: str = ""
    mean_bytes: float = 0.0
    data_bytes: float = 0.0
    cached_share: float = 0.0
    cached_seconds: float | None = None
    uncached_seconds: float | None = None

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yields the rows that show it."""
        if not self.files:
            yield "data", "files", "none", "that its samples open in Python"
            return
        yield "data", "files", in_bytes(self.mean_bytes), f"each, on {self.file_system or 'a file system'}"
        yield "data", "page cache", in_percent(self.cached_share, 1.0), f"of {self.files} files"
        for name, seconds in (("cached", self.cached_seconds), ("not cached", self.uncached_seconds)):
            if seconds is not None:
                yield "data", f"read, {name}", in_seconds(seconds), "a file"


def examine_storage(dataset: Any, root: Path = Path("/")) -> Storage:
    """Reads a few files of the data set: files that its `samples` name, or that some samples open.

    Raises:
        Exception: Any exception that the data set raises.
    """
    paths = _paths_of(dataset)
    found = [read for path in paths if (read := _read(path)) is not None]
    if not found:
        return Storage()
    cached = [seconds for seconds, _, is_cached in found if is_cached]
    uncached = [seconds for seconds, _, is_cached in found if not is_cached]
    mean_bytes = statistics.mean(size for _, size, _ in found)
    uncached += [read[0] for path in paths if _evict(path) and (read := _read(path)) is not None and not read[2]]
    return Storage(
        files=len(found),
        folder=str(paths[0].parent),
        file_system=file_system_of(paths[0], root),
        mean_bytes=mean_bytes,
        data_bytes=mean_bytes * _num_files_of(dataset),
        cached_share=len(cached) / len(found),
        cached_seconds=statistics.median(cached) if cached else None,
        uncached_seconds=statistics.median(uncached) if uncached else None,
    )


def _innermost(dataset: Any) -> Any:
    """Returns the innermost data set, which has the `samples` if any has."""
    while hasattr(dataset, "dataset") and not hasattr(dataset, "samples"):  # a Subset and its like
        dataset = dataset.dataset
    return dataset


def _num_files_of(dataset: Any) -> int:
    """Returns the number of files, one for each sample, if the samples name them; else 0."""
    return len(dataset) if hasattr(_innermost(dataset), "samples") and hasattr(dataset, "__len__") else 0


def _paths_of(dataset: Any) -> list[Path]:
    """Returns the paths of a few files from all over the data set."""
    dataset = _innermost(dataset)
    samples = getattr(dataset, "samples", None)
    numbers = _scattered(dataset, _NUM_SAMPLES if samples is None else _NUM_FILES)
    if samples is None:
        return _opened(lambda: [dataset[number] for number in numbers])
    named = (samples[number] for number in numbers)
    names = [each[0] if isinstance(each, (list, tuple)) and each else each for each in named]
    return [Path(name) for name in names if isinstance(name, (str, os.PathLike))]


def _scattered(dataset: Any, count: int) -> Sequence[int]:
    """Returns scattered sample numbers, so that reading one file does not bring in the next; none if it is iterable."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        return ()
    length = len(dataset)
    return sorted(random.Random(0).sample(range(length), min(count, length)))


class _OpenedNames(threading.local):
    """The names that the calling thread opens. An audit hook cannot be removed, so there is only one."""

    names: list[Any] | None = None

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self.names is not None:
            self.names.append(arguments[0])


_opened_names = _OpenedNames()
_num_hooks = itertools.count()


def _opened(action: Callable[[], object]) -> list[Path]:
    """Returns the regular files that `action` opens through Python."""
    if next(_num_hooks) == 0:
        sys.addaudithook(_opened_names.note)
    _opened_names.names = []
    try:
        action()
        names = [os.fsdecode(name) for name in _opened_names.names if isinstance(name, (str, bytes, os.PathLike))]
    finally:
        _opened_names.names = None
    return [path for path in map(Path, dict.fromkeys(names)) if path.is_file() and path.suffix != ".py"][:_NUM_FILES]


def _read(path: Path) -> tuple[float, int, bool] | None:
    """Reads a file. Returns seconds, bytes, and whether it was in the page cache; None if it cannot be read."""
    try:
        is_cached = _is_cached(path)
        begin = time.perf_counter()
        descriptor = os.open(path, os.O_RDONLY)
        try:
            size = 0
            while data := os.read(descriptor, _BLOCK):
                size += len(data)
        finally:
            os.close(descriptor)
        return time.perf_counter() - begin, size, is_cached
    except OSError:
        return None


def _is_cached(path: Path) -> bool:
    """Returns whether the last byte can be read without waiting: readahead would bring the first ones."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        last = max(0, os.fstat(descriptor).st_size - 1)
        return os.preadv(descriptor, [bytearray(1)], last, os.RWF_NOWAIT) == 1
    except OSError:  # it would wait, or the file system cannot tell
        return False
    finally:
        os.close(descriptor)


def _evict(path: Path) -> bool:
    """Asks the system to drop a file from the page cache. Returns whether it did."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        return not _is_cached(path)
    except OSError:
        return False
