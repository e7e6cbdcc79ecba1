"""The connections between a loader's process and its workers, of which each process keeps only its own ends.

Otherwise neither a worker nor the loader's process would see that the other one is gone: a socket ends when the last
copy of its other end is closed.
"""

from __future__ import annotations

import os
from multiprocessing import reduction
from typing import Any

from fastload import _native
from fastload._process._exit import LiveObjects

# The ends of this process, and the workers' ends until the workers have them.
_sockets: LiveObjects[_native.MessageSocket] = LiveObjects()
_given: LiveObjects[_native.MessageSocket] = LiveObjects()


class WorkerEnd:
    """The worker's end of a connection, which a process may be given, forked or spawned.

    Attributes:
        socket: The end.
    """

    def __init__(self, socket: _native.MessageSocket) -> None:
        self.socket = socket

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_duplicate, (reduction.DupFd(self.socket.descriptor),)

    def keep_only(self) -> None:
        """Makes it the end of this process, a worker, and closes the other workers' ends if it was forked."""
        _sockets.add(self.socket)
        for other in _given.all():
            if other is not self.socket:
                other.close()


def _from_duplicate(duplicate: Any) -> WorkerEnd:
    return WorkerEnd(_native.MessageSocket(duplicate.detach()))


def new_connection() -> tuple[_native.MessageSocket, WorkerEnd]:
    """Returns the loader's end and the worker's end. Raises OSError."""
    ours, theirs = _native.new_sockets()
    _given.add(theirs)
    _sockets.add(ours)
    return ours, WorkerEnd(theirs)


def _close_sockets() -> None:
    for each in _sockets.all():
        each.close()


os.register_at_fork(after_in_child=_close_sockets)
