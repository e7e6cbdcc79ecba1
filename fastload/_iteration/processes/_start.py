"""Starts worker processes, together where they can share the data set's Python objects: Note [maker].

A process that is started together with others behaves as after ``Process.start()``: this module does in the parent and
in the child what the ``Popen`` of multiprocessing's fork start method does.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import posix
import signal
import types
import warnings
from collections.abc import Iterable, Sequence
from multiprocessing import context, popen_fork, util
from multiprocessing import process as process_module
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn, cast

from fastload._native import CallsAtDrop, estimate_objects, fork_workers, sharing_obstacle

# With fewer objects that can be shared it costs more than it saves.
MIN_SHARED_OBJECTS = 500_000

_util = cast("Any", util)  # its private names have no types
_processes = cast("Any", process_module)
# Whether a child runs the exit functions that were registered in it: from Python 3.13 on.
_RUNS_EXIT_FUNCTIONS = hasattr(popen_fork, "atexit")
_FORKED_CLASSES = (context.ForkProcess, context.Process)


def start_workers(processes: Sequence[BaseProcess], roots: tuple[Any, ...]) -> None:
    """Starts processes of one class, all or none. Warns if they copy the objects below `roots` that they were to share.

    Raises:
        OSError: The system refuses a process or a descriptor. Also raises what ``Process.start()`` raises.
    """
    is_shared = len(processes) > 1 and _obstacle_of(map(type, processes)) is None and _is_worth_it(roots)
    failure = _start_together(processes, roots) if is_shared else None
    if failure is not None:
        warnings.warn(
            f"each worker process will copy the Python objects that it reads, about {copied_mib(roots)} MiB, because "
            f"they could not be shared ({failure}). If memory is short, use fewer workers, or workers='threads'",
            RuntimeWarning,
            stacklevel=2,
        )
    if failure is not None or not is_shared:
        _start_each(processes)


def why_not_shared(roots: tuple[Any, ...], num_workers: int, context: Any) -> str | None:
    """Returns why worker processes would copy the Python objects below `roots` that they read, as a clause.

    None means that they share them, or that there is little to share. `context` is the multiprocessing context that
    starts them, or None for the program's.
    """
    if num_workers == 0 or not _is_worth_it(roots):
        return None
    if num_workers == 1:
        return "a single worker has nothing to share them with"
    return _obstacle_of([getattr(context, "Process", multiprocessing.Process)])


def copied_mib(roots: tuple[Any, ...]) -> int:
    """Estimates how many MiB each worker process copies when it reads all objects below `roots` and shares none."""
    return max(1, int(estimate_objects(roots)[1]) >> 20)


def _is_worth_it(roots: tuple[Any, ...]) -> bool:
    return estimate_objects(roots)[0] >= MIN_SHARED_OBJECTS


def _obstacle_of(classes: Iterable[type]) -> str | None:
    """Returns why processes of these classes cannot share objects, as a clause; None if they can."""
    if (obstacle := sharing_obstacle()) is not None:
        return obstacle
    if os.fork is not posix.fork or not isinstance(os.fork, types.BuiltinFunctionType):
        return "os.fork is replaced, as gevent and debuggers do"
    for one in classes:
        if one not in _FORKED_CLASSES:
            return f"only processes of multiprocessing's fork context can share them, not {one.__qualname__}"
        if one is context.Process and (method := _start_method()) != "fork":
            return f"the start method is {method!r}, and only forked processes can share them"
    return None


def _start_method() -> str:
    """Returns the program's start method without fixing the default, as multiprocessing.get_start_method() does."""
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _start_each(processes: Sequence[BaseProcess]) -> None:
    started: list[BaseProcess] = []
    try:
        for process in processes:
            if _is_forked(process) and "_Popen" not in vars(process):
                process._Popen = _ForkPopen  # type: ignore[attr-defined]
            process.start()
            started.append(process)
            _close_at_drop(cast("Any", process)._popen)
    except BaseException:
        for process in started:
            process.kill()
        for process in started:
            process.join()
        raise


def _is_forked(process: BaseProcess) -> bool:
    return type(process) in _FORKED_CLASSES and (type(process) is not context.Process or _start_method() == "fork")


