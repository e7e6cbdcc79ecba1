"""Python threads whose start has a time limit."""

from __future__ import annotations

import _thread
import threading
import weakref
from typing import Any, cast

# A thread that the system has made, but that finds no memory for its first Python steps, never reports that it has
# begun. A thread that begins at all does so within milliseconds, or seconds on a busy machine.
BEGIN_SECONDS = 10.0
# Number of waits that share BEGIN_SECONDS; each releases the GIL. While another thread keeps the GIL, or the process is
# stopped, no thread can begin, and at most one of these waits passes.
_NUM_WAITS = 100

# Its private names have no types: _limbo has the threads between their start and their first step.
_threading = cast("Any", threading)


class StartedThread(threading.Thread):
    """A thread whose `start` does not wait forever.

    `threading.Thread.start` waits until the new thread has begun. If that dies first, for lack of memory, it waits
    without end.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._started = _Begun(self)
        # Python code would remove the thread from this set when it is dropped: Note [drops]. `threading` needs the set
        # only in a forked child, and finds threads that run in its other lists.
        _threading._dangling.discard(self)

    def start(self) -> None:
        """Starts the thread.

        Raises:
            RuntimeError: The system refuses the thread, or it has not begun after BEGIN_SECONDS.
        """
        try:
            super().start()
        except KeyError as error:
            # An interrupt came after the thread's start, and `threading` looked for a thread that had already begun.
            raise error.__context__ or error from None


class _Begun:
    """Replacement for `Thread._started`, which a thread sets as soon as it runs and for which `start` waits.

    An exception out of a signal handler leaves `threading.Event` locked if it comes while `start` acquires its lock.
    Then the thread cannot set the event, and no other thread can begin. Here the caller acquires nothing that the
    thread needs.
    """

    def __init__(self, thread: StartedThread) -> None:
        self._thread = weakref.ref(thread)
        self._is_set = False
        self._at_fork_reinit()

    def _at_fork_reinit(self) -> None:
        """Makes the lock; `threading` calls this in a forked child."""
        self._closed = _thread.allocate_lock()  # held until the thread runs
        if not self._is_set:
            self._closed.acquire()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with _threading._active_limbo_lock:
            if (thread := self._thread()) is not None:
                # The entry is missing if the start was given up, or if an interrupt came after the start and looked
                # to `threading` like a refusal. The thread begins after all, and `threading` removes the entry.
                _threading._limbo.setdefault(thread, thread)
            self._is_set = True
        self._closed.release()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return self._wait(timeout)
        if any(self._wait(BEGIN_SECONDS / _NUM_WAITS) for _ in range(_NUM_WAITS)):
            return True
        with _threading._active_limbo_lock:
            thread = self._thread()
            if self._is_set or thread is None:
                return True
            thread.run = _do_nothing  # type: ignore[method-assign]
            _threading._limbo.pop(thread, None)
        raise RuntimeError(
            f"the thread {thread.name} did not begin within {BEGIN_SECONDS:g} s; the system may have no memory for it"
        )

    def _wait(self, seconds: float) -> bool:
        """Waits, and returns whether the thread runs. Only the thread that started it calls this."""
        return self._is_set or self._closed.acquire(timeout=seconds) or self._is_set


def _do_nothing() -> None:
    return
