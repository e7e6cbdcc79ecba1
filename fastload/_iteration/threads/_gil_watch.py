"""Estimates the share of time in which the GIL is held, from occasional samples."""

from __future__ import annotations

import time

from fastload import _native
from fastload._iteration.threads._counters import ThreadCounters

# A look costs a pause of at most 0.1 ms, or up to 5 ms if the GIL is held.
_INTERVAL_SECONDS = 0.1
# Taking a free GIL needs about a microsecond.
_HELD_SECONDS = 20e-6


class GilWatch:
    """The looks of one thread. Not thread-safe.

    Args:
        counters: Receives gil_checks, gil_held and gil_wait_seconds.
    """

    def __init__(self, counters: ThreadCounters) -> None:
        self._counters = counters
        self._next = time.monotonic() + _INTERVAL_SECONDS

    def look(self) -> None:
        """Checks the GIL if the last check is long enough ago. Called between samples."""
        if time.monotonic() < self._next:
            return
        waited = _native.gil_wait_seconds()
        self._counters.add({"gil_checks": 1, "gil_held": int(waited > _HELD_SECONDS), "gil_wait_seconds": waited})
        self._next = time.monotonic() + _INTERVAL_SECONDS
