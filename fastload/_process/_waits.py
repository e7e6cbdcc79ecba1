"""How long the consumer of a loader waited for each of its batches, as a histogram.

Note [wait intervals]
A power of two of nanoseconds is divided into 16 intervals of equal width, each known by its lower end, so that a wait
needs no logarithm, and histograms of any loaders and times can be added and subtracted. What is read from one, at the
middle of an interval, is within 1/32 of the wait itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastload._process._locked import Locked

_INTERVAL_BITS = 4  # 16 intervals in a power of two


def interval_of(nanoseconds: int) -> int:
    """Lower end of the interval that a wait is in."""
    shift = max(0, nanoseconds.bit_length() - _INTERVAL_BITS - 1)
    return nanoseconds >> shift << shift


def middle_seconds(interval: int) -> float:
    """The middle of the interval with this lower end; below 32 ns, where an interval is one number, that number."""
    shift = max(0, interval.bit_length() - _INTERVAL_BITS - 1)
    return (interval + (1 << shift) / 2 if shift else interval) / 1e9


def quantile_seconds(counts: Mapping[int, int], share: float) -> float:
    """The wait that `share` of the batches did not exceed; 0.0 of none."""
    needed = share * sum(counts.values())
    seen = 0
    found = 0
    for interval in sorted(counts):
        if counts[interval] > 0:
            found, seen = interval, seen + counts[interval]
            if seen >= needed:
                break
    return middle_seconds(found)


class WaitHistogram(Locked):
    """The waits of a loader's consumers, since it was made. Thread-safe; adding one takes well below 1 us."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[int, int] = {}
        self._total_nanoseconds = 0

    def add(self, nanoseconds: int) -> None:
        """Counts one batch."""
        interval = interval_of(nanoseconds)
        with self._lock:
            self._counts[interval] = self._counts.get(interval, 0) + 1
            self._total_nanoseconds += nanoseconds

    def stats(self) -> dict[str, Any]:
        """By the names of LoaderStats."""
        with self._lock:
            return {"wait_counts": dict(self._counts), "consumer_wait_seconds": self._total_nanoseconds / 1e9}
