"""A thread that replaces one of torch's worker processes, and the worker that makes its batches."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import os
import queue
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fastload import _native
from fastload._delivery._device import leave_captures_alone
from fastload._delivery._thread_order import DeviceOrder
from fastload._errors import StateError
from fastload._images._batch_rows import BatchRows, batch_rows
from fastload._images._opened import make_pixels
from fastload._images._opener import native_images
from fastload._images._tally import ImageTally
from fastload._iteration._saved_worker import SavedWorker
from fastload._iteration.python._counters import GilWatch
from fastload._iteration.python._dataset import make_fetcher
from fastload._iteration.python._fetcher import BatchFetcher, EndOfStreamError, FetchPlan
from fastload._iteration.python._resume_point import ResumePoint, WorkerPosition
from fastload._iteration.python._task import AbandonedError, Task
from fastload._iteration.python._worker_draws import WorkerDraws, WorkerStart
from fastload._pillow._decode_image import keeping
from fastload._process._exit import DaemonThread
from fastload._process._interrupts import is_interrupt
from fastload._workers._collate_memory import WorkerMemory
from fastload._workers._exchanges import exchanged
from fastload._workers._generators import WorkerGenerators
from fastload._workers._inherited import ThreadState, keep_working_directory, own_context
from fastload._workers._places import HeldGenerators
from fastload._workers._random_stream import RandomStream, SampleStream
from fastload._workers._torch_globals import WorkerGlobals, set_worker_globals
from fastload._workers._user_code import UserCode
from fastload._workers._worker_error import WorkerFailure, without_frames

# Note [references between threads and workers]
# The user's code often refers to the iterator: collate_fn may be a method of a trainer that keeps the iterator, or of a
# loader whose iterator is persistent. Objects that live as long as the threads (the threads themselves, the iterator's
# finalizer, the handler at exit) must not refer to that code, or the iterator would never be collected and the threads
# would never end. So a group keeps its threads and its workers separately. A thread keeps its worker only while the
# worker makes a batch or has to begin an epoch; otherwise it keeps only the StopSignal, as the finalizer does.


@dataclass(frozen=True)
class WorkerPlan:
    """The settings and objects that the workers of an iterator share.

    Attributes:
        fetch: The way in which each worker makes batches.
        num_workers: At least 1.
        base_seed: The iteration's base seed.
        is_ordered: Whether a batch depends on the batches that its worker made before.
        in_order: torch's argument. False: the batch that is done first is the next one.
        max_batches: The most batches in flight; without order, this number is shared among the workers.
        resume_point: The resume point of each worker; None: nothing is resumed.
        order: The order of work on a device.
        pin: Called with each batch; None: batches stay in pageable memory.
        set_device: Makes the device of the thread that iterates the current one; None: there is none.
    """

    fetch: FetchPlan
    num_workers: int
    base_seed: int
    is_ordered: bool
    in_order: bool
    max_batches: int
    resume_point: tuple[ResumePoint, ...] | None
    order: DeviceOrder
    pin: Callable[[Any], Any] | None = None
    set_device: Callable[[], Any] | None = None


class StopSignal:
    """Ends the threads of a group. Refers only to queues: Note [references between threads and workers]."""

    def __init__(self, num_threads: int) -> None:
        self.owner_pid = os.getpid()
        self._ends: list[bool] = []  # not empty: the threads were told to end
        self.is_ending = functools.partial(bool, self._ends)  # one C call, for each sample
        self.changed: queue.SimpleQueue[None] = queue.SimpleQueue()  # gets an item when a task is done and at the end
        self.tasks: list[queue.SimpleQueue[Task | WorkerStart | None]] = [
            queue.SimpleQueue() for _ in range(num_threads)
        ]
        # Receives the streams of workers that are dropped, which end in the thread that has run them.
        self.streams: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(num_threads)]
        # Each is one C call: Note [drops].
        self.end_calls: tuple[Callable[[], None], ...] = (
            functools.partial(self._ends.append, True),
            *(functools.partial(tasks.put, None) for tasks in self.tasks),
            functools.partial(self.changed.put, None),
        )

    def signal_end(self) -> None:
        if os.getpid() != self.owner_pid:  # a child has a copy of this object, but not the threads
            return
        for call in self.end_calls:
            call()


class Worker:
    """Makes batches, one after another, in its thread. Owns everything that a worker process of torch would own.

    Args:
        held: The generators that the user's objects hold; None: several worker threads draw from them.
        is_abandoned: Returns whether the worker's batches are not wanted any more.
    """

    _where = "in DataLoader worker thread"
    _new_generators = WorkerGenerators

    def __init__(
        self,
        plan: WorkerPlan,
        number: int,
        code: UserCode,
        held: HeldGenerators | None,
        is_abandoned: Callable[[], bool],
        memory: WorkerMemory,
    ) -> None:
        self.number = number
        self.context = own_context()
        self.generators = self._new_generators(plan.base_seed, number)
        self._memory = memory
        self.globals = WorkerGlobals.of(self.generators, plan.num_workers, dataset=code.dataset, memory=self._memory)
        self.counters = plan.fetch.counters
        self.gil_watch = GilWatch(self.counters)
        self._plan = plan
        self._code, self._held = code, held
        self._fetcher: BatchFetcher | None = None  # None before worker_init_fn was called, and after the end
        self._is_group_ending = is_abandoned
        self._images = ImageTally()
        self._problem: WorkerFailure | None = None  # the reason why no batch can be made
        self._draws = WorkerDraws(self.generators, code, held) if plan.is_ordered else None
        self._position: WorkerPosition | None = None
        self._state_error: StateError | None = None

    def _enter(self, until_end: contextlib.ExitStack) -> None:
        """Gives the worker's thread what a worker process has for itself."""
        if self._plan.set_device is not None:
            self._plan.set_device()
        until_end.enter_context(_event_loop())
        until_end.enter_context(exchanged())
        if self._plan.fetch.native_images:
            until_end.enter_context(native_images(self._images))

    def prepare(self, until_end: contextlib.ExitStack) -> None:
        """Sets the thread up. Call it first, in the thread; `until_end` undoes the changes when the thread ends."""
        plan = self._plan
        try:
            self._enter(until_end)
            if plan.fetch.native_images:
                until_end.enter_context(keeping(plan.fetch.open_cache))
                until_end.enter_context(batch_rows(BatchRows(self._memory.buffer)))
            stream, code = self._make_stream(), self._code
            if code.init_fn is not None:
                with self.generators.entered():
                    code.init_fn(self.number)
            fetcher = self._fetcher = make_fetcher(plan.fetch, stream, code, self.number)
            if self._draws is not None:
                self._draws.begin()
                if (resume_point := self._resume_point) is not None:
                    self._draws.load(resume_point.saved, resume_point.field)
                self._position = WorkerPosition(self._draws, fetcher)
        except BaseException as error:
            if not self._goes_on_after(error):
                raise
            self._fail(error)

    def _goes_on_after(self, error: BaseException) -> bool:
        """Returns whether an error of the user's code goes with the batch. A thread has no caller to raise it in."""
        return True

    @property
    def _resume_point(self) -> ResumePoint | None:
        return None if self._plan.resume_point is None else self._plan.resume_point[self.number]

    def _fail(self, error: BaseException) -> None:
        """Makes every later batch fail with `error`."""
        self._problem = self._failure_of(error)
        without_frames(error)  # they lead to the worker
        if isinstance(error, StateError):
            self._state_error = StateError(error.field, error.problem, error.next_step)

    def begin_epoch(self, start: WorkerStart) -> None:
        """Begins an epoch and reports the worker's position then."""
        snapshot, is_stateful = None, False
        try:
            if self._problem is not None or self._position is None:  # no batch, or none that depends on others
                snapshot = None if self._draws is None else self._draws.copy(is_after_batch=False)
            else:
                self._plan.order.enter()
                with self.generators.entered():
                    resume_point = self._resume_point if start.epoch == 1 else None
                    snapshot = self._position.begin_epoch(start.key, start.epoch, resume_point)
                is_stateful = self._fetcher is not None and self._fetcher.is_stateful
        except BaseException as error:
            if not self._goes_on_after(error):
                raise
            self._fail(error)
        finally:
            start.finish(snapshot, self._state_error, is_stateful=is_stateful)

    def _make_stream(self) -> RandomStream:
        if self._plan.fetch.rng == "sample":
            held = [] if self._held is None else self._held.seedable
            return SampleStream(self._plan.fetch.naming, self.generators, held)
        return RandomStream()

    def make(self, task: Task) -> None:
        """Finishes the task, with a batch or with the error that came instead."""
        if self._problem is not None:
            task.finish(failure=self._problem)
            return
        fetcher = self._fetcher
        assert fetcher is not None, "prepare() has made it, or noted a problem"
        try:
            self._plan.order.enter()
            self._memory.begin_batch()
            try:
                with self.generators.entered():
                    batch = fetcher.fetch(task.request.item, task.request.python_key, task.epoch, self._is_abandoned)
                    make_pixels(batch)
            finally:
                if self._images.is_counting:  # includes an image that was opened for an earlier batch
                    self.counters.add(self._images.take())
            batch = batch if self._plan.pin is None else self._plan.pin(batch)
            mark, snapshot = self._plan.order.mark(batch), self._snapshot_after(task)
            task.finish(batch, mark=mark, account=fetcher.take_account(), snapshot=snapshot)
        except AbandonedError:
            pass
        except EndOfStreamError:
            task.finish(snapshot=self._snapshot_after(task, is_end=True), is_end_of_stream=True)
        except BaseException as error:
            if not self._goes_on_after(error):
                raise
            failure, account = self._failure_of(error), fetcher.take_account()
            task.finish(failure=failure, account=account, snapshot=self._snapshot_after(task))
            del failure
        finally:
            del task  # its error refers to this frame

    def _failure_of(self, error: BaseException) -> WorkerFailure:
        return WorkerFailure.of(error, f"{self._where} {self.number}")

    def _snapshot_after(self, task: Task, *, is_end: bool = False) -> SavedWorker | None:
        """Returns the worker's position after the task; None: no state may begin there."""
        if self._position is None:
            return None
        with self.generators.entered():
            return self._position.after_end() if is_end else self._position.after_batch(is_asked=task.is_asked)

    def let_go(self) -> None:
        """Drops the data set's iterator, in the thread that used it. Call it last."""
        self._fetcher = self._position = None
        del self.globals  # get_worker_info() refers to the dataset

    def _is_abandoned(self) -> bool:
        """Returns whether the batch is not wanted any more. Called between samples."""
        self.gil_watch.look()
        return self._is_group_ending()


