"""A thread in the place of one of torch's worker processes, and what it makes batches with."""

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
from fastload._images._hand_over import make_pixels
from fastload._images._opener import native_images
from fastload._images._tally import ImageTally
from fastload._iteration.threads._counters import ThreadCounters
from fastload._iteration.threads._fetcher import BatchFetcher, EndOfStreamError, FetcherFactory
from fastload._iteration.threads._gil_watch import GilWatch
from fastload._iteration.threads._resume_point import ResumePoint, WorkerPlaces
from fastload._iteration.threads._task import AbandonedError, Task
from fastload._iteration.threads._worker_draws import GeneratorSnapshot, WorkerDraws, WorkerStart
from fastload._pillow._decode_image import keeping
from fastload._process._exit import DaemonThread
from fastload._workers._collate_memory import CollateMemory, WorkerMemory
from fastload._workers._exchanges import exchanged
from fastload._workers._generators import WorkerGenerators
from fastload._workers._inherited import ThreadState, own_context
from fastload._workers._random_stream import RandomStream, SampleStream, TorchStream
from fastload._workers._torch_globals import WorkerGlobals, set_worker_globals, worker_info
from fastload._workers._worker_error import WorkerProblem, as_worker_raises
from fastload._workers._worker_objects import WorkerObjects
from fastload._workers._working_directory import keep_working_directory

# Note [who keeps whom]
# The user's code often leads back to the iterator: collate_fn is a method of a trainer that keeps it, or of a loader
# whose iterator is persistent. Objects that live as long as the threads do (the threads themselves, the iterator's
# finalizer, the handler at exit) must not lead to that code, or the iterator would never be collected and the threads
# would never end. So a group keeps its threads, and apart from them its workers. A thread keeps its worker only while
# the worker makes a batch, or was told to begin an epoch; otherwise it keeps what the finalizer keeps, the StopSignal.
# The thread also keeps the copies of the user's objects: they do not lead to the iterator, and they end in the thread
# that has used them, as an sqlite connection must.


@dataclass(frozen=True)
class WorkerPlan:
    """What the workers of an iterator share.

    Attributes:
        make_fetcher: Gives each what it makes batches with.
        num_workers: At least 1.
        base_seed: Of the iteration.
        rng: "torch": each worker draws as torch's would; "sample": draws depend on the sample alone.
        position: Of the first transform that runs in Python, in the user's pipeline; for rng="sample".
        pin: Called with each batch; None: batches stay in pageable memory.
        order: Of what is given to a device.
        counters: To add to.
        native_images: Whether JPEG files that the user's code opens with Pillow are decoded natively.
        cache: What is kept of them; None: nothing.
        memory: Of batches.
        is_in_order: Whether a batch depends on those that its worker has made before.
        resume_point: Where each worker goes on; None: it begins.
    """

    make_fetcher: FetcherFactory
    num_workers: int
    base_seed: int
    rng: str
    position: int
    pin: Callable[[Any], Any] | None
    order: DeviceOrder
    counters: ThreadCounters
    set_device: Callable[[], Any] | None
    native_images: bool
    cache: _native.DecodeCache | None
    memory: CollateMemory
    is_in_order: bool
    resume_point: tuple[ResumePoint, ...] | None = None


class StopSignal:
    """Ends the threads of a group. Leads to queues and nothing else: Note [who keeps whom]."""

    def __init__(self, num_threads: int) -> None:
        self.owner_pid = os.getpid()
        self.is_ending = False
        self.changed: queue.SimpleQueue[None] = queue.SimpleQueue()  # an item when a task is done or all is over
        self.tasks: list[queue.SimpleQueue[Task | WorkerStart | None]] = [
            queue.SimpleQueue() for _ in range(num_threads)
        ]

    def signal_end(self) -> None:
        if os.getpid() != self.owner_pid:  # a child has a copy of this object, but not the threads
            return
        self.is_ending = True
        for tasks in self.tasks:
            tasks.put(None)
        self.changed.put(None)


