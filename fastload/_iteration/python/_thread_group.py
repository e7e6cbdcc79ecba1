"""Worker threads of this process instead of torch's worker processes."""

from __future__ import annotations

import functools
import os
import queue
from typing import Any

import torch

from fastload._iteration._maker import Request
from fastload._iteration.python._task import Task
from fastload._iteration.python._worker import (
    StopSignal,
    ThreadWorker,
    WorkerPlan,
    WorkerThread,
    num_threads_is_of_thread,
)
from fastload._iteration.python._worker_draws import WorkerStart
from fastload._iteration.python._worker_group import WorkerGroup
from fastload._process._exit import EXIT_JOIN_SECONDS, join_threads, start_threads
from fastload._workers._collate_memory import WorkerMemory
from fastload._workers._inherited import ThreadState, without_inference
from fastload._workers._places import HeldGenerators
from fastload._workers._random_stream import RandomKey
from fastload._workers._user_code import UserCode

# Note [no locks between threads]
# Finalizers run in any thread at any allocation, so a finalizer that waits for a lock may wait for its own thread.
# Therefore close(), finalizers and threads share only SimpleQueues, whose put() never waits, and plain attributes that
# are set once.


class ThreadGroup(WorkerGroup):
    """The threads of one iterator; see WorkerGroup. They share the user's objects.

    `held` are the generators that these objects hold; None: several workers draw from them.
    """

    def __init__(self, plan: WorkerPlan, code: UserCode, held: HeldGenerators | None) -> None:
        super().__init__(plan)
        stop = StopSignal(plan.num_workers)
        self.end_calls = stop.end_calls
        self._stop = stop
        self._thread_state = ThreadState()
        self._ready: queue.SimpleQueue[None] = queue.SimpleQueue()
        report_ready = functools.partial(self._ready.put, None)
        self._workers = [
            ThreadWorker(plan, number, code.of_worker(), held, WorkerMemory(self._memory), stop)
            for number in range(plan.num_workers)
        ]
        self.threads = [WorkerThread(stop, worker, self._thread_state, report_ready) for worker in self._workers]

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

    def _begin_epoch(self, key: RandomKey) -> list[WorkerStart]:
        starts = [WorkerStart(key, self._epoch, worker) for worker in self._workers]
        for tasks, start in zip(self._stop.tasks, starts, strict=True):
            tasks.put(start)
        if self.is_ending:  # the threads may have ended before
            for start in starts:
                start.finish(None)
        return starts

    @property
    def is_ending(self) -> bool:
        return self._stop.is_ending()

    def _new_task(self, request: Request, worker: int, *, is_asked: bool) -> Task:
        wake = functools.partial(self._stop.changed.put, None)
        return Task(request, is_asked=is_asked, epoch=self._epoch, worker_id=worker, wake=wake)

    def _send(self, task: Task) -> None:
        self._stop.tasks[task.worker_id].put(task)

    def _wait_for_change(self, timeout_seconds: float) -> bool:
        try:
            self._stop.changed.get(timeout=timeout_seconds or None)
        except queue.Empty:
            return False
        return True

    def received(self, task: Task) -> Any:
        batch = task.batch
        is_inference = self._thread_state.is_inference and not torch.is_inference_mode_enabled()
        return without_inference(batch) if is_inference else batch

    def close(self) -> None:
        """Ends the threads and waits for them, at most a second. Never call it from a finalizer."""
        self.signal_end()
        if os.getpid() == self._owner_pid:
            join_threads(self.threads, EXIT_JOIN_SECONDS)
