"""Objects with a lock that a forked child has anew."""

from __future__ import annotations

import os
import threading

from fastload._process._exit import LiveObjects


class Locked:
    """Base of objects whose `_lock` guards what is whole at any moment.

    Re-entrant: a finalizer may ask for what the thread that it interrupts is changing.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _live.add(self)

    def after_fork(self) -> None:
        """In a child: a thread that has not come along may hold the lock."""
        self._lock = threading.RLock()


_live: LiveObjects[Locked] = LiveObjects()


def _renew_locks() -> None:
    for locked in _live.all():
        locked.after_fork()


os.register_at_fork(after_in_child=_renew_locks)
