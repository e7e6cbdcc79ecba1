"""Changes of the process that last while something holds them."""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator


class HeldChange(ABC):
    """A change that the first holder makes and the last one to let go undoes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._count = 0
        self._generation = 0
        self._knows_forks = False

    @abstractmethod
    def make(self) -> None:
        """Makes the change. May raise; then nothing is held, and undo() is called."""

    @abstractmethod
    def undo(self) -> None:
        """Undoes the change. Has no effect if there is nothing to undo."""

    @abstractmethod
    def num_in_child(self) -> int:
        """Returns the number of holders in a forked child, in which only the calling thread goes on."""

    def hold(self) -> int:
        """Holds the change, and returns the argument that release() takes."""
        with self._lock:
            if self._count == 0:
                self._watch_forks()
                try:
                    self.make()
                except BaseException:
                    self.undo()
                    raise
            self._count += 1
            return self._generation

    def release(self, generation: int) -> None:
        with self._lock:
            if generation != self._generation:  # held in the process that this one was forked from
                return
            self._count -= 1
            if self._count == 0:
                self.undo()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        generation = self.hold()
        try:
            yield
        finally:
            self.release(generation)

    def _watch_forks(self) -> None:
        if self._knows_forks:
            return
        os.register_at_fork(
            before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._after_fork_in_child
        )
        self._knows_forks = True

    def _after_fork_in_child(self) -> None:
        self._lock.release()
        if self._count == 0:
            return
        self._count = self.num_in_child()
        if self._count == 0:
            self._generation += 1
            self.undo()
