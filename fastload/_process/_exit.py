"""Exit of the interpreter: threads of Python that wait or iterate end before it is torn down."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from fastload._process._started_thread import StartedThread

T = TypeVar("T")

EXIT_JOIN_SECONDS = 1.0


class LiveObjects(Generic[T]):
    """Objects as long as they live; knows them by identity, whatever their ``==``.

    Thread-safe without a lock, so that finalizers may use it and a forked child finds it usable. A WeakSet is not: one
    thread cannot look through it while another adds.
    """

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[T]] = {}

    def add(self, item: T) -> None:
        number, references = id(item), self._references
        references[number] = weakref.ref(item, lambda _: references.pop(number, None))

    def all(self) -> list[T]:
        """Those that live now."""
        references = self._references.copy().values()  # in one step
        return [item for reference in references if (item := reference()) is not None]


class DaemonThread(StartedThread):
    """A daemon thread that is told to end, and waited for, before the interpreter is torn down.

    A thread that is none would keep the process alive, and a daemon one that wakes from a native wait after that would
    abort it.

    Args:
        name: As debuggers show it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)

    def start(self) -> None:
        _register_exit_hook()
        _live_threads.add(self)
        super().start()

    @abstractmethod
    def signal_end(self) -> None:
        """Ask the thread to end; waits for nothing, may be called again and from any thread or finalizer."""


class ThreadStartError(RuntimeError):
    """The system refuses a thread."""


def start_threads(threads: Sequence[threading.Thread]) -> None:
    """Starts `threads`.

    Raises:
        ThreadStartError: The system refuses one. Those before it run: whoever owns them ends them.
    """
    for number, thread in enumerate(threads, 1):
        try:
            thread.start()
        except RuntimeError as error:
            raise ThreadStartError(
                f"cannot start Python thread {number} of {len(threads)}: {error}. Lower num_workers or raise the limit "
                "on processes (ulimit -u)."
            ) from error


def join_threads(threads: Sequence[threading.Thread], timeout_seconds: float) -> bool:
    """Wait for `threads`, but not for the calling one; never call it from a finalizer.

    Returns:
        Whether all of them have ended, or were never started.
    """
    deadline = time.monotonic() + timeout_seconds
    for thread in threads:
        if thread.is_alive() and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


class ExitState:
    """Knows that the interpreter is about to exit, and puts other threads that iterate to sleep then.

    The end of the process would do the same to a daemon thread a moment later, but in the wrong place: Python before
    3.14 unwinds a thread that asks for the GIL too late, and a process ends with "terminate called" where that happens
    inside of a torch operator. Besides, the thread would print the LoaderClosedError that it gets.
    """

    # How long exiting waits for those threads to come from their last operators to a place where they can sleep.
    GRACE_SECONDS = 0.05

    def __init__(self) -> None:
        self._has_begun = False
        self._has_other_threads = False

    def watch(self) -> None:
        _register_exit_hook()

    def begin(self) -> None:
        """Called when the interpreter exits, before anything is ended."""
        self._has_begun = True
        if self._has_other_threads:
            time.sleep(self.GRACE_SECONDS)

    def sleep_if_begun(self) -> None:
        """Called where a thread iterates. The main thread goes on: other exit handlers may iterate."""
        if threading.current_thread() is threading.main_thread():
            return
        self._has_other_threads = True
        if self._has_begun:
            threading.Event().wait()


exit_state = ExitState()

_live_threads: LiveObjects[DaemonThread] = LiveObjects()
_exit_hook = threading.Lock()


def _register_exit_hook() -> None:
    # Taken once and never released.
    if _exit_hook.acquire(blocking=False):
        atexit.register(_exit)


def _exit() -> None:
    """Put those that iterate to sleep, then end every daemon thread. In a forked child the parent's are not alive."""
    exit_state.begin()
    threads = [thread for thread in _live_threads.all() if thread.is_alive()]
    for thread in threads:
        thread.signal_end()
    join_threads(threads, EXIT_JOIN_SECONDS)
