"""The current directory of a worker thread: like a worker process, it keeps the program's directory from its start."""

from __future__ import annotations

import threading

from fastload import _native


class _OfThread(threading.local):
    directory: _native.WorkingDirectory | None = None


_of_thread = _OfThread()


def keep_working_directory() -> None:
    """Keeps the calling thread, one of fastload's own, in the current directory when the program changes its own.

    If the system refuses a thread a directory of its own, as containers may, native code still looks paths up in the
    directory of now, and the user's Python code has the program's.
    """
    if not _native.own_working_directory():
        _of_thread.directory = _native.WorkingDirectory()


def kept_directory() -> _native.WorkingDirectory | None:
    """Returns the directory for the calling thread's relative paths; None: its current directory."""
    return _of_thread.directory
