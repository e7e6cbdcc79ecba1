"""The machine as this process finds it, the thread pools of its libraries, and a few files of a data set."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastload._display._units import in_bytes, in_percent, in_seconds
from fastload._images._opencv import num_pool_threads, set_num_pool_threads
from fastload._process._file_system import file_system_of
from fastload._process._limits import num_available, processor_quota, read_text, total_memory

# threadpoolctl's names, and the variables that users set.
_VARIABLES = {"openblas": "OPENBLAS_NUM_THREADS=1", "mkl": "MKL_NUM_THREADS=1", "openmp": "OMP_NUM_THREADS=1"}
_NUM_FILES = 32
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Machine:
    """One machine, as this process finds it.

    It may run on `available` processors, and control groups give it the time of `processors` of them. The memory is the
    machine's, or the control group's if that is less; what can be had without swapping is free.
    """

    available: int
    processors: float
    memory_bytes: int
    free_bytes: int

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yields the rows that show it."""
        quota = "" if self.processors == self.available else f", {self.processors:g} of them by control groups"
        yield "machine", "processors", f"{self.available}{quota}", ""
        yield "machine", "memory", in_bytes(self.memory_bytes), f"{in_bytes(self.free_bytes)} free"


def examine_machine(root: Path = Path("/")) -> Machine:
    """Looks at the machine at this moment. Tests have a file system of their own."""
    total = total_memory(root)
    lines = read_text(root / "proc/meminfo").splitlines()
    free = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    return Machine(
        available=num_available(),
        processors=processor_quota(root),
        memory_bytes=total,
        free_bytes=min(free, total),
    )


def find_pools() -> dict[str, str]:
    """Finds thread pools with more than one thread: library -> the setting that makes it one thread.

    BLAS and OpenMP are only found if threadpoolctl is installed.
    """
    found = {}
    if num_pool_threads() > 1:
        found["OpenCV"] = "cv2.setNumThreads(1)"
    if importlib.util.find_spec("threadpoolctl") is not None:
        import threadpoolctl  # type: ignore[import-untyped]

        for pool in threadpoolctl.threadpool_info():
            variable = _VARIABLES.get(pool["internal_api"])
            if variable is not None and pool["num_threads"] > 1:
                found[pool["internal_api"]] = f"{variable} in the environment"
    return found


@contextlib.contextmanager
def pools_of_one_thread() -> Iterator[None]:
    """Limits the pools of `find_pools` to one thread for the block."""
    with contextlib.ExitStack() as stack:
        stack.callback(set_num_pool_threads, num_pool_threads())
        set_num_pool_threads(1)
        if importlib.util.find_spec("threadpoolctl") is not None:
            import threadpoolctl

            stack.enter_context(threadpoolctl.threadpool_limits(1))
        yield


@dataclass(frozen=True)
class Storage:
    """A few files that the samples of a data set name; none if it has no list `samples` of paths.

    `file_system` is the first file's, for example "ext4" or "nfs4"; "" if unknown. `cached_share` of the files were in
    the page cache. The median times to open and read a file there, and elsewhere, are None if there was no such file.
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
    """Reads a few files from all over `dataset.samples`, in no order, so that reading one does not bring in another."""
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
        with path.open("rb", buffering=0) as file:
            is_cached = _is_cached(file.fileno())
            size = 0
            while data := file.read(_BLOCK):
                size += len(data)
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
