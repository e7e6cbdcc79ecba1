"""The current directory of a worker thread: the program's when the thread was started, as a worker process has it."""

from __future__ import annotations

import threading

from fastload import _native


class _OfThread(threading.local):
    directory: _native.WorkingDirectory | None = None


_of_thread = _OfThread()


def keep_working_directory() -> None:
    """Called by a thread of fastload's own: what the program makes its current directory later is not the thread's.

    Where the system refuses a thread a directory of its own, as containers may, native code keeps that of now, and the
    user's Python has the program's.
    """
    if not _native.own_working_directory():
        _of_thread.directory = _native.WorkingDirectory()


def kept_directory() -> _native.WorkingDirectory | None:
    """Where the calling thread has to look relative paths up; None: in its current directory."""
    return _of_thread.directory
