"""One epoch of a loader whose batches are made, or ended, by threads that run Python."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from fastload._delivery._hand_over import Delivery
from fastload._delivery._thread_order import DeviceOrder
from fastload._errors import ForkedProcessError
from fastload._images._array_dataset import innermost
from fastload._process._base_iterator import BaseIterator
from fastload._process._exit import LiveObjects, exit_state
from fastload._threads._collate_memory import CollateMemory
from fastload._threads._counters import ThreadCounters
from fastload._threads._dataset import IterableFetcher
from fastload._threads._dataset_lock import lock_of
from fastload._threads._fetcher import EndOfStreamError, FetcherFactory
from fastload._threads._inherited import without_inference
from fastload._threads._random_stream import RandomKey, RandomStream, SampleStream, TorchStream
from fastload._threads._task import Request, Task
from fastload._threads._torch_globals import generator_of_thread
from fastload._threads._worker import WorkerPlan, setter_of_current_device
from fastload._threads._worker_group import WorkerGroup, closed_error
from fastload._threads._worker_objects import UserCode, make_worker_objects, warn_of_changing_globals
from fastload._worker_state._generators import WorkerGenerators, exchanged
from fastload._worker_state._objects import held_generators


class LoaderThreads:
    """What a loader keeps of its iterations in threads: those that run, and what all of them have counted."""

    def __init__(self) -> None:
        self.counters = ThreadCounters()
        self.num_closes = 0
        self._groups: LiveObjects[WorkerGroup] = LiveObjects()
        self._has_looked_at_globals = False

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a loader begins with none and nothing counted."""
        return LoaderThreads, ()

    def dataset_lock(self, dataset: Any) -> AbstractContextManager[Any]:
        """Held by who asks a dataset that is not thread-safe.

        Loaders of the same one share it, also where they have Subsets of it; but for a dataset that cannot be weakly
        referenced, as a list, this loader has one of its own.
        """
        try:
            return lock_of(innermost(dataset))
        except TypeError:
            return lock_of(self)

    def add(self, group: WorkerGroup) -> None:
        self._groups.add(group)

    def look_at_globals(self, code: UserCode) -> None:
        """Warns, once, of those that workers change."""
        if not self._has_looked_at_globals:
            self._has_looked_at_globals = True
            warn_of_changing_globals(code)

    def close(self) -> None:
        """Ends every iteration and its threads; those that wait for a batch get LoaderClosedError."""
        self.num_closes += 1
        groups = self._groups.all()
        for group in groups:
            group.signal_end()
        for group in groups:
            group.close()

    def stats(self) -> dict[str, Any]:
        """Counters by the names of LoaderStats."""
        running = [group for group in self._groups.all() if group.is_running]
        pending = [task for group in running for task in tuple(group.pending)]
        depth = sum(task.is_done for task in pending)
        held = sum(group.memory.bytes_held for group in running)
        now = {"batches_in_flight": len(pending), "queue_depth": depth, "bytes_held": held}
        return {**self.counters.snapshot(), **now}


@dataclass(frozen=True)
class ThreadPlan:
    """How an iteration makes its batches.

    Attributes:
        make_fetcher: Gives each thread what it makes batches with.
        code: The user's.
        copied: Whether each worker has a copy of that.
        rng: "torch" or "sample", as of the loader.
        position: Of the first transform that runs in Python, in the user's pipeline.
        num_threads: 0: the caller makes the batches.
        max_batches: The most that are asked for ahead, where there are threads.
        delivery: To a device, or none.
        native_images: Whether workers decode JPEG files natively that the user's code opens with Pillow.
    """

    make_fetcher: FetcherFactory
    code: UserCode
    copied: bool
    rng: str
    position: int
    num_threads: int
    max_batches: int
    delivery: Delivery
    native_images: bool


