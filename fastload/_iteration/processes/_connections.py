"""The connections of a loader's process and its workers, and the byte that tells the workers to end.

Each process keeps only its own ends of connections. Otherwise neither a worker nor the loader's process would see that
the other one is gone: a socket ends when the last copy of its other end is closed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

from fastload import _native
from fastload._process._exit import LiveObjects

# The ends of this process, and the workers' ends until the workers have them.
_sockets: LiveObjects[_native.MessageSocket] = LiveObjects()
_given: LiveObjects[_native.MessageSocket] = LiveObjects()


def new_connection() -> tuple[_native.MessageSocket, _native.MessageSocket]:
    """Returns the loader's end and the worker's end. Raises OSError."""
    ours, theirs = _native.new_sockets()
    _given.add(theirs)
    _sockets.add(ours)
    return ours, theirs


def keep_only(socket: _native.MessageSocket) -> None:
    """Makes it the end of this process, a worker, and closes the other workers' ends if it was forked."""
    _sockets.add(socket)
    for other in _given.all():
        if other is not socket:
            other.close()


def _from_duplicate(duplicate: Any) -> _native.MessageSocket:
    return _native.MessageSocket(duplicate.detach())


# Spawned processes are given their ends.
reduction.register(_native.MessageSocket, lambda socket: (_from_duplicate, (reduction.DupFd(socket.descriptor),)))


def _close_sockets() -> None:
    for each in _sockets.all():
        each.close()


os.register_at_fork(after_in_child=_close_sockets)


class EndFlag:
    """A byte that a process may be given, forked or spawned: not 0 once the workers were told to end.

    Unlike multiprocessing's shared values, it runs no Python code when it is dropped: Note [drops].

    `descriptor` is the byte's file; None: forked processes inherit the memory. Raises OSError if there is no memory.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self.byte = mmap.mmap(-1 if descriptor is None else descriptor, 1)

    def __reduce__(self) -> tuple[Any, ...]:
        assert self._descriptor is not None, "forked processes inherit the memory"
        return _flag_from_duplicate, (reduction.DupFd(self._descriptor),)

    def close_descriptor(self) -> None:
        """Closes the descriptor once all processes have the flag."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _flag_from_duplicate(duplicate: Any) -> EndFlag:
    descriptor = duplicate.detach()
    try:
        flag = EndFlag(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    flag.close_descriptor()
    return flag


def new_flag(*, is_forked: bool) -> EndFlag:
    """Returns a flag for processes that are forked, or spawned. Raises OSError."""
    if is_forked:
        return EndFlag(None)
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"\0")  # takes the space now, because writing to a mapping of a full disk ends the process
        return EndFlag(os.dup(file.fileno()))
