"""Objects with a lock that is replaced in a forked child."""

from __future__ import annotations

import os
import threading

from fastload._process._exit import LiveObjects


class Locked:
    """Base of objects whose `_lock` guards state that is consistent at any moment.

    The lock is re-entrant: a finalizer may read what the thread that it interrupts is changing.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _live.add(self)

    def after_fork(self) -> None:
        """Replaces the lock in a forked child: a thread that the child lacks may hold the old one."""
        self._lock = threading.RLock()


_live: LiveObjects[Locked] = LiveObjects()


def _renew_locks() -> None:
    for locked in _live.all():
        locked.after_fork()


os.register_at_fork(after_in_child=_renew_locks)
