"""Thread pools that libraries of this process have."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

from fastload._images._opencv import num_pool_threads, set_num_pool_threads

# As threadpoolctl names them, and what users write.
_VARIABLES = {"openblas": "OPENBLAS_NUM_THREADS=1", "mkl": "MKL_NUM_THREADS=1", "openmp": "OMP_NUM_THREADS=1"}


def find_pools() -> dict[str, str]:
    """Those of more than one thread: library -> what makes them one. BLAS and OpenMP need threadpoolctl to be found."""
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
    """In it those of `find_pools` have one thread."""
    with contextlib.ExitStack() as stack:
        stack.callback(set_num_pool_threads, num_pool_threads())
        set_num_pool_threads(1)
        if importlib.util.find_spec("threadpoolctl") is not None:
            import threadpoolctl

            stack.enter_context(threadpoolctl.threadpool_limits(1))
        yield
