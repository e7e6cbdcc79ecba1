"""Threads of this process in the place of torch's worker processes: batch k is made by thread k mod N."""

from __future__ import annotations

import functools
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._utils import ExceptionWrapper

from fastload._errors import LoaderClosedError, SampleError
from fastload._exit import EXIT_JOIN_SECONDS, DaemonThread, exit_state, join_threads
from fastload._tail._batch_maker import AbandonedError, BatchMaker
from fastload._tail._counters import TailCounters
from fastload._tail._random_stream import RandomKey
from fastload._tail._worker_info import set_worker_info

# Note [no locks between threads]
# Finalizers run in any thread at any allocation, so that one which waits for a lock may wait for the thread it runs in.
# Whatever close(), finalizers and threads share are therefore SimpleQueues, whose put() never waits, and plain
# attributes that are set once.


class Task:
    """One batch on its way: asked for, made by a thread, and taken by who asked."""

    def __init__(self, indices: Any, key: RandomKey) -> None:
        self.indices = indices
        self.key = key
        self.is_done = False
        self.batch: Any = None
        self.error: BaseException | None = None
        # Something may have changed: an item for each time.
        self.changed: queue.SimpleQueue[None] = queue.SimpleQueue()

    def take(self) -> Any:
        """The batch, once, or raises what became of it. What a thread's frames know of this task holds neither then."""
        batch, error = self.batch, self.error
        self.batch = self.error = None
        if error is None:
            return batch
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    def finish(self, batch: Any, error: BaseException | None) -> None:
        self.batch, self.error = batch, error
        self.is_done = True
        self.changed.put(None)


class WorkerGroup:
    """The threads of one iterator, and the batches they were asked for.

    Args:
        makers: One for each thread.
        seeds: What get_worker_info() tells in each.
        dataset: The same.
        counters: To add waits to.
        pin: Called with each batch; None: batches stay in pageable memory.
    """

    def __init__(
        self,
        makers: Sequence[BatchMaker],
        seeds: Sequence[int],
        dataset: Any,
        counters: TailCounters,
        pin: Callable[[Any], Any] | None,
    ) -> None:
        self.owner_pid = os.getpid()
        self.is_ending = False
        self.pending: deque[Task] = deque()  # in the order in which they are delivered
        self._next_thread = 0
        self._counters = counters
        self._ready: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._threads = [
            _WorkerThread(self, number, maker, functools.partial(set_worker_info, number, len(makers), seed, dataset))
            for number, (maker, seed) in enumerate(zip(makers, seeds, strict=True))
        ]
        self.pin = pin
        self.set_device = None if pin is None else _setter_of_current_device()

    def start(self) -> None:
        """Raises RuntimeError where the system refuses a thread."""
        num_torch_threads = torch.get_num_threads()
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._ready.get()
        if _num_threads_is_of_thread():
            # Threads of other code begin with what was set last anywhere: not with the 1 of ours.
            torch.set_num_threads(num_torch_threads)

    def restart_order(self) -> None:
        """The next batch is the first thread's; what was asked for before is made, but not delivered."""
        self.pending.clear()
        self._next_thread = 0

    def submit(self, indices: Any, key: RandomKey) -> None:
        task = Task(indices, key)
        self.pending.append(task)
        self._threads[self._next_thread].tasks.put(task)
        self._next_thread = (self._next_thread + 1) % len(self._threads)

    def wait(self, timeout_seconds: float) -> Task:
        """The oldest batch asked for, done; it is not pending any more. With 0 the wait has no limit.

        Raises:
            RuntimeError: The time has passed; the batch is still pending.
            LoaderClosedError: The threads have been told to end.
        """
        task = self.pending[0]
        begin = time.monotonic()
        while self.is_ending or not task.is_done:
            if self.is_ending:
                exit_state.sleep_if_begun()
                raise closed_error()
            left = begin + timeout_seconds - time.monotonic() if timeout_seconds > 0 else None
            try:
                task.changed.get(timeout=None if left is None else max(left, 0.0))
            except queue.Empty:
                raise RuntimeError(f"DataLoader timed out after {timeout_seconds} seconds") from None
        self._counters.add({"consumer_wait_seconds": time.monotonic() - begin})
        self.pending.popleft()
        return task

    def signal_end(self) -> None:
        """Tells the threads to end after the sample at hand, and who waits for a batch. Waits for nothing."""
        if os.getpid() != self.owner_pid:  # a child has a copy of this object, but not the threads
            return
        self.is_ending = True
        for thread in self._threads:
            thread.tasks.put(None)
        for task in tuple(self.pending):
            task.changed.put(None)

    def close(self) -> None:
        """Ends the threads and waits for them, at most a second. Never call it from a finalizer."""
        self.signal_end()
        if os.getpid() == self.owner_pid:
            join_threads(self._threads, EXIT_JOIN_SECONDS)

    def thread_is_ready(self) -> None:
        self._ready.put(None)

    def add_wait(self, seconds: float) -> None:
        self._counters.add({"worker_wait_seconds": seconds})


