"""The processes of workers: their ends, and what is said of a lost one.

Note [ends of workers]
A dropped iterator tells its workers to end and waits for nothing. Later iter() calls of any loader look after workers
that go on: they get SIGTERM five seconds after they were told, and SIGKILL five seconds after that. At the exit of the
interpreter they get SIGTERM at once, as from multiprocessing, and SIGKILL five seconds later.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing.process
import os
import signal
import time
import weakref
from collections.abc import Callable
from multiprocessing import connection, util
from typing import Any, cast

from fastload._iteration.processes._start import start_workers
from fastload._process._limits import MemoryLimits

# torch waits as long for its workers.
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_PAUSE_SECONDS = 0.001
# Before the pools (15) and managers (0) of the program, which workers may use.
_EXIT_PRIORITY = 100
_MOST_SHOWN = 200

_processes = cast("Any", multiprocessing.process)  # its private names have no types


class WorkerProcesses:
    """The processes of one iterator's workers. It does not keep one that has ended.

    Attributes:
        told_at: When they were told to end; empty before.
        tell: Notes that they are told to end now. A C call, which may be repeated: Note [drops].
    """

    def __init__(self) -> None:
        self.told_at: list[float] = []
        self.tell: Callable[[], None] = functools.partial(
            self.told_at.extend, itertools.starmap(time.monotonic, iter([()]))
        )
        self._terminated_at: float | None = None
        self._references: list[weakref.ref[Any]] = []  # multiprocessing keeps processes until they have ended

    @property
    def all(self) -> list[Any]:
        return [process for reference in self._references if (process := reference()) is not None]

    def start(self, processes: list[Any], roots: tuple[Any, ...]) -> None:
        """Starts processes, all or none; see start_workers(). Call it once, while signals are held."""
        follow_up_all()
        for process in processes:
            # Python code would remove it from this set when it is dropped: Note [drops]. multiprocessing needs the set
            # for its own tests.
            _processes._dangling.discard(process)
            self._references.append(weakref.ref(process))
        if not _exit:
            _exit.append(util.Finalize(None, _end_all, exitpriority=_EXIT_PRIORITY))
        self._limits = MemoryLimits()
        _groups.add(self)
        start_workers(processes, roots)

    def wait(self) -> None:
        """Waits for processes that were told to end, and terminates those that take too long."""
        wait_for(self.all, self.told_at[0] + _GRACE_SECONDS - time.monotonic())
        self.follow_up()

    def follow_up(self) -> None:
        """Sends the next signal to processes that have had enough time to end."""
        if not self.told_at:
            return
        now = time.monotonic()
        if not self.alive():
            _processes._children.difference_update(self.all)  # as join() does
            _groups.discard(self)
        elif self._terminated_at is not None:
            if now >= self._terminated_at + _GRACE_SECONDS:
                self.kill()
        elif now >= self.told_at[0] + _GRACE_SECONDS:
            self.terminate()

    def alive(self) -> list[Any]:
        return [process for process in self.all if not _has_ended(process)]

    def terminate(self) -> None:
        self._terminated_at = time.monotonic()
        for process in self.alive():
            process.terminate()

    def kill(self) -> None:
        for process in self.alive():
            process.kill()

    def loss_of(self, process: Any, last_words: str | None, item: Any) -> str:
        """Returns the message about a worker whose process has ended while it was asked for `item`."""
        text = f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly"
        code = process.exitcode
        sentences = []
        if last_words is not None:
            text += f" with {last_words}"
        elif code is not None and code < 0:
            text += f": DataLoader worker (pid {process.pid}) is killed by signal: {signal.strsignal(-code)}"
            if code == -signal.SIGKILL and (limit := self._limits.reached()) is not None:
                sentences.append(f"The memory limit of its control group, {limit >> 20} MiB, was reached")
        elif code:
            text += f" with exit code {code}"
        if item is not None:
            asked = repr(item)
            asked = asked if len(asked) < _MOST_SHOWN else asked[:_MOST_SHOWN] + "..."
            sentences.append(f"It was asked for {asked}")
        sentences.append('Fewer workers need less memory; with workers="threads" the code runs in this process')
        return ". ".join([text, *sentences])


# The workers of this process that may live.
_groups: set[WorkerProcesses] = set()
_exit: list[Any] = []


def follow_up_all() -> None:
    """Looks after workers that were told to end and go on, and waits for nothing: Note [ends of workers]."""
    for group in tuple(_groups):
        group.follow_up()


def wait_for(processes: list[Any], seconds: float) -> bool:
    """Waits until all processes have ended, at most for `seconds`. Returns whether they have."""
    deadline = time.monotonic() + seconds
    while alive := [process for process in processes if not _has_ended(process)]:
        if (left := deadline - time.monotonic()) <= 0:
            return False
        # A sentinel may stay open in a child of its process, and it may have been closed in the process.
        if connection.wait([process.sentinel for process in alive], min(_POLL_SECONDS, left)):
            time.sleep(_PAUSE_SECONDS)
    return True


def _end_all() -> None:
    groups = tuple(_groups)
    for group in groups:
        group.terminate()
    wait_for([process for group in groups for process in group.all], _GRACE_SECONDS)
    for group in groups:
        group.kill()


def _has_ended(process: Any) -> bool:
    """Returns whether a process has ended, was never started, or was closed by the program."""
    if process._popen is None or process.exitcode is not None:
        return True
    if process._popen.method == "forkserver":  # its process is another one's child
        return False
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True  # a handler of SIGCHLD has reaped it
    return False


def _forget_all() -> None:
    """Forgets the workers in a forked child of their parent. At its exit multiprocessing would terminate them."""
    for group in tuple(_groups):
        _processes._children.difference_update(group.all)
    _groups.clear()
    _exit.clear()


os.register_at_fork(after_in_child=_forget_all)
