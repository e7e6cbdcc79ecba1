"""The threads that make samples, so that each sample is made once in a process.

Note [made once]
The first thread that asks for a sample makes it, and the others that ask for the same sample wait. A thread that makes
a sample waits for no other: a data set may ask its own cache for other samples, and two threads that wait for each
other would wait for ever. So a sample may be made twice there. Processes do not wait for each other at all: two of them
that need a sample of one file at the same time both make it, and the second row replaces the first, which is equal.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from fastload._process._locked import Locked


class Turns(Locked):
    """The samples that the threads of this process make just now. Thread-safe; a forked child begins with none."""

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def after_fork(self) -> None:
        super().after_fork()
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition(self._lock)
        self._in_progress: dict[object, tuple[bytes, int]] = {}  # by turn: key and thread

    @contextlib.contextmanager
    def turn(self, key: bytes) -> Iterator[None]:
        """Marks the sample `key` as made by the calling thread; see Note [made once] for when it waits."""
        turn, thread = object(), threading.get_ident()
        try:
            with self._changed:
                if all(maker != thread for _, maker in self._in_progress.values()):
                    self._changed.wait_for(lambda: all(made != key for made, _ in self._in_progress.values()))
                self._in_progress[turn] = key, thread
            yield
        finally:
            with self._changed:
                self._in_progress.pop(turn, None)  # a child that was forked meanwhile has none
                self._changed.notify_all()
