"""Counters of the Python work of a loader's threads, named as in LoaderStats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastload._process._locked import Locked


class ThreadCounters(Locked):
    """Sums by their names in LoaderStats, shared by a loader and its iterations. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._counters: dict[str, Any] = {}

    def add(self, counters: Mapping[str, Any]) -> None:
        """Adds numbers, and dicts of numbers key by key."""
        with self._lock:
            self._counters = add_counters(self._counters, counters)

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
