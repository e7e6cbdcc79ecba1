"""Threads of Python whose start has a limit."""

from __future__ import annotations

import _thread
import contextlib
import threading
import weakref
from typing import Any

# A thread that the system has made, but that finds no memory for its first steps in Python, never says that it has
# begun. One that begins at all does so in milliseconds, on a busy machine in seconds.
BEGIN_SECONDS = 10.0
# In so many parts, each of which lets go of the GIL: while another thread keeps that, or the process is stopped, none
# can begin, and one part at most passes.
_NUM_WAITS = 100


class StartedThread(threading.Thread):
    """A thread whose `start` does not wait for ever.

    `threading.Thread.start` waits until the new thread has begun. Where that ends first, for want of memory, it waits
    without end.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._started = _Begun(self)

    def start(self) -> None:
        """Raises RuntimeError where the system refuses the thread, or it has not begun after BEGIN_SECONDS."""
        try:
            super().start()
        except KeyError as error:
            # An interrupt came behind the thread's start, and `threading` looked for a thread that has begun already.
            raise error.__context__ or error from None


class _Begun:
    """In the place of `Thread._started`, which a thread sets as soon as it runs and `start` waits for.

    An exception out of a signal's handler leaves `threading.Event` locked where it comes while `start` takes its lock.
    The thread could not set it then, nor any other thread begin. Here the caller takes nothing that the thread needs.
    """

    def __init__(self, thread: StartedThread) -> None:
        self._thread = weakref.ref(thread)
        self._is_set = False
        self._at_fork_reinit()

    def _at_fork_reinit(self) -> None:
        """Called by `threading` in a child that was forked."""
        self._closed = _thread.allocate_lock()  # held until the thread runs
        if not self._is_set:
            self._closed.acquire()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with _lock():
            if (thread := self._thread()) is not None:
                # Taken out where it was given up, or where an interrupt came behind its start and looked to
                # `threading` like a refusal. It begins after all, and is taken out again by `threading`.
                _not_yet_begun().setdefault(thread, thread)
            self._is_set = True
        self._closed.release()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return self._wait(timeout)
        if any(self._wait(BEGIN_SECONDS / _NUM_WAITS) for _ in range(_NUM_WAITS)):
            return True
        with _lock():
            thread = self._thread()
            if self._is_set or thread is None:
                return True
            thread.run = _do_nothing  # type: ignore[method-assign]
            _not_yet_begun().pop(thread, None)
        raise RuntimeError(
            f"the thread {thread.name} did not begin within {BEGIN_SECONDS:g} s; the system may have no memory for it"
        )

    def _wait(self, seconds: float) -> bool:
        """Whether the thread runs; only the thread that started it waits."""
        return self._is_set or self._closed.acquire(timeout=seconds) or self._is_set


def _lock() -> contextlib.AbstractContextManager[object]:
    """Of `threading`'s own lists of threads; a fork makes it anew."""
    lock: contextlib.AbstractContextManager[object] = threading._active_limbo_lock  # type: ignore[attr-defined]
    return lock


def _not_yet_begun() -> dict[threading.Thread, threading.Thread]:
    """Threads between their start and their first step, which `threading.enumerate` names; under the lock."""
    limbo: dict[threading.Thread, threading.Thread] = threading._limbo  # type: ignore[attr-defined]
    return limbo


def _do_nothing() -> None:
    return
