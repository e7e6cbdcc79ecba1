"""Imported by children of tests: exceptions that a signal's handler raises at random moments of next()."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class OwnError(Exception):
    """A program's own, of a time limit say."""


class Alarms:
    """Raises out of a handler, at random moments, while a batch is asked for.

    Not in the frame that asks: there next() has returned already, or has not been called yet.

    Attributes:
        num_raised: So many times.
    """

    def __init__(self, seed: int) -> None:
        self.num_raised = 0
        self._choose = random.Random(seed)
        self._asking: FrameType | None = None
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asking is not None and frame is not self._asking:
            self.num_raised += 1
            raise OwnError if self.num_raised % 2 else KeyboardInterrupt

    def next_of(self, iterator: Any, longest_seconds: float) -> Any:
        """The next batch, asked for again behind each exception. Raises StopIteration at the end."""
        while True:
            signal.setitimer(signal.ITIMER_REAL, self._choose.uniform(1e-5, longest_seconds))
            try:
                self._asking = sys._getframe()
                return next(iterator)
            except (OwnError, KeyboardInterrupt):
                continue
            finally:
                self._asking = None


def losses(epoch: Callable[[], Any], digest: Callable[[Any], Any], num_exceptions: int, longest_seconds: float) -> int:
    """Interrupts epochs at random moments until there were `num_exceptions`.

    Args:
        epoch: Gives an iterator; each time of the same batches.
        digest: Of a batch.
        num_exceptions: At least.
        longest_seconds: Between asking for a batch and the signal.

    Returns:
        How many batches were missing, came more than once or were different.
    """
    expected = [digest(batch) for batch in epoch()]
    alarms = Alarms(1)
    num_lost = 0
    while alarms.num_raised < num_exceptions:
        iterator, found = epoch(), []
        while True:
            try:
                found.append(digest(alarms.next_of(iterator, longest_seconds)))
            except StopIteration:
                break
        if found != expected:
            num_lost += max(abs(len(expected) - len(found)), 1)
    return num_lost
