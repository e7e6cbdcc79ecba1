"""Counters of the Python work of a loader's threads, named as in LoaderStats."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fastload import _native
from fastload._process._locked import Locked

# A look costs a pause of at most 0.1 ms, or up to 5 ms if the GIL is held.
_INTERVAL_SECONDS = 0.1
# Taking a free GIL needs about a microsecond.
_HELD_SECONDS = 20e-6


class WorkerCounters(Locked):
    """Sums by their names in LoaderStats, shared by a loader and its iterations. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._counters: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as empty sums, for a worker process."""
        return WorkerCounters, ()

    def add(self, counters: Mapping[str, Any]) -> None:
        """Adds numbers, and dicts of numbers key by key."""
        with self._lock:
            self._counters = add_counters(self._counters, counters)

    def take(self) -> dict[str, Any]:
        """Returns the counters and begins anew."""
        with self._lock:
            taken, self._counters = self._counters, {}
        return taken

    def snapshot(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._counters)


def add_counters(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sums of the values with the same name in `left` and `right`, in dicts at any depth."""
    merged = dict(left)
    for name, value in right.items():
        if isinstance(value, dict):
            merged[name] = add_counters(merged.get(name, {}), value)
        else:
            merged[name] = merged.get(name, 0) + value
    return merged


class GilWatch:
    """Occasional looks at the GIL by one thread, from which the share of time is estimated. Not thread-safe.

    Args:
        counters: Receives gil_checks, gil_held and gil_wait_seconds.
    """

    def __init__(self, counters: WorkerCounters) -> None:
        self._counters = counters
        self._next = time.monotonic() + _INTERVAL_SECONDS

    def look(self) -> None:
        """Checks the GIL if the last check is long enough ago. Called between samples."""
        if time.monotonic() < self._next:
            return
        waited = _native.gil_wait_seconds()
        self._counters.add({"gil_checks": 1, "gil_held": int(waited > _HELD_SECONDS), "gil_wait_seconds": waited})
        self._next = time.monotonic() + _INTERVAL_SECONDS