class Worker:
    """What torch's worker process would have for itself; makes its batches, one after the other, in its thread.

    Args:
        plan: What it shares with the others.
        number: From 0.
        own: Its objects, and the generators that they hold.
        is_abandoned: Whether its batches are not wanted any more.
    """

    def __init__(self, plan: WorkerPlan, number: int, own: WorkerObjects, is_abandoned: Callable[[], bool]) -> None:
        self.number = number
        self.is_active = True  # its stream has not ended
        self.context = own_context()
        self.generators = WorkerGenerators(plan.base_seed, number)
        info = worker_info(number, plan.num_workers, plan.base_seed + number, own.code.dataset, self.generators)
        self._memory = WorkerMemory(plan.memory)
        self.globals = WorkerGlobals(info, self.generators.torch, self._memory)
        self.gil_watch = GilWatch(plan.counters)
        self._plan = plan
        self._own = own
        self._is_group_ending = is_abandoned
        self._images = ImageTally()
        self._problem: WorkerProblem | None = None  # why no batch can be made
        self._draws = WorkerDraws(self.generators, own, keeps_held=own.is_copied) if plan.is_in_order else None
        self._places: WorkerPlaces | None = None
        self._state_error: StateError | None = None

    def prepare(self, until_end: contextlib.ExitStack) -> None:
        """Called first, in the thread. What is to be undone when that ends goes to `until_end`."""
        plan = self._plan
        try:
            if plan.set_device is not None:
                plan.set_device()
            until_end.enter_context(_event_loop())
            until_end.enter_context(exchanged())
            if plan.native_images:
                until_end.enter_context(native_images(self._images))
                until_end.enter_context(keeping(plan.cache))
                until_end.enter_context(batch_rows(BatchRows(self._memory.buffer)))
            self._own.enter()
            stream = self._make_stream()
            code = self._own.code
            if code.init_fn is not None:
                with self.generators.entered(), stream.mode():
                    code.init_fn(self.number)
            fetcher = self._own.fetcher = plan.make_fetcher(stream, self.number, code)
            if self._draws is not None:
                if (resume_point := self._resume_point) is None:
                    self._draws.begin(None, "")
                else:
                    self._draws.begin(resume_point.saved, resume_point.field)
                self._places = WorkerPlaces(self._draws, fetcher)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self._fail(error)

    @property
    def _resume_point(self) -> ResumePoint | None:
        return None if self._plan.resume_point is None else self._plan.resume_point[self.number]

    def _fail(self, error: BaseException) -> None:
        """It can make no batch."""
        self._problem = WorkerProblem(error, self.number)
        if isinstance(error, StateError):
            self._state_error = StateError(error.field, error.problem, error.next_step)

    def begin_epoch(self, beginning: WorkerStart) -> None:
        """Begins it, and notes where it stands then."""
        moment, is_stateful = None, False
        try:
            if self._problem is not None or self._places is None:  # no batch, or none that depends on others
                moment = None if self._draws is None else self._draws.copy(is_after_batch=False)
            else:
                self._plan.order.enter()
                with self.generators.entered():
                    resume_point = self._resume_point if beginning.epoch == 1 else None
                    moment = self._places.begin_epoch(beginning.key, beginning.epoch, resume_point)
                is_stateful = self._own.fetcher.is_stateful
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self._fail(error)
        finally:
            beginning.finish(moment, self._state_error, is_stateful=is_stateful)

    def _make_stream(self) -> RandomStream:
        if self._plan.rng == "sample":
            return SampleStream(self._plan.position, self.generators, self._own.generators)
        generators = self.generators
        return TorchStream(lambda: generators.torch, is_of_process=False)

    def make(self, task: Task) -> None:
        """Finishes it, with a batch or with what came in its place."""
        if self._problem is not None:
            task.finish(error=self._problem.new_error())
            return
        try:
            self._plan.order.enter()
            self._memory.begin_batch()
            fetcher: BatchFetcher = self._own.fetcher
            try:
                with self._own.watched(), self.generators.entered():
                    batch = fetcher.fetch(task.request.item, task.request.python_key, task.epoch, self._is_abandoned)
                    make_pixels(batch)
            finally:
                if self._images.is_counting:  # also of an image that was opened for an earlier batch
                    self._plan.counters.add(self._images.take())
            batch = batch if self._plan.pin is None else self._plan.pin(batch)
            mark, behind = self._plan.order.mark(batch), self._behind(task)
            task.finish(batch, mark=mark, account=fetcher.take_account(), behind=behind)
        except AbandonedError:
            pass
        except EndOfStreamError:
            task.finish(behind=self._behind(task, is_end=True), is_end_of_stream=True)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller; who waits for the batch gets it
            words, account = as_worker_raises(error, task.worker_id), self._own.fetcher.take_account()
            task.finish(error=words, account=account, behind=self._behind(task))
            del words
        finally:
            del task  # its error has this frame

    def _behind(self, task: Task, *, is_end: bool = False) -> GeneratorSnapshot | None:
        """Where it stands behind the task, where a state may begin there."""
        if self._places is None:
            return None
        with self.generators.entered():
            return self._places.behind_end() if is_end else self._places.behind_batch(is_asked=task.is_asked)

    def let_go(self) -> None:
        """Called last: what it works with ends in the thread."""
        self._own.end()
        self._places = None
        del self.globals  # get_worker_info() has the dataset

    @property
    def copies(self) -> WorkerObjects | None:
        """Its objects, where they are its own."""
        return self._own if self._own.is_copied else None

    def _is_abandoned(self) -> bool:
        """Asked between samples."""
        self.gil_watch.look()
        return self._is_group_ending()


