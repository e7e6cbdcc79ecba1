"""Whether other threads run while one is at work. For tests with the fixture no_thread_switches."""

from __future__ import annotations

import threading
from collections.abc import Callable


def runs_beside(work: Callable[[], object], other: Callable[[], object] = lambda: None) -> bool:
    """Calls `other` while another thread is at `work`, and returns whether it was still at it when `other` began.

    A busy machine may let this thread run only after `work`, so 50 attempts are made at most. Raises what `other`
    raises.
    """
    return any(_began_during(work, other) for _ in range(50))


def _began_during(work: Callable[[], object], other: Callable[[], object]) -> bool:
    begun, ended = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()  # this thread still holds the GIL
        work()
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        begun.wait()
        is_during = not ended.is_set()
        other()
    finally:
        thread.join()
    return is_during and ended.is_set()
