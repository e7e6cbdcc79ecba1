"""The workers of an iteration, threads or processes: worker k mod N makes batch k."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fastload._errors import LoaderClosedError
from fastload._iteration._maker import Request
from fastload._iteration.python._task import Task
from fastload._iteration.python._worker import WorkerPlan
from fastload._iteration.python._worker_draws import WorkerStart
from fastload._process._exit import exit_state
from fastload._workers._collate_memory import CollateMemory
from fastload._workers._random_stream import RandomKey


class WorkerGroup(ABC):
    """The workers of one iterator, and the batches that were requested from them.

    Attributes:
        order: The order of work on a device.
        pending: The batches in flight, in the order in which they are delivered.
        threads: The workers' threads or processes, as torch's iterators have them.
        end_calls: C calls that tell the workers to end: Note [drops].
    """

    threads: Sequence[Any]
    end_calls: tuple[Callable[[], Any], ...]

    def __init__(self, plan: WorkerPlan) -> None:
        self._owner_pid = os.getpid()
        self.order = plan.order
        self._memory = CollateMemory(plan.max_batches)
        self.pending: deque[Task] = deque()
        self._in_order, self._max_batches = plan.in_order, plan.max_batches
        self._is_active = [True] * plan.num_workers  # the worker's stream has not ended
        self._next_worker = 0
        self._submitted: Task | None = None  # last, and an interrupt may have left it unfinished
        self._epoch = 0

    @abstractmethod
    def start(self) -> None:
        """Starts all workers, or leaves none if one fails."""

    def restart_order(self, key: RandomKey, first_worker: int = 0) -> list[WorkerStart]:
        """Begins an epoch and returns its starts, one for each worker; `first_worker` makes the next batch.

        Batches in flight are made, but not delivered.
        """
        self.pending.clear()
        self._submitted = None
        self._next_worker = first_worker
        self._epoch += 1
        self.order.begin()  # before the data set is asked for an iterator, which may queue work on the device
        self._is_active = [True] * len(self._is_active)
        return self._begin_epoch(key)

    @abstractmethod
    def _begin_epoch(self, key: RandomKey) -> list[WorkerStart]:
        """Asks each worker to begin the epoch and to report its position then."""

    @property
    def is_running(self) -> bool:
        """Whether the workers belong to this process and were not told to end."""
        return os.getpid() == self._owner_pid and not self.is_ending

    @property
    @abstractmethod
    def is_ending(self) -> bool:
        """Whether the workers were told to end."""

    @property
    def bytes_held(self) -> int:
        """The memory that is kept for batches, in bytes."""
        return self._memory.bytes_held

    @property
    def has_active_worker(self) -> bool:
        return any(self._is_active)

    def submit(self, request: Request, done: Task | None, *, is_asked: bool) -> bool:
        """Requests a batch from the next worker; returns False if no active worker may get one more request now.

        An interrupt may come between any two steps. Another call with the same request, before any batch is taken,
        completes the submission: each step can be repeated. `done` is the pending task whose batch is taken.
        """
        task = self._submitted
        if task is None or task.request is not request:
            worker = self._worker_in_turn(done)
            if worker is None:
                return False
            task = self._new_task(request, worker, is_asked=is_asked)
            self._submitted = task
        self._send(task)
        self._next_worker = (task.worker_id + 1) % len(self._is_active)
        if not (self.pending and self.pending[-1] is task):
            self.pending.append(task)
        return True

    @abstractmethod
    def _new_task(self, request: Request, worker: int, *, is_asked: bool) -> Task: ...

    @abstractmethod
    def _send(self, task: Task) -> None:
        """Gives its worker the task. May be repeated: the worker makes a batch of it once."""

    def wait(self, timeout_seconds: float) -> Task:
        """Waits for the next finished task and returns it; it stays pending until removed. A timeout of 0 is none.

        Raises:
            RuntimeError: No batch was done for `timeout_seconds`, the next one or another, as torch counts it; the
                batch is still pending.
            LoaderClosedError: The workers were told to end.
        """
        while (task := self._next_done()) is None:
            if not self._wait_for_change(timeout_seconds):
                raise RuntimeError(f"DataLoader timed out after {timeout_seconds} seconds")
        if task.is_end_of_stream:
            self._is_active[task.worker_id] = False
        return task

    @abstractmethod
    def _wait_for_change(self, timeout_seconds: float) -> bool:
        """Waits until a task is done or the workers are told to end; returns False if that takes too long."""

    @property
    def has_next(self) -> bool:
        """Whether wait() would return a batch, or the error that came instead of it, at once."""
        task = None if self.is_ending else self._next_done()
        return task is not None and not task.is_end_of_stream

    def received(self, task: Task) -> Any:
        """Returns the batch of a finished task. May be repeated until the task is let go."""
        return task.batch

    def signal_end(self) -> None:
        """Tells the workers to end after their current samples, and wakes a wait for a batch. Returns at once."""
        if os.getpid() == self._owner_pid:
            for call in self.end_calls:
                call()

    def end(self) -> None:
        """Ends the workers after all batches of a last epoch."""
        self.signal_end()

    @abstractmethod
    def close(self) -> None:
        """Ends the workers and waits for them for some time. Never call it from a finalizer."""

    def _worker_in_turn(self, done: Task | None) -> int | None:
        """Returns the number of the next batch's worker by torch's rule; None: there is none.

        This is the next active worker or, without order, the next one whose share of batches is not full.
        """
        num_workers = len(self._is_active)
        in_turn = [(self._next_worker + step) % num_workers for step in range(num_workers)]
        active = [worker for worker in in_turn if self._is_active[worker]]
        if self._in_order:
            return active[0] if active else None
        asked = [task.worker_id for task in self.pending if task is not done]
        return next((worker for worker in active if asked.count(worker) < self._max_batches // len(active)), None)

    def _next_done(self) -> Task | None:
        if self.is_ending:
            exit_state.sleep_if_begun()
            raise closed_error()
        candidates = tuple(self.pending)[:1] if self._in_order else tuple(self.pending)
        return next((task for task in candidates if task.is_done), None)


def closed_error() -> LoaderClosedError:
    return LoaderClosedError("the loader was closed; iterate over it again to start anew")