class WorkerThread(DaemonThread):
    """Has its worker make what it is given, batch after batch; ends the worker's objects with itself.

    Also what torch's iterators have of each worker in their ``_workers``, as far as a thread has it.

    Args:
        stop: Of its group.
        worker: Note [who keeps whom].
        state: Of the thread that iterates.
        counters: To add to.
        report_ready: Called when the thread has set its number of torch's threads, before any code of the user's.
    """

    def __init__(
        self,
        stop: StopSignal,
        worker: Worker,
        state: ThreadState,
        counters: ThreadCounters,
        report_ready: Callable[[], None],
    ) -> None:
        super().__init__(f"fastload-python-{worker.number}")
        self._stop_signal = stop
        self._tasks = stop.tasks[worker.number]
        self._worker = weakref.ref(worker)
        self._copies = worker.copies
        self._state = state
        self._counters = counters
        self._gil_watch = worker.gil_watch
        self._report_ready = report_ready

    @property
    def pid(self) -> int:
        """Of this process."""
        return self._stop_signal.owner_pid

    @property
    def exitcode(self) -> int | None:
        """None while it runs."""
        return None if self.is_alive() else 0

    def terminate(self) -> None:
        """Ends all threads of its iteration after the samples at hand; who waits for a batch gets LoaderClosedError."""
        self.signal_end()

    def signal_end(self) -> None:
        self._stop_signal.signal_end()

    def run(self) -> None:
        try:
            keep_working_directory()
            with self._state.entered(), contextlib.ExitStack() as until_end:
                if num_threads_is_of_thread():
                    torch.get_num_threads()  # at its first use in a thread torch takes the number set last anywhere
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
            if self._copies is not None:
                self._copies.end()
            self._copies = None
            self._lose_beginnings()

    def _call(self, method: Callable[..., None], *arguments: Any) -> None:
        """Calls it in what the worker has for itself. Nothing is left to be done where the group was collected."""
        if (worker := self._worker()) is None:
            return
        set_worker_globals(worker.globals)
        try:
            worker.context.run(method, worker, *arguments)
        finally:
            set_worker_globals(None)
            del worker, arguments  # an error that was raised has this frame, and a task has the error

    def _lose_beginnings(self) -> None:
        """Tells who waits for them that the thread has ended before."""
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
        # Who lets go of an iterator may ask for its state, and that needs where each worker has begun.
        if not self._stop_signal.is_ending or (isinstance(task, WorkerStart) and task.epoch == 1):
            return task
        if isinstance(task, WorkerStart):
            task.finish(None)
        return None


@contextlib.contextmanager
def _event_loop() -> Iterator[None]:
    """In it the calling thread has an event loop where the program uses asyncio, as a process's main thread has."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        yield
        return
    # It keeps the context that it is made in: an empty one, as the worker's may lead back. Note [who keeps whom].
    try:
        loop = contextvars.Context().run(asyncio.new_event_loop)
    except OSError as error:
        # A loop that is half made has a descriptor, and is in a cycle.
        traceback.clear_frames(error.__traceback__)
        _collect_for(1)
        raise
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _collect_for(seconds: float) -> None:
    """Collects cycles until there were some, for so long at most: a call does nothing while another thread collects."""
    deadline = time.monotonic() + seconds
    while gc.collect() == 0 and time.monotonic() < deadline:
        time.sleep(0.001)


def setter_of_current_device() -> Callable[[], Any] | None:
    """What makes this thread's current device that of another, one of fastload's; None where there is no device."""
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
    """Whether torch.set_num_threads() has an effect on the calling thread, and not on all at once."""
    return "ATen parallel backend: OpenMP" in torch.__config__.parallel_info()