class ThreadIterator(BaseIterator):
    """Yields what collate_fn makes of the samples, as torch's iterators do, with threads instead of processes.

    With rng="torch" the numbers drawn from torch's generators are those that torch's DataLoader would have drawn.
    """

    def __init__(self, loader: Any, threads: LoaderThreads, plan: ThreadPlan) -> None:
        """`loader` is a fastload.DataLoader; the iterator does not keep it."""
        super().__init__(loader)
        self._owner_pid = os.getpid()
        self._threads = threads
        self._num_closes = threads.num_closes
        self._counters = threads.counters
        self._rng = plan.rng
        self._delivery = plan.delivery
        # Not a method of this: the threads get it, and must not know the iterator.
        pinned = self._delivery.pinned
        self._pin: Callable[[Any], Any] | None = None
        if self._delivery.device is not None:
            self._pin = pinned.pin_host_tensors
        elif self._pin_memory:
            self._pin = functools.partial(pinned.pin, device=self._pin_memory_device or None)
        # On their way to the device, or there; what came in the place of a batch comes last.
        self._sent: collections.deque[_Sent] = collections.deque()
        self._error_behind_sent: Exception | None = None
        # Two threads may share an iterator: each batch goes to one of them.
        self._lock = threading.Lock()
        self._resets = 0
        self._numbers = itertools.count()  # of batches
        exit_state.watch()
        if plan.num_threads == 0:
            self._caller = _Caller(plan)
            self._fetcher = plan.make_fetcher(self._caller.stream, None, plan.code)
            self._key = self._random_key(loader)
            self._group = None
            if isinstance(self._fetcher, IterableFetcher):  # torch asks the dataset now, not with the first batch
                with self._caller.draws():
                    self._fetcher.begin(self._key, 0)
            return
        self._max_batches = plan.max_batches
        self._group = self._start_threads(loader, plan)
        self._begin(loader, first_iter=True)

    def _start_threads(self, loader: Any, plan: ThreadPlan) -> WorkerGroup:
        worker_plan = WorkerPlan(
            plan.make_fetcher,
            plan.num_threads,
            int(self._base_seed),
            plan.rng,
            plan.position,
            self._pin,
            DeviceOrder(),
            self._counters,
            None if self._pin is None else setter_of_current_device(),
            plan.native_images,
            CollateMemory(plan.max_batches),
        )
        if plan.copied:
            self._threads.look_at_globals(plan.code)
        objects = make_worker_objects(plan.code, plan.num_threads, copied=plan.copied)
        group = WorkerGroup(worker_plan, objects, in_order=loader.in_order, max_batches=plan.max_batches)
        self._workers = group.threads
        weakref.finalize(self, group.ender.signal_end).atexit = False
        self._threads.add(group)
        group.start()
        return group

    @property
    def is_running(self) -> bool:
        """Whether more batches can come: its threads are of this process and have not been told to end."""
        return os.getpid() == self._owner_pid if self._group is None else self._group.is_running

    def _shutdown_workers(self) -> None:
        """Ends the threads. Classes derived from torch's loader that keep an iterator call it, as torch's has it."""
        if self._group is not None:
            self._group.signal_end()

    @property
    def batch_report(self) -> NoReturn:
        """Raises AttributeError: native batches have reports, and these are none."""
        raise AttributeError(
            "batch_report() is of native batches only: what the Python part of a sample did to it is not known. The "
            "loader's explain() says why the batches are not native"
        )

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another epoch on the same iterator; torch calls it for persistent_workers.

        As torch's workers do, the threads make what they were asked for in the epoch before, and go on with their
        random numbers from there.
        """
        self._resets += 1
        self._begin(loader, first_iter)

    def _begin(self, loader: Any, first_iter: bool) -> None:
        assert self._group is not None, "torch keeps an iterator only where there are workers"
        # torch asks the sampler for an iterator here for a second time, and uses this one; samplers may count on it.
        super()._reset(loader, first_iter)
        self._key = self._random_key(loader)
        self._sent.clear()
        self._error_behind_sent = None
        self._group.restart_order()
        self._is_exhausted = False
        # What the sampler gave last, until threads have it: an item or none.
        self._given: collections.deque[Any] = collections.deque()
        self._request: Request | None = None
        self._numbers = itertools.count()
        self._submit_up_to(self._max_batches, self._group)

    def _random_key(self, loader: Any) -> RandomKey:
        if self._rng == "torch":
            return 0, 0
        seed, epoch = loader._random_key(int(self._base_seed), self._resets)
        return int(seed), int(epoch)

    def _submit_up_to(self, count: int, group: WorkerGroup, done: Task | None = None) -> None:
        """Asks for batches until `count` are on their way. What an interrupt has left undone comes first."""
        has_room = self._submit_given(group, done)
        while has_room and len(group.pending) < count and not self._is_exhausted:
            next_of_sampler = itertools.islice(self._sampler_iter, 1)
            try:
                self._given.extend(next_of_sampler)  # one call of C: no interrupt comes between taking and keeping
            except BaseException:
                if done is not None and not self._given:
                    group.pending.remove(done)  # in torch, too, a sampler that fails costs the batch at hand
                raise
            self._is_exhausted = not self._given
            has_room = self._submit_given(group, done)

    def _submit_given(self, group: WorkerGroup, done: Task | None) -> bool:
        """Asks for the batch that the sampler gave last; False: no worker may be asked now. Steps can be repeated."""
        if self._given and self._request is None:
            self._request = Request(self._given[0], self._key)
        if self._request is not None and group.has_active_worker:
            if not group.submit(self._request, done):
                return False
        elif self._request is not None:
            self._is_exhausted = True
        self._given.clear()
        self._request = None
        return True

    def _next_data(self) -> Any:
        if os.getpid() != self._owner_pid:
            raise ForkedProcessError("this iterator", self._owner_pid)
        exit_state.sleep_if_begun()
        with self._lock:
            sent = self._next_of_caller() if self._group is None else self._next_sent(self._group)
        self._counters.add({"batches_delivered": 1})
        return self._delivery.hand_over(sent.batch, sent.number)

    def _next_of_caller(self) -> _Sent:
        indices = self._next_index()  # type: ignore[no-untyped-call]
        number = next(self._numbers)
        if self._threads.num_closes != self._num_closes:
            raise closed_error()
        try:
            with self._caller.draws():
                batch = self._fetcher.fetch(indices, self._key, 0, lambda: False)
        except EndOfStreamError:
            raise StopIteration from None
        sent = _Sent(batch if self._pin is None else self._pin(batch), number)
        sent.move(self._delivery)
        return sent

    def _next_sent(self, group: WorkerGroup) -> _Sent:
        """The next batch, on its way to the device; those behind it that are made already are sent there too."""
        if not self._sent:
            self._raise_error_behind_sent()
            self._send_next(group)
        while len(self._sent) <= self._delivery.prefetch and group.has_next and self._error_behind_sent is None:
            try:
                self._send_next(group)
            except Exception as error:  # noqa: BLE001 - what comes in the place of a batch comes in its turn
                self._error_behind_sent = error
        try:
            self._sent[0].move(self._delivery)  # again, where an interrupt came before
        except Exception:
            self._sent.popleft()  # the error comes in its place
            raise
        return self._sent.popleft()

    def _raise_error_behind_sent(self) -> None:
        error, self._error_behind_sent = self._error_behind_sent, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame

    def _send_next(self, group: WorkerGroup) -> None:
        with self._delivery.on_copy_stream():  # what the batch's thread gave to the device comes before it
            self._sent.append(self._next_of_threads(group))
        try:
            self._sent[-1].move(self._delivery)
        except Exception:
            self._sent.pop()  # the error comes in its place
            raise

    def _next_of_threads(self, group: WorkerGroup) -> _Sent:
        # What an interrupt has cost is asked for again, and a batch that is done stays pending until it is returned.
        self._submit_up_to(self._max_batches, group)
        while group.pending:
            task = group.wait(self._timeout)
            exit_state.sleep_if_begun()
            self._submit_up_to(self._max_batches + 1, group, task)
            group.pending.remove(task)
            if not task.is_end_of_stream:
                number = next(self._numbers)
                batch = task.take()
                if group.thread_state.is_inference and not torch.is_inference_mode_enabled():
                    batch = without_inference(batch)
                with self._delivery.naming(batch, number):
                    group.order.take_over(batch, task.mark)
                return _Sent(batch, number)
        if not self._persistent_workers:
            group.signal_end()
        raise StopIteration


class _Sent:
    """A batch that was made: an interrupt finds it here, on its way to the device or not."""

    def __init__(self, batch: Any, number: int) -> None:
        self.batch = batch
        self.number = number
        self._is_moved = False

    def move(self, delivery: Delivery) -> None:
        if not self._is_moved:
            self.batch = delivery.move(self.batch, self.number)
            self._is_moved = True


class _Caller:
    """What the thread that iterates draws from where it makes the batches."""

    def __init__(self, plan: ThreadPlan) -> None:
        self._generators = WorkerGenerators(0, 0) if plan.rng == "sample" else None
        self.stream: RandomStream
        if self._generators is None:
            self.stream = TorchStream(generator_of_thread, is_of_process=True)
        else:
            self.stream = SampleStream(plan.position, self._generators, held_generators(tuple(plan.code)))

    @contextlib.contextmanager
    def draws(self) -> Iterator[None]:
        """In it Python draws from the stream: with rng="torch" that is what the program draws from."""
        if self._generators is None:
            yield
            return
        with exchanged(), self._generators.entered():
            yield