def closed_error() -> LoaderClosedError:
    return LoaderClosedError("the loader was closed; iterate over it again to start anew")


class _WorkerThread(DaemonThread):
    """Makes the batches it is given, one after the other. Knows its group, never a loader or an iterator."""

    def __init__(self, group: WorkerGroup, number: int, maker: BatchMaker, announce: functools.partial[None]) -> None:
        super().__init__(f"fastload-tail-{number}")
        self.tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._group = group
        self._number = number
        self._maker = maker
        self._announce = announce

    def signal_end(self) -> None:
        self._group.signal_end()

    def run(self) -> None:
        problem = self._prepare()
        self._group.thread_is_ready()
        try:
            while (task := self._next_task()) is not None:
                if problem is None:
                    self._make(task)
                else:
                    task.finish(None, _as_worker_raises(problem, self._number))
                del task
        finally:
            del self._maker  # with its scratch memory

    def _prepare(self) -> BaseException | None:
        """Why no batch can be made in this thread, or None."""
        try:
            if _num_threads_is_of_thread():
                torch.get_num_threads()  # at its first use in a thread torch takes the number set last anywhere
                torch.set_num_threads(1)
            self._announce()
            if self._group.set_device is not None:
                self._group.set_device()
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            return error
        return None

    def _next_task(self) -> Task | None:
        begin = time.monotonic()
        task = self.tasks.get()
        self._group.add_wait(time.monotonic() - begin)
        return None if self._group.is_ending else task

    def _make(self, task: Task) -> None:
        try:
            batch = self._maker.make(task.indices, task.key, lambda: self._group.is_ending)
            if self._group.pin is not None:
                batch = self._group.pin(batch)
        except AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - a thread has no caller; who waits for the batch gets it
            task.finish(None, _as_worker_raises(error, self._number))
        else:
            task.finish(batch, None)


def _as_worker_raises(error: BaseException, number: int) -> BaseException:
    """`error` with torch's words around its own, of the same type where that can be made from a text."""
    if isinstance(error, SampleError):
        return error
    where = f"in DataLoader worker thread {number}"
    try:
        ExceptionWrapper((type(error), error, error.__traceback__), where).reraise()  # type: ignore[no-untyped-call]
    except BaseException as raised:  # noqa: BLE001 - it is given on
        worded = raised.with_traceback(None)
    worded.__cause__ = error
    return worded


def _setter_of_current_device() -> Callable[[], Any]:
    """What makes another thread's current device that of this one."""
    if hasattr(torch, "accelerator"):  # since torch 2.6
        return functools.partial(torch.accelerator.set_device_index, torch.accelerator.current_device_index())
    return functools.partial(torch.cuda.set_device, torch.cuda.current_device())


@functools.cache
def _num_threads_is_of_thread() -> bool:
    """Whether torch.set_num_threads() has an effect on the calling thread, and not on all at once."""
    return "ATen parallel backend: OpenMP" in torch.__config__.parallel_info()
