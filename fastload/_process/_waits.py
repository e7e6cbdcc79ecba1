"""How long a loader's consumer waited for its batches, as a histogram, and how long it was busy between them.

Note [wait intervals]
Each power of two of nanoseconds has 16 intervals of equal width, named by their lower end. So recording a wait needs no
logarithm, and histograms of any loaders and times can be added and subtracted. A value read from a histogram is the
middle of an interval, within 1/32 of the wait itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fastload._process._locked import Locked

_INTERVAL_BITS = 4  # 16 intervals in a power of two


def interval_of(nanoseconds: int) -> int:
    """Returns the lower end of the interval that contains the wait."""
    shift = max(0, nanoseconds.bit_length() - _INTERVAL_BITS - 1)
    return nanoseconds >> shift << shift


def middle_seconds(interval: int) -> float:
    """Returns the middle of the interval with this lower end; below 32 ns an interval is one number, returned as is."""
    shift = max(0, interval.bit_length() - _INTERVAL_BITS - 1)
    return (interval + (1 << shift) / 2 if shift else interval) / 1e9


def quantile_seconds(counts: Mapping[int, int], share: float) -> float:
    """Returns the wait that `share` of the batches did not exceed; 0.0 without batches."""
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
    """The waits of one loader's consumers since it was made. Thread-safe; adding a wait takes well below 1 us."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[int, int] = {}
        self._waited_nanoseconds = 0
        self._busy_nanoseconds = 0

    def add(self, nanoseconds: int) -> None:
        """Counts one batch that was waited for this long."""
        interval = interval_of(nanoseconds)
        with self._lock:
            self._counts[interval] = self._counts.get(interval, 0) + 1
            self._waited_nanoseconds += nanoseconds

    def add_busy(self, nanoseconds: int) -> None:
        """Adds the time between the delivery of a batch and the request for the next one."""
        with self._lock:
            self._busy_nanoseconds += nanoseconds

    def stats(self) -> dict[str, Any]:
        """Returns the counters by their names in LoaderStats."""
        with self._lock:
            return {
                "wait_counts": dict(self._counts),
                "consumer_wait_seconds": self._waited_nanoseconds / 1e9,
                "consumer_busy_seconds": self._busy_nanoseconds / 1e9,
            }


class ConsumerClock:
    """Measures one iterator's waits for its loader's histogram."""

    def __init__(self, waits: WaitHistogram) -> None:
        self._waits = waits
        self._asked = 0
        self._given: int | None = None

    def begin_epoch(self) -> None:
        """Drops the last delivery: the time before an epoch's first request does not lie between two batches."""
        self._given = None

    def ask(self) -> None:
        """Starts a wait; called again after an interrupt, it starts the wait anew."""
        self._asked = time.perf_counter_ns()
        given, self._given = self._given, None
        if given is not None:
            self._waits.add_busy(self._asked - given)

    def give(self) -> None:
        self._given = time.perf_counter_ns()
        self._waits.add(self._given - self._asked)
