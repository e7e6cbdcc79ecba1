"""This process as a worker of a loader in its parent, to which fastload's own warnings go."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterable

# The id of this process, if it is a worker, and the warnings that it has not sent yet.
_worker_pid: list[int] = []
_unsent: deque[str] = deque()


def warn(text: str, stacklevel: int = 1) -> None:
    """Raises a RuntimeWarning; `stacklevel` 1 is the caller. A worker keeps it for its parent, which raises it."""
    if is_worker():
        _unsent.append(text)
    else:
        warnings.warn(text, RuntimeWarning, stacklevel + 1)


def is_worker() -> bool:
    """Returns whether this process is a worker of a loader."""
    return _worker_pid == [os.getpid()]


def become_worker() -> None:
    """Notes that this process is a worker from now on, which keeps its warnings for its parent."""
    _worker_pid[:] = [os.getpid()]
    _unsent.clear()


def take_kept() -> list[str]:
    """Returns the warnings that this worker has not sent yet; call it only to send them."""
    return [_unsent.popleft() for _ in range(len(_unsent))]


class SentWarnings:
    """The warnings that a loader's workers have sent. Each text is raised once, whichever workers send it."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._known: set[str] = set()

    def note(self, texts: Iterable[str]) -> None:
        for text in texts:
            if text not in self._known:
                self._known.add(text)
                self._texts.append(text)

    def raise_all(self) -> None:
        """Raises those that have come. If the program makes them errors, the next call raises the others."""
        while self._texts:
            warn(self._texts.popleft(), stacklevel=2)
