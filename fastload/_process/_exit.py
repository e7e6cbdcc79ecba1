"""Exit of the interpreter: Python threads that wait or iterate end before it is torn down."""

from __future__ import annotations

import atexit
import functools
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
    """Weakly referenced objects, compared by identity whatever their ``==``.

    Thread-safe without a lock, so finalizers and forked children may use it. A WeakSet is not: one thread cannot
    iterate over it while another adds.
    """

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[T]] = {}

    def add(self, item: T) -> None:
        """Adds an object, or makes it the last one."""
        number, references = id(item), self._references
        references.pop(number, None)
        references[number] = weakref.ref(item, functools.partial(references.pop, number))  # Note [drops]

    def all(self) -> list[T]:
        """Returns the objects that are alive now, in the order in which they were added."""
        references = self._references.copy().values()  # in one step
        return [item for reference in references if (item := reference()) is not None]


class DaemonThread(StartedThread):
    """A daemon thread that is told to end, and joined, before the interpreter is torn down.

    A non-daemon thread would keep the process alive. A daemon thread that wakes from a native wait after the teardown
    would abort the process.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)

    def start(self) -> None:
        _register_exit_hook()
        _live_threads.add(self)
        super().start()

    @abstractmethod
    def signal_end(self) -> None:
        """Asks the thread to end. Does not wait; may be called repeatedly and from any thread or finalizer."""


class ThreadStartError(RuntimeError):
    """The system refuses a thread."""


def start_threads(threads: Sequence[threading.Thread]) -> None:
    """Starts `threads`. Raises ThreadStartError if one is refused; those before it run, and their owner ends them."""
    for number, thread in enumerate(threads, 1):
        try:
            thread.start()
        except RuntimeError as error:
            raise ThreadStartError(
                f"cannot start Python thread {number} of {len(threads)}: {error}. Lower num_workers or raise the limit "
                "on processes (ulimit -u)."
            ) from error


def join_threads(threads: Sequence[threading.Thread], timeout_seconds: float) -> bool:
    """Waits for `threads`, except the calling one; returns whether all have ended. Never call it from a finalizer."""
    deadline = time.monotonic() + timeout_seconds
    for thread in threads:
        if thread.is_alive() and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


class ExitState:
    """Knows that the interpreter is about to exit, and then puts other iterating threads to sleep.

    The end of the process would stop a daemon thread a moment later anyway, but in the wrong place: Python before 3.14
    unwinds a thread that asks for the GIL too late, and if that happens inside a torch operator, the process ends with
    "terminate called". The thread would also print the LoaderClosedError that it gets.
    """

    # How long the exit waits for those threads to leave their last operators and reach a place where they can sleep.
    GRACE_SECONDS = 0.05

    def __init__(self) -> None:
        self._has_begun = False
        self._has_other_threads = False

    def watch(self) -> None:
        _register_exit_hook()

    def begin(self) -> None:
        """Starts the exit. The interpreter's exit calls it before anything is ended."""
        self._has_begun = True
        if self._has_other_threads:
            time.sleep(self.GRACE_SECONDS)

    def sleep_if_begun(self) -> None:
        """Sleeps forever in an iterating thread. The main thread goes on: other exit handlers may iterate."""
        if threading.current_thread() is threading.main_thread():
            return
        self._has_other_threads = True
        if self._has_begun:
            threading.Event().wait()


exit_state = ExitState()

_live_threads: LiveObjects[DaemonThread] = LiveObjects()
_exit_hook = threading.Lock()


def _register_exit_hook() -> None:
    # Acquired once and never released.
    if _exit_hook.acquire(blocking=False):
        atexit.register(_exit)


def _exit() -> None:
    """Puts iterating threads to sleep, then ends every daemon thread. A forked child has none of its parent's."""
    exit_state.begin()
    threads = [thread for thread in _live_threads.all() if thread.is_alive()]
    for thread in threads:
        thread.signal_end()
    join_threads(threads, EXIT_JOIN_SECONDS)
