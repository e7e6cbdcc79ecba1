"""Threads of this process instead of torch's worker processes: worker k mod N makes batch k."""

from __future__ import annotations

import functools
import os
import queue
from collections import deque

import torch

from fastload._errors import LoaderClosedError
from fastload._iteration._maker import Request
from fastload._iteration.threads._task import Task
from fastload._iteration.threads._worker import StopSignal, Worker, WorkerPlan, WorkerThread, num_threads_is_of_thread
from fastload._iteration.threads._worker_draws import WorkerStart
from fastload._process._exit import EXIT_JOIN_SECONDS, exit_state, join_threads, start_threads
from fastload._workers._inherited import ThreadState
from fastload._workers._random_stream import RandomKey
from fastload._workers._worker_objects import WorkerObjects

# Note [no locks between threads]
# Finalizers run in any thread at any allocation, so a finalizer that waits for a lock may wait for its own thread.
# Therefore close(), finalizers and threads share only SimpleQueues, whose put() never waits, and plain attributes that
# are set once.


class WorkerGroup:
    """The threads of one iterator, and the batches that were requested from them.

    Args:
        plan: The settings and objects that the workers share.
        objects: The objects of each worker.
        in_order: False: the batch that is done first is the next one.
        max_batches: The most batches in flight; without order, this number is shared among the workers.
    """

    def __init__(self, plan: WorkerPlan, objects: list[WorkerObjects], *, in_order: bool, max_batches: int) -> None:
        stop = StopSignal(plan.num_workers)
        self.stop = stop
        self.order = plan.order
        self.memory = plan.memory
        self.pending: deque[Task] = deque()  # in the order in which they are delivered
        self.thread_state = ThreadState()
        self._in_order = in_order
        self._max_batches = max_batches
        self._next_worker = 0
        self._submitted: Task | None = None  # last, and an interrupt may have left it unfinished
        self._epoch = 0
        self._ready: queue.SimpleQueue[None] = queue.SimpleQueue()
        report_ready = functools.partial(self._ready.put, None)
        self._workers = [Worker(plan, number, own, lambda: stop.is_ending) for number, own in enumerate(objects)]
        self.starts: list[WorkerStart] = []  # of the epoch, one for each worker
        self.threads = [WorkerThread(stop, worker, self.thread_state, report_ready) for worker in self._workers]

    def start(self) -> None:
        """Starts all threads, or leaves none if one fails.

        Raises:
            ThreadStartError: The system refuses to start a thread.
        """
        num_torch_threads = torch.get_num_threads()
        try:
            start_threads(self.threads)
            for _ in self.threads:
                self._ready.get()
        except BaseException:
            self.close()
            raise
        finally:
            if num_threads_is_of_thread():
                # Threads of other code begin with the number that was set last anywhere: it must not be our threads' 1.
                torch.set_num_threads(num_torch_threads)

    def restart_order(self, key: RandomKey, first_worker: int = 0) -> None:
        """Begins an epoch; `first_worker` makes the next batch. Batches in flight are made, but not delivered."""
        self.pending.clear()
        self._submitted = None
        self._next_worker = first_worker
        self._epoch += 1
        self.order.begin()  # before the data set is asked for an iterator, which may queue work on the device
        self._begin_epoch(key)
        for worker in self._workers:
            worker.is_active = True

    def _begin_epoch(self, key: RandomKey) -> None:
        """Asks each thread to begin the epoch and to report its position then."""
        self.starts = [WorkerStart(key, self._epoch, worker) for worker in self._workers]
        for tasks, start in zip(self.stop.tasks, self.starts, strict=True):
            tasks.put(start)
        if self.is_ending:  # the threads may have ended before
            for start in self.starts:
                start.finish(None)

    @property
    def is_running(self) -> bool:
        """Whether the threads belong to this process and were not told to end."""
        return os.getpid() == self.stop.owner_pid and not self.is_ending

    @property
    def is_ending(self) -> bool:
        return self.stop.is_ending

    @property
    def has_active_worker(self) -> bool:
        return any(worker.is_active for worker in self._workers)

    def submit(self, request: Request, done: Task | None, *, is_asked: bool) -> bool:
        """Requests a batch from the next worker; returns False if no active worker may get one more request now.

        An interrupt may come between any two steps. Another call with the same request, before any batch is taken,
        completes the submission: each step can be repeated.

        Args:
            request: The batch to make.
            done: A task that is still pending and whose batch is taken.
            is_asked: Whether a state may begin after the batch.
        """
        task = self._submitted
        if task is None or task.request is not request:
            worker = self._worker_in_turn(done)
            if worker is None:
                return False
            wake = functools.partial(self.stop.changed.put, None)
            task = Task(request, is_asked=is_asked, epoch=self._epoch, worker_id=worker.number, wake=wake)
            self._submitted = task
        self.stop.tasks[task.worker_id].put(task)
        self._next_worker = (task.worker_id + 1) % len(self._workers)
        if not (self.pending and self.pending[-1] is task):
            self.pending.append(task)
        return True

    def wait(self, timeout_seconds: float) -> Task:
        """Waits for the next finished task and returns it; the task stays pending until it is removed.

        Args:
            timeout_seconds: Limit of the wait; 0: no limit.

        Raises:
            RuntimeError: No batch was done for `timeout_seconds`, the next one or another, as torch counts it; the
                batch is still pending.
            LoaderClosedError: The threads were told to end.
        """
        while (task := self._next_done()) is None:
            try:
                self.stop.changed.get(timeout=timeout_seconds or None)
            except queue.Empty:
                raise RuntimeError(f"DataLoader timed out after {timeout_seconds} seconds") from None
        if task.is_end_of_stream:
            self._workers[task.worker_id].is_active = False
        return task

    @property
    def has_next(self) -> bool:
        """Whether wait() would return a batch, or the error that came instead of it, at once."""
        task = None if self.is_ending else self._next_done()
        return task is not None and not task.is_end_of_stream

    def signal_end(self) -> None:
        """Tells the threads to end after their current samples, and wakes a wait for a batch. Returns at once."""
        self.stop.signal_end()

    def close(self) -> None:
        """Ends the threads and waits for them, at most a second. Never call it from a finalizer."""
        self.signal_end()
        if os.getpid() == self.stop.owner_pid:
            join_threads(self.threads, EXIT_JOIN_SECONDS)

    def _worker_in_turn(self, done: Task | None) -> Worker | None:
        """Returns the worker of the next batch by torch's rule; None: there is none.

        This is the next active worker or, without order, the next one whose share of batches is not full.
        """
        workers = self._workers[self._next_worker :] + self._workers[: self._next_worker]
        active = [worker for worker in workers if worker.is_active]
        if self._in_order:
            return active[0] if active else None
        asked = [task.worker_id for task in self.pending if task is not done]
        return next((one for one in active if asked.count(one.number) < self._max_batches // len(active)), None)

    def _next_done(self) -> Task | None:
        if self.is_ending:
            exit_state.sleep_if_begun()
            raise closed_error()
        candidates = tuple(self.pending)[:1] if self._in_order else tuple(self.pending)
        return next((task for task in candidates if task.is_done), None)


def closed_error() -> LoaderClosedError:
    return LoaderClosedError("the loader was closed; iterate over it again to start anew")
