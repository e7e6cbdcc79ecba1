"""The machine as this process finds it, and the thread pools of its libraries."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastload._display._units import in_bytes
from fastload._images._opencv import num_pool_threads, set_num_pool_threads
from fastload._process._limits import num_available, processor_quota, read_text, total_memory

# threadpoolctl's names, and the variables that users set.
_VARIABLES = {"openblas": "OPENBLAS_NUM_THREADS=1", "mkl": "MKL_NUM_THREADS=1", "openmp": "OMP_NUM_THREADS=1"}


@dataclass(frozen=True)
class Machine:
    """One machine, as this process finds it.

    Attributes:
        available: Number of processors that this process may run on, by affinity.
        processors: Number of processors' worth of time, by affinity and control groups.
        memory_bytes: Memory of the machine, or of the control group if that is less.
        free_bytes: The part of it that is available without swapping.
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
    """Looks at the machine at this moment.

    Args:
        root: Root of the file system; tests have their own.
    """
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
