"""Delays forks until a child would find nothing open or half done."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Protocol

from fastload._process._exit import LiveObjects

_LONGEST_SECONDS = 1.0


class ClosedForForks(Protocol):
    """An object that is closed before the process forks."""

    def before_fork(self) -> None:
        """Closes it. It is called when no thread is in a block; the next user opens the object again."""


class Forks:
    """Keeps forks away from blocks of code, and has objects closed before a fork. Thread-safe."""

    def __init__(self) -> None:
        self._closed: LiveObjects[ClosedForForks] = LiveObjects()
        self._begin()
        os.register_at_fork(before=self._wait, after_in_parent=self._go_on, after_in_child=self._begin)

    def add(self, closed: ClosedForForks) -> None:
        """Registers an object to be closed before each fork as long as it lives."""
        self._closed.add(closed)

    @contextlib.contextmanager
    def kept_away(self) -> Iterator[None]:
        """Marks a block that a fork waits for."""
        changed = self._changed
        with changed:
            changed.wait_for(lambda: not self._is_forking)
            self._num_inside += 1
        try:
            yield
        finally:
            with changed:
                self._num_inside -= 1
                changed.notify_all()

    def _begin(self) -> None:
        """Sets up a process with no thread in a block; also called in a child."""
        self._changed = threading.Condition()
        self._num_inside = 0
        self._is_forking = False

    def _wait(self) -> None:
        """Waits until no thread is in a block, but not for ever, because a thread may wait for the disk."""
        with self._changed:
            self._is_forking = True
            self._changed.wait_for(lambda: self._num_inside == 0, _LONGEST_SECONDS)
        for closed in self._closed.all():
            closed.before_fork()

    def _go_on(self) -> None:
        with self._changed:
            self._is_forking = False
            self._changed.notify_all()


forks = Forks()
