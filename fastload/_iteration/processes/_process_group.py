"""Worker processes of fastload's own, and the batches that were requested from them."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import operator
import os
import pickle
import signal
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch.multiprocessing

from fastload import _native
from fastload._delivery._hand_over import Pinning
from fastload._images._opener import exchanged_in_workers
from fastload._iteration._maker import Request
from fastload._iteration.processes._arenas import new_arena, shortage_of
from fastload._iteration.processes._child import ChildPlan, run_worker
from fastload._iteration.processes._connections import new_connection, new_flag
from fastload._iteration.processes._messages import Answer, Begun, Ended, Lost, Payload, WorkerReport, opened
from fastload._iteration.processes._snapshots import SnapshotMessage
from fastload._iteration.processes._worker_processes import WorkerProcesses, wait_for
from fastload._iteration.python._loader_workers import LoaderWorkers
from fastload._iteration.python._task import Task
from fastload._iteration.python._worker_draws import WorkerStart
from fastload._iteration.python._worker_group import WorkerGroup
from fastload._process._interrupts import is_interrupt
from fastload._workers._random_stream import RandomKey
from fastload._workers._torch_globals import prepared_changes
from fastload._workers._worker_error import WorkerFailure

# How often a wait looks whether the loader was closed and whether all workers live.
_WATCH_SECONDS = 0.2
# How long a process may take to end after it has closed its connection.
_JOIN_SECONDS = 5.0


class ProcessGroup(WorkerGroup):
    """The worker processes of one iterator; see WorkerGroup.

    Args:
        plan: The settings and objects that the workers share.
        context: The multiprocessing context of the processes.
        record: Receives what the workers report of themselves.
        pinning: As of Delivery.pinning().
    """

    def __init__(self, plan: ChildPlan, *, context: Any, record: LoaderWorkers, pinning: Pinning | None) -> None:
        super().__init__(plan.workers)
        num_workers = plan.workers.num_workers
        self._plan, self._record, self._pinning = plan, record, pinning
        self._context = context
        self._is_forked = context.get_start_method() == "fork"
        self._flag = new_flag(is_forked=self._is_forked)
        self._sockets: list[_native.MessageSocket] = []
        self._theirs: list[_native.MessageSocket] = []  # the workers' ends, until the workers have them
        self._arenas: list[_native.Arena | None] = []
        self._processes = WorkerProcesses()
        self.threads: list[Any] = []
        self._held = _handled_signals()
        self._blocked_at_start = set(self._held) - signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for number in range(num_workers):
            self._add_worker(number)
        if not self._is_forked and (shortage := shortage_of(self._arenas[0])) is not None:
            warnings.warn(
                "large batches of worker processes may be sent through sockets, which is slow, because "
                f"{shortage}. Workers that are forked (multiprocessing_context='fork') do without",
                RuntimeWarning,
                stacklevel=2,
            )
        self.end_calls = (
            self._processes.tell,
            functools.partial(operator.setitem, self._flag.byte, 0, 1),
            *(functools.partial(socket.put, b"") for socket in self._sockets),
        )
        self._answers = [_ArenaAnswers() for _ in range(num_workers)]
        self._tasks: dict[int, ProcessTask] = {}  # by the numbers of their requests
        self._numbers = itertools.count()
        self._lost: dict[int, str] = {}  # workers whose processes have ended, and what next() says of it
        self._last_words: dict[int, str] = {}
        # By worker and epoch. Not kept, because a start keeps the group until it is finished.
        self._not_begun: dict[tuple[int, int], weakref.ref[WorkerStart]] = {}
        self._snapshots: list[SnapshotMessage | None] = [None] * num_workers

    def _add_worker(self, number: int) -> None:
        socket, theirs = new_connection()
        arena = new_arena(is_forked=self._is_forked)
        arguments = self._plan, number, theirs, arena, self._flag, self._blocked_at_start
        self.threads.append(self._context.Process(target=run_worker, args=arguments, daemon=True))
        self._sockets.append(socket)
        self._theirs.append(theirs)
        self._arenas.append(arena)

    def start(self) -> None:
        """Starts all processes, or leaves none if one fails."""
        try:
            prepared_changes()
            shares_methods = self._is_forked and self._plan.workers.fetch.native_images
            with _native.HeldSignals(self._held), exchanged_in_workers() if shares_methods else nullcontext():
                self._start_all()
        except BaseException:
            self.close()
            raise
        finally:
            self._flag.close_descriptor()
            for end in self._theirs:
                end.close()
            for arena in filter(None, self._arenas):
                arena.close_descriptor()

    def _start_all(self) -> None:
        try:
            self._processes.start(self.threads, self._plan.code.roots)
        except (TypeError, AttributeError, pickle.PicklingError):
            warnings.warn(
                "Got pickle error when attempting to start a worker Process. "
                "This might be because the worker Process arguments are not picklable. "
                "Python 3.14+ changed the multiprocessing start method in non-Mac POSIX platforms "
                "to 'forkserver', which requires the worker Process arguments to be picklable. "
                "You can also try multiprocessing.set_start_method('fork').",
                stacklevel=2,
            )
            raise

    def restart_order(self, key: RandomKey, first_worker: int = 0) -> list[WorkerStart]:
        for task in self.pending:
            task.let_go()
        return super().restart_order(key, first_worker)

    # ---- an epoch --------------------------------------------------------------------------------------------------

    def _begin_epoch(self, key: RandomKey) -> list[WorkerStart]:
        starts: list[WorkerStart] = [ProcessStart(key, self._epoch, self) for _ in self.threads]
        self._not_begun |= {(number, self._epoch): weakref.ref(start) for number, start in enumerate(starts)}
        message = pickle.dumps(("begin", key, self._epoch), 5)
        for number, start in enumerate(starts):
            if number in self._lost or self.is_ending:
                start.finish(None)
            else:
                self._sockets[number].put(message)
        return starts

    @property
    def is_ending(self) -> bool:
        return bool(self._processes.told_at)

    # ---- batches ---------------------------------------------------------------------------------------------------

    def _new_task(self, request: Request, worker: int, *, is_asked: bool) -> Task:
        task = ProcessTask(request, is_asked=is_asked, epoch=self._epoch, worker_id=worker)
        task.note_copied = self._answers[worker].note_copied
        return task

    def _send(self, task: Task) -> None:
        assert isinstance(task, ProcessTask)
        if (problem := self._lost.get(task.worker_id)) is not None:
            task.finish(failure=WorkerFailure(RuntimeError(problem), None))
            return
        if task.key is None:
            task.key = next(self._numbers)
        if not task.is_sent:
            self._tasks[task.key] = task
            copied = list(self._answers[task.worker_id].copied)
            message = pickle.dumps(("batch", task.key, task.request, task.is_asked, task.epoch, copied), 5)
            self._sockets[task.worker_id].put(message)  # again after an interrupt, and its worker drops the second one
            task.is_sent = True
            del self._answers[task.worker_id].copied[: len(copied)]

    def _wait_for_change(self, timeout_seconds: float) -> bool:
        deadline = time.monotonic() + (timeout_seconds or float("inf"))
        while (left := deadline - time.monotonic()) > 0:
            if self.pump(min(_WATCH_SECONDS, left)) or self.is_ending:
                return True
        return False

    @property
    def has_next(self) -> bool:
        if not self.is_ending:
            self.pump(0.0)
        return super().has_next

    def pump(self, seconds: float) -> bool:
        """Takes the messages that have come, after a wait of at most `seconds` for one. Returns whether there were any.

        A signal handler may call it in the middle of another call: each step can be repeated.
        """
        live = [number for number in range(len(self.threads)) if number not in self._lost]
        has_come = _native.wait_for_message([self._sockets[number] for number in live], seconds) if live else True
        for number in live:
            socket = self._sockets[number]
            while (first := socket.first()) is not None:
                count, data = first
                message = pickle.loads(data)
                self._note(number, message)
                if socket.drop(count) and not isinstance(message, Lost):
                    self._hear(number, message.report)
            if socket.has_ended or (not has_come and self.threads[number].exitcode is not None):
                self._lose(number)
                has_come = True
        return has_come

    def _hear(self, number: int, report: WorkerReport) -> None:
        self._record.counters.add(report.counters)
        self._record.warnings.note(report.warnings)
        if self._record.caches.note(number, report.cache) and not self.is_ending:
            for socket in self._sockets:
                socket.put(pickle.dumps(("distrust",), 5))

    def _note(self, number: int, message: Begun | Answer | Ended | Lost) -> None:
        if isinstance(message, Lost):
            self._last_words[number] = message.reason
        if isinstance(message, (Ended, Lost)):
            return
        snapshot = message.snapshot
        if snapshot is not None:
            snapshot = self._snapshots[number] = snapshot.completed(self._snapshots[number])
        if isinstance(message, Begun):
            if (reference := self._not_begun.get((number, message.epoch))) is not None:
                if (start := reference()) is not None:
                    start.finish(snapshot, message.error, is_stateful=message.is_stateful)  # type: ignore[arg-type]
                self._not_begun.pop((number, message.epoch), None)
        elif (task := self._tasks.get(message.key)) is not None:
            if message.payload is not None and message.payload.is_in_slot:
                self._answers[number].unread.add(message.key)
            task.payload, task.account, task.snapshot = message.payload, message.account, snapshot  # type: ignore[assignment]
            task.is_end_of_stream = message.is_end_of_stream
            task.is_done = True
            self._tasks.pop(message.key, None)
            if task.epoch != self._epoch:
                task.let_go()

    def _lose(self, number: int) -> None:
        """Notes that a worker's process has ended, and fails what was asked of it."""
        for (worker, _), reference in tuple(self._not_begun.items()):
            if worker == number and (start := reference()) is not None:
                start.finish(None)
        if self.is_ending:
            self._lost[number] = ""
            return
        process = self.threads[number]
        if not wait_for([process], _JOIN_SECONDS):  # it has closed its end of the connection
            process.terminate()
        asked = [task for task in self._tasks.values() if task.worker_id == number and task.epoch == self._epoch]
        item = asked[0].request.item if asked else None
        self._lost[number] = self._processes.loss_of(process, self._last_words.get(number), item)
        for task in asked:
            task.finish(failure=WorkerFailure(RuntimeError(self._lost[number]), None))
            self._tasks = {key: each for key, each in self._tasks.items() if each is not task}

    def wait(self, timeout_seconds: float) -> Task:
        task = super().wait(timeout_seconds)
        for number in tuple(self._lost):
            answers, arena = self._answers[number], self._arenas[number]
            if arena is not None and not (answers.unread or answers.is_released):
                arena.release()
                answers.is_released = True
        return task

    def received(self, task: Task) -> Any:
        assert isinstance(task, ProcessTask)
        assert task.payload is not None, "the stream has not ended"
        batch = opened(task.payload, self._arenas[task.worker_id], self._memory, self._pinning)
        try:
            return batch if self._pinning is None else self._pinning.pin(batch)
        except Exception as error:
            if is_interrupt(error):
                raise
            raise WorkerFailure.of(error, "while a batch was copied to page-locked memory").new_error() from error

    # ---- the end ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        self.close()
        self.pump(0.0)  # what the workers have reported at their end

    def close(self) -> None:
        """Ends the processes and waits for them, at most five seconds in all; then they are terminated."""
        self.signal_end()
        if os.getpid() != self._owner_pid:
            return
        self._processes.wait()


