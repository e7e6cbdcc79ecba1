"""Changes of the process that last while something holds them."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType


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

    def held(self) -> AbstractContextManager[None]:
        return _Held(self)

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


class _Held(AbstractContextManager[None]):
    def __init__(self, change: HeldChange) -> None:
        self._change = change

    def __enter__(self) -> None:
        self._generation = self._change.hold()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._change.release(self._generation)
