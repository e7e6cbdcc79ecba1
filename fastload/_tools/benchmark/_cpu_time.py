"""CPU time of this process and of the worker processes that it has started."""

from __future__ import annotations

import multiprocessing
import os
import time

# The clock that clock_getcpuclockid(3) names on Linux: the inverted process number, above a kind; 2 is run time.
_RUN_TIME_KIND = 2


def cpu_seconds() -> float:
    """Returns the CPU time of all threads, of running worker processes, and of ended ones that were waited for.

    Ended processes are counted in ticks of 10 ms, the others to nanoseconds.
    """
    times = os.times()
    ended = times.children_user + times.children_system
    # active_children() waits for processes that have just ended: these are in the sum above the next time.
    workers = [process.pid for process in multiprocessing.active_children()]
    return time.process_time() + ended + sum(_run_seconds(pid) for pid in workers if pid is not None)


def _run_seconds(pid: int) -> float:
    try:
        return time.clock_gettime((~pid << 3) | _RUN_TIME_KIND)
    except OSError:  # it has ended
        return 0.0
