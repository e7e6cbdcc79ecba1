"""The connections between a loader's process and its workers, of which each process keeps only its own ends.

Otherwise neither a worker nor the loader's process would see that the other one is gone: a socket ends when the last
copy of its other end is closed.
"""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Any

from fastload import _native
from fastload._process._exit import LiveObjects

# The loaders' ends, and the workers' ends until the workers have them.
_sockets: LiveObjects[_native.MessageSocket] = LiveObjects()
_given: LiveObjects[Connection] = LiveObjects()


def new_connection(context: Any) -> tuple[_native.MessageSocket, Connection]:
    """Returns the loader's end and the worker's end. Raises OSError."""
    ours, theirs = context.Pipe()
    with ours:
        socket = socket_of(ours)
    _sockets.add(socket)
    _given.add(theirs)
    return socket, theirs


def socket_of(connection: Connection) -> _native.MessageSocket:
    """Returns a socket with a descriptor of its own."""
    return _native.MessageSocket(os.dup(connection.fileno()))


def keep_only(connection: Connection) -> None:
    """Closes the other workers' ends in a worker that was forked."""
    for other in _given.all():
        if other is not connection:
            other.close()


def _close_sockets() -> None:
    for socket in _sockets.all():
        socket.close()


os.register_at_fork(after_in_child=_close_sockets)
