"""A few files of a data set: their size, whether they are in the page cache, and how long it takes to read one."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._process._file_system import file_system_of

_NUM_FILES = 32
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Storage:
    """A few files that the samples of a data set name.

    Attributes:
        files: Number of files that were read; 0 if the data set has no list `samples` of paths.
        file_system: Type of the first file's file system, for example "ext4" or "nfs4"; "" if unknown.
        mean_bytes: Mean size of a file.
        cached_share: Share of the files that were in the page cache.
        cached_seconds: Median time to open and read a file in the page cache; None if none was.
        uncached_seconds: The same for files that were not in it.
    """

    files: int = 0
    file_system: str = ""
    mean_bytes: float = 0.0
    cached_share: float = 0.0
    cached_seconds: float | None = None
    uncached_seconds: float | None = None

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yields the rows that show it."""
        if not self.files:
            yield "data", "files", "none", "that its samples name"
            return
        yield "data", "files", in_bytes(self.mean_bytes), f"each, on {self.file_system or 'a file system'}"
        yield "data", "page cache", in_percent(self.cached_share, 1.0), f"of {self.files} files"
        for name, seconds in (("cached", self.cached_seconds), ("not cached", self.uncached_seconds)):
            if seconds is not None:
                yield "data", f"read, {name}", in_seconds(seconds), "a file"


def examine_storage(dataset: Any, root: Path = Path("/")) -> Storage:
    """Reads a few files from all over the data set, in no order, so that reading one does not bring in the next.

    Args:
        dataset: A data set, maybe with `samples`: paths, or sequences that begin with one.
        root: Root of the file system with the mount list; tests have their own.
    """
    while hasattr(dataset, "dataset") and not hasattr(dataset, "samples"):  # a Subset and its like
        dataset = dataset.dataset
    samples = getattr(dataset, "samples", ())
    if not isinstance(samples, Sequence):
        return Storage()
    numbers = random.Random(0).sample(range(len(samples)), min(_NUM_FILES, len(samples)))
    few = (samples[number] for number in numbers)
    names = [each[0] if isinstance(each, (list, tuple)) and each else each for each in few]
    paths = [Path(name) for name in names if isinstance(name, (str, os.PathLike))]
    found = [read for path in paths if (read := _read(path)) is not None]
    if not found:
        return Storage()
    cached = [seconds for seconds, _, is_cached in found if is_cached]
    uncached = [seconds for seconds, _, is_cached in found if not is_cached]
    return Storage(
        files=len(found),
        file_system=file_system_of(paths[0], root),
        mean_bytes=statistics.mean(size for _, size, _ in found),
        cached_share=len(cached) / len(found),
        cached_seconds=statistics.median(cached) if cached else None,
        uncached_seconds=statistics.median(uncached) if uncached else None,
    )


def _read(path: Path) -> tuple[float, int, bool] | None:
    """Reads a file. Returns seconds, bytes, and whether it was in the page cache; None if it cannot be read."""
    try:
        begin = time.perf_counter()
        descriptor = os.open(path, os.O_RDONLY)
        try:
            is_cached = _is_cached(descriptor)
            size = 0
            while data := os.read(descriptor, _BLOCK):
                size += len(data)
        finally:
            os.close(descriptor)
        return time.perf_counter() - begin, size, is_cached
    except OSError:
        return None


def _is_cached(descriptor: int) -> bool:
    """Returns whether the last byte can be read without waiting: readahead would bring the first ones."""
    try:
        last = max(0, os.fstat(descriptor).st_size - 1)
        return os.preadv(descriptor, [bytearray(1)], last, os.RWF_NOWAIT) == 1
    except OSError:  # it would wait, or the file system cannot tell
        return False