class ThreadWorker(Worker, _native.Droppable):
    """A worker in a thread of its own. If dropped, its stream ends in that thread, as an sqlite connection must."""

    _is_interrupt = staticmethod(is_interrupt)

    def __init__(
        self,
        plan: WorkerPlan,
        number: int,
        code: UserCode,
        held: HeldGenerators | None,
        memory: WorkerMemory,
        stop: StopSignal,
    ) -> None:
        self._stop_signal = stop
        super().__init__(plan, number, code, held, stop.is_ending, memory)

    def _when_dropped(self) -> None:
        if (fetcher := vars(self).get("_fetcher")) is not None:
            self._stop_signal.streams[self.number].put(fetcher)
            # The stream may lead back to the iterator, which then lives, and does not end the threads, until they end.
            self._stop_signal.signal_end()


class WorkerThread(DaemonThread):
    """Runs its worker's tasks, one after another, and ends the worker's stream.

    Has the members of the processes in ``_workers`` of torch's iterators, as far as they apply to a thread.

    Args:
        worker: The worker, kept weakly: Note [references between threads and workers].
        report_ready: Called when the thread has set the number of its torch threads, before any user code runs.
    """

    def __init__(self, stop: StopSignal, worker: Worker, state: ThreadState, report_ready: Callable[[], None]) -> None:
        super().__init__(f"fastload-python-{worker.number}")
        self._stop_signal = stop
        self._tasks, self._streams = stop.tasks[worker.number], stop.streams[worker.number]
        self._worker = weakref.ref(worker)
        self._state = state
        self._counters = worker.counters
        self._gil_watch = worker.gil_watch
        self._report_ready = report_ready

    @property
    def pid(self) -> int:
        """The process id of this process."""
        return self._stop_signal.owner_pid

    @property
    def exitcode(self) -> int | None:
        """The exit code: None while the thread runs, then 0."""
        return None if self.is_alive() else 0

    def terminate(self) -> None:
        """Ends all threads of its iteration after their current samples. Waits for a batch raise LoaderClosedError."""
        self.signal_end()

    def signal_end(self) -> None:
        self._stop_signal.signal_end()

    def run(self) -> None:
        try:
            keep_working_directory()
            with self._state.entered(), contextlib.ExitStack() as until_end:
                if num_threads_is_of_thread():
                    torch.get_num_threads()  # torch's first use in a thread takes the number that was set last anywhere
                    torch.set_num_threads(1)
                self._report_ready()
                self._call(Worker.prepare, until_end)
                while (task := self._next_task()) is not None:
                    if isinstance(task, WorkerStart):
                        self._call(Worker.begin_epoch, task)
                        task.finish(None)
                    else:
                        self._call(Worker.make, task)
                    del task
                self._call(Worker.let_go)
        finally:
            self._end_streams()
            self._lose_starts()

    def _call(self, method: Callable[..., None], *arguments: Any) -> None:
        """Calls `method` with the worker's globals and context; does nothing if the group was collected."""
        if (worker := self._worker()) is None:
            return
        set_worker_globals(worker.globals)
        try:
            worker.context.run(method, worker, *arguments)
        finally:
            set_worker_globals(None)
            del worker, arguments  # a task keeps its error, and the error keeps this frame

    def _end_streams(self) -> None:
        """Ends what a worker has left that was dropped."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._streams.get_nowait()

    def _lose_starts(self) -> None:
        """Wakes the callers that wait for an epoch to begin: the thread has ended."""
        with contextlib.suppress(queue.Empty):
            while True:
                if isinstance(item := self._tasks.get_nowait(), WorkerStart):
                    item.finish(None)

    def _next_task(self) -> Task | WorkerStart | None:
        self._gil_watch.look()
        begin = time.monotonic()
        while (task := self._tasks.get()) is not None and task.is_taken:
            del task
        if task is not None:
            task.is_taken = True
        self._counters.add({"worker_wait_seconds": time.monotonic() - begin})
        # A state may be asked for after the iterator is gone, and needs the position at which each worker began.
        if not self._stop_signal.is_ending() or (isinstance(task, WorkerStart) and task.epoch == 1):
            return task
        if isinstance(task, WorkerStart):
            task.finish(None)
        return None


@contextlib.contextmanager
def _event_loop() -> Iterator[None]:
    """Gives the calling thread an event loop, as a process's main thread has, if the program uses asyncio."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        yield
        return
    # The loop keeps the context that it is made in. The worker's context may refer to the iterator, so an empty one is
    # used: Note [references between threads and workers].
    try:
        loop = contextvars.Context().run(asyncio.new_event_loop)
    except OSError as error:
        # A half-made loop holds a descriptor and is part of a reference cycle.
        traceback.clear_frames(error.__traceback__)
        _collect()
        raise
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _collect() -> None:
    """Collects garbage until a call finds some, at most for a second: none does while another thread collects."""
    deadline = time.monotonic() + 1
    while gc.collect() == 0 and time.monotonic() < deadline:
        time.sleep(0.001)


def setter_of_current_device() -> Callable[[], Any] | None:
    """Returns a function that gives a thread of fastload this thread's current device; None: there is no device."""
    if hasattr(torch, "accelerator"):  # since torch 2.6
        if not torch.accelerator.is_available():
            return None
        set_device: Callable[[int], None] = torch.accelerator.set_device_index
        index = torch.accelerator.current_device_index()
    elif torch.cuda.is_available():
        set_device, index = torch.cuda.set_device, torch.cuda.current_device()
    else:
        return None

    def set_device_of_thread() -> None:
        set_device(index)
        leave_captures_alone(index)

    return set_device_of_thread


@functools.cache
def num_threads_is_of_thread() -> bool:
    """Returns whether torch.set_num_threads() affects only the calling thread, instead of all threads."""
    return "ATen parallel backend: OpenMP" in torch.__config__.parallel_info()
