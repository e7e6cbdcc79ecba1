"""Estimates the share of time in which the GIL is held, from looks now and then."""

from __future__ import annotations

import time

from fastload import _native
from fastload._iteration.threads._counters import ThreadCounters

# A look costs a pause of 0.1 ms at most, and up to 5 ms where the GIL is held.
_INTERVAL_SECONDS = 0.1
# Taking a GIL that is free needs about a microsecond.
_HELD_SECONDS = 20e-6


class GilWatch:
    """The looks of one thread. Not thread-safe.

    Args:
        counters: To add to: gil_checks, gil_held, gil_wait_seconds.
    """

    def __init__(self, counters: ThreadCounters) -> None:
        self._counters = counters
        self._next = time.monotonic() + _INTERVAL_SECONDS

    def look(self) -> None:
        """Called between samples; does nothing most of the time."""
        if time.monotonic() < self._next:
            return
        waited = _native.gil_wait_seconds()
        self._counters.add({"gil_checks": 1, "gil_held": int(waited > _HELD_SECONDS), "gil_wait_seconds": waited})
        self._next = time.monotonic() + _INTERVAL_SECONDS
