"""Counters of the Python work of a loader's threads, named as in LoaderStats."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from fastload._process._exit import LiveObjects


class ThreadCounters:
    """Sums by the names of LoaderStats, shared by a loader and its iterations. Thread-safe."""

    def __init__(self) -> None:
        # Re-entrant: a finalizer may ask for the numbers in the thread that is adding some.
        self._lock = threading.RLock()
        self._counters: dict[str, Any] = {}
        _live_counters.add(self)

    def after_fork(self) -> None:
        """In a child: a thread that has not come along may hold the lock. The sums are whole at any moment."""
        self._lock = threading.RLock()

    def add(self, counters: Mapping[str, Any]) -> None:
        """Adds numbers, and dicts of numbers by their keys."""
        with self._lock:
            self._counters = add_counters(self._counters, counters)

    def snapshot(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._counters)


def add_counters(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """The sums of what `left` and `right` count under the same name, at any depth."""
    merged = dict(left)
    for name, value in right.items():
        if isinstance(value, Mapping):
            merged[name] = add_counters(merged.get(name, {}), value)
        else:
            merged[name] = merged.get(name, 0) + value
    return merged


_live_counters: LiveObjects[ThreadCounters] = LiveObjects()


def _renew_locks() -> None:
    for counters in _live_counters.all():
        counters.after_fork()


os.register_at_fork(after_in_child=_renew_locks)
