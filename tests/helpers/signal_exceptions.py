"""Imported by children of tests: exceptions that a signal's handler raises at random moments of iter() and next()."""

from __future__ import annotations

import functools
import random
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class OwnError(TimeoutError):
    """A program's own, of a time limit say."""


class Alarms:
    """Raises from a signal handler at random moments of an action.

    It does not raise in the frame that calls the action: there the action has returned, or has not been called yet.

    Attributes:
        num_raised: The number of exceptions so far.
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

    def done(self, action: Callable[[], Any], longest_seconds: float, drop: Callable[[], None] = lambda: None) -> Any:
        """Returns the result of `action`, after `drop` and another try for each exception. May raise StopIteration.

        Each signal may come a tenth later than the one before, so that an action that begins anew also ends on a slow
        machine.
        """
        while True:
            signal.setitimer(signal.ITIMER_REAL, self._choose.uniform(1e-5, longest_seconds))
            try:
                self._asking = sys._getframe()
                return action()
            except (OwnError, KeyboardInterrupt):
                drop()
                longest_seconds *= 1.1
            finally:
                self._asking = None


def losses(
    begin: Callable[[int], Any],
    digest: Callable[[Any], Any],
    num_exceptions: int,
    longest_seconds: float,
    *,
    num_epochs: int = 1,
    seed: int = 1,
    drop: Callable[[], None] = lambda: None,
) -> int:
    """Interrupts epochs at random moments until there were `num_exceptions`.

    Args:
        begin: Returns an iterator over epoch 0, each time with the same batches, or over the next epoch. For epoch 0 it
            is interrupted, too.
        digest: Returns a digest of a batch.
        num_exceptions: The least number of exceptions.
        longest_seconds: The longest time between asking for a batch and the signal.
        num_epochs: The number of epochs, one after the other.
        seed: The seed of the moments.
        drop: Called before epoch 0 begins, when no signal comes; releases the remains of earlier epochs. Python calls
            finalizers then. An exception that a handler raises in a finalizer is lost, and so is the finalizer's
            remaining work.

    Returns:
        The number of batches that were missing, came more than once or were different.
    """
    expected = [digest(batch) for number in range(num_epochs) for batch in begin(number)]
    alarms = Alarms(seed)
    num_lost = 0
    while alarms.num_raised < num_exceptions:
        found, iterator = [], None
        drop()
        for number in range(num_epochs):
            iterator = begin(number) if number else alarms.done(functools.partial(begin, 0), longest_seconds, drop)
            while True:
                try:
                    found.append(digest(alarms.done(functools.partial(next, iterator), longest_seconds)))
                except StopIteration:
                    break
        if found != expected:
            num_lost += max(abs(len(expected) - len(found)), 1)
    return num_lost