def _close_at_drop(popen: Any) -> None:
    """Makes C calls close the descriptors of a dropped process, instead of Python code: Note [drops]."""
    finalizer = getattr(popen, "finalizer", None)
    if finalizer is not None and finalizer._callback is _util.close_fds:
        popen.descriptors = _closing(finalizer._args)
        finalizer.cancel()
        popen.finalizer = None


def _closing(descriptors: Iterable[int]) -> CallsAtDrop:
    return CallsAtDrop(tuple(functools.partial(os.close, one) for one in descriptors))


class _TogetherPopen(popen_fork.Popen):
    """The handle of a process that was started together with others.

    `sentinel` is a descriptor that becomes readable when the process ends. The process's parent_process() counts as
    ended once the descriptor `lifeline` is closed.
    """

    def __init__(self, pid: int, sentinel: int, lifeline: int) -> None:  # without Popen's own, which forks
        self.returncode = None
        self.finalizer = None
        self._set(pid, sentinel, lifeline)

    def _set(self, pid: int, sentinel: int, lifeline: int) -> None:
        self.pid = pid
        self.sentinel = sentinel
        self.descriptors = _closing((sentinel, lifeline))


class _ForkPopen(_TogetherPopen):
    """The handle of a process that is forked alone. Unlike multiprocessing's, a failed fork leaves no descriptor."""

    __init__ = popen_fork.Popen.__init__

    def _launch(self, process: Any) -> None:
        ends: list[int] = []
        try:
            ends += os.pipe()
            ends += os.pipe()
            pid = os.fork()
        except BaseException:
            for end in ends:
                os.close(end)
            raise
        sentinel, child_sentinel, child_lifeline, lifeline = ends
        if pid == 0:
            _run_process(process, child_lifeline, (sentinel, lifeline))
        os.close(child_sentinel)
        os.close(child_lifeline)
        self._set(pid, sentinel, lifeline)


def _start_together(processes: Sequence[BaseProcess], roots: tuple[Any, ...]) -> str | None:
    """Starts the processes so that they share objects; returns why that failed, as a clause, with none started."""
    for process in cast("Sequence[Any]", processes):
        process._check_closed()
        assert process._popen is None, "cannot start a process twice"
        assert process._parent_pid == os.getpid(), "can only start a process object created by current process"
    daemonic = multiprocessing.current_process().daemon
    assert not daemonic, "daemonic processes are not allowed to have children"
    _processes._cleanup()
    _util._flush_std_streams()
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    started = fork_workers(roots, len(processes))
    if isinstance(started, tuple):
        number, parent_sentinel = started
        _run_worker(processes, number, parent_sentinel, signals)
    if isinstance(started, str):
        return started
    for process, handle in zip(cast("Sequence[Any]", processes), started, strict=True):
        process._popen = _TogetherPopen(*handle)
        process._sentinel = process._popen.sentinel
        del process._target, process._args, process._kwargs
        _processes._children.add(process)
    return None


def _run_worker(
    processes: Sequence[BaseProcess], number: int, parent_sentinel: int, signals: Iterable[int]
) -> NoReturn:
    """Runs process `number` of those started together in the child that was forked for it, and ends the child.

    All signals are blocked at the call, and only `signals` from then on.
    """
    try:
        # Signals may have come meanwhile. The program's handlers must not run here, and Ctrl-C is for the parent.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        own: Any = processes[number]
        for other in cast("Sequence[Any]", processes):
            if other is not own:
                del other._target, other._args, other._kwargs
        _run_process(own, parent_sentinel, ())
    finally:
        os._exit(1)


def _run_process(process: Any, parent_sentinel: int, of_parent: Iterable[int]) -> NoReturn:
    """Runs a process in the child that was forked for it, and ends the child.

    The descriptor `parent_sentinel` becomes readable when the parent ends; only the parent uses `of_parent`.
    """
    code = 1
    try:
        for descriptor in of_parent:
            os.close(descriptor)
        if _RUNS_EXIT_FUNCTIONS:
            atexit._clear()
            atexit.register(_util._exit_function)
        code = process._bootstrap(parent_sentinel=parent_sentinel)
    finally:
        if _RUNS_EXIT_FUNCTIONS:
            atexit._run_exitfuncs()
        os._exit(code)