class _ArenaAnswers:
    """The answers in a worker's arena, by their keys.

    Attributes:
        unread: The answers that have come and are not copied yet.
        copied: The answers that were copied, until the worker knows. May have a key twice.
        is_released: Whether the worker is dead and its memory is freed.
    """

    def __init__(self) -> None:
        self.unread: set[int] = set()
        self.copied: list[int] = []
        self.is_released = False

    def note_copied(self, key: int) -> None:
        self.copied.append(key)
        self.unread.discard(key)


class ProcessTask(Task):
    """A request to a worker process, and its answer.

    Attributes:
        key: Number of the request, once it has one.
        is_sent: Whether its worker has it.
        payload: The batch or error as it was sent.
        note_copied: Called with its key when it is let go. May be called again.
    """

    key: int | None = None
    is_sent = False
    payload: Payload | None = None
    note_copied: Callable[[int], None]

    def let_go(self) -> None:
        super().let_go()
        if self.payload is not None and self.key is not None and self.payload.is_in_slot:
            self.note_copied(self.key)
        self.payload = None


class ProcessStart(WorkerStart):
    """The start of an epoch in a worker process."""

    def check(self, timeout_seconds: float) -> None:
        group, deadline = self._worker, time.monotonic() + (timeout_seconds or float("inf"))
        while group is not None and not self.is_done and self._pid == os.getpid() and time.monotonic() < deadline:
            group.pump(_WATCH_SECONDS)
        if self.is_done or self._pid != os.getpid():
            super().check(timeout_seconds)


def context_of(context: Any) -> Any:
    """Returns the multiprocessing context of a loader's workers: its own, the program's, or fork."""
    if context is not None:
        return context
    method = multiprocessing.get_start_method(allow_none=True)
    if method is None and multiprocessing.get_all_start_methods()[0] != "fork":  # since Python 3.14
        return multiprocessing.get_context("fork")
    return torch.multiprocessing


def start_method_of(context: Any) -> str:
    """Returns the start method of a loader's workers without fixing the program's."""
    return context_of(context).get_start_method(allow_none=True) or "fork"


def _handled_signals() -> list[int]:
    """Returns the signals with handlers in Python: their exceptions would be lost in the hooks of a fork."""
    handled = {int(number) for number in signal.valid_signals() if callable(signal.getsignal(number))}
    return [*(handled | {int(signal.SIGINT)})]
