"""Threads of this process in the place of torch's worker processes: batch k belongs to worker k mod N."""

from __future__ import annotations

import functools
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fastload._delivery._device import leave_captures_alone
from fastload._delivery._thread_order import DeviceOrder, Mark
from fastload._errors import LoaderClosedError
from fastload._process._exit import EXIT_JOIN_SECONDS, DaemonThread, exit_state, join_threads
from fastload._threads._counters import ThreadCounters
from fastload._threads._fetcher import BatchFetcher, EndOfStreamError, FetcherFactory
from fastload._threads._gil_watch import GilWatch
from fastload._threads._inherited import ThreadState, own_context
from fastload._threads._init_fn import call_init_fn
from fastload._threads._own_dataset import has_same_values, shallow_copy
from fastload._threads._random_stream import RandomStream, SampleStream, TorchStream
from fastload._threads._splitting import Splitting
from fastload._threads._task import AbandonedError, NotYetError, Piece, Request, SplitBatch, Task, in_turn
from fastload._threads._torch_globals import WorkerGlobals, set_worker_globals, worker_info
from fastload._threads._worker_error import as_worker_raises

# Note [no locks between threads]
# Finalizers run in any thread at any allocation, so that one which waits for a lock may wait for the thread it runs in.
# Whatever close(), finalizers and threads share are therefore SimpleQueues, whose put() never waits, and plain
# attributes that are set once. The locks here are taken by what no finalizer calls.

# Note [who keeps whom]
# The user's code often leads back to the iterator: collate_fn is a method of a trainer that keeps it, or of a loader
# whose iterator is persistent. What lives as long as the threads do (they themselves, the iterator's finalizer, the
# handler at exit) must not lead to that code, or the iterator would never be collected and the threads would never end.
# So a group keeps its threads, and apart from them what makes their pieces; a thread keeps that only while it makes
# one, and else what the finalizer keeps, the _Ender.


@dataclass(frozen=True)
class GroupPlan:
    """How an iterator's threads make batches.

    Attributes:
        make_fetcher: Gives each thread what it makes batches with.
        make_own_fetcher: The same for a thread with a dataset of its own, which it is given first.
        dataset: As get_worker_info() shows it.
        rng: "torch": each worker has a generator; "sample": draws depend on the sample alone.
        position: Of the first transform that runs in Python, in the user's pipeline; for rng="sample".
        splitting: Whether threads may share the samples of a batch.
        in_order: False: whichever batch is done first is the next one.
        init_fn: worker_init_fn.
        collates_as_torch: Whether collate_fn is torch's own, which changes no sample.
        pin: Called with each batch; None: batches stay in pageable memory.
    """

    make_fetcher: FetcherFactory
    make_own_fetcher: Callable[[Any, RandomStream, int], BatchFetcher]
    dataset: Any
    rng: str
    position: int
    splitting: Splitting
    in_order: bool
    init_fn: Callable[[int], None] | None
    collates_as_torch: bool
    pin: Callable[[Any], Any] | None


class _Worker:
    """What torch's worker process would have for itself."""

    def __init__(self, number: int, num_workers: int, seed: int, dataset: Any) -> None:
        self.number = number
        self._identity = number, num_workers, seed
        self.generator = torch.Generator().manual_seed(seed % 2**64)
        self.show(dataset)
        self.last_task: Task | None = None
        self.is_active = True  # its stream has not ended
        self.context = own_context()

    def show(self, dataset: Any) -> None:
        """From now on get_worker_info() has `dataset`."""
        self.info = worker_info(*self._identity, dataset, self.generator)

    def stand_in(self) -> _Worker:
        """One of the same number and seed, whose draws do not count."""
        return _Worker(*self._identity, self.info.dataset)


class _Ender:
    """Ends the threads of a group. Leads to queues and nothing else: Note [who keeps whom]."""

    def __init__(self, num_threads: int) -> None:
        self.owner_pid = os.getpid()
        self.is_ending = False
        self.changed: queue.SimpleQueue[None] = queue.SimpleQueue()  # an item when a task is done or all is over
        self.pieces: list[queue.SimpleQueue[Piece | None]] = [queue.SimpleQueue() for _ in range(num_threads)]

    def signal_end(self) -> None:
        if os.getpid() != self.owner_pid:  # a child has a copy of this object, but not the threads
            return
        self.is_ending = True
        for pieces in self.pieces:
            pieces.put(None)
        self.changed.put(None)


class WorkerGroup:
    """The threads of one iterator, and the batches they were asked for.

    Args:
        plan: What they do.
        num_threads: At least 1.
        base_seed: Worker i is seeded with the sum of this and i.
        counters: To add to.
    """

    def __init__(self, plan: GroupPlan, num_threads: int, base_seed: int, counters: ThreadCounters) -> None:
        self.ender = _Ender(num_threads)
        self.plan = plan
        self.pending: deque[Task] = deque()  # in the order in which they are delivered
        self.workers = [_Worker(number, num_threads, base_seed + number, plan.dataset) for number in range(num_threads)]
        self.order = DeviceOrder()
        self.set_device = None if plan.pin is None else _setter_of_current_device()
        self.init_lock = threading.Lock()
        self.thread_state = ThreadState()
        self._next_worker = 0
        self._submission: Task | None = None  # what was asked for last, perhaps not to the end
        self._epoch = 0
        self.counters = counters
        self._ready: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._distribution = threading.Lock()
        self._held: list[Task] | None = None  # until the first sample has shown whether batches are split
        self._makers = [_PieceMaker(self, worker) for worker in self.workers]
        self._threads = [_WorkerThread(self, maker, number) for number, maker in enumerate(self._makers)]

    def start(self) -> None:
        """Raises RuntimeError where the system refuses a thread."""
        num_torch_threads = torch.get_num_threads()
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._ready.get()
        if num_threads_is_of_thread():
            # Threads of other code begin with what was set last anywhere: not with the 1 of ours.
            torch.set_num_threads(num_torch_threads)

    def restart_order(self) -> None:
        """The next batch is the first thread's; what was asked for before is made, but not delivered."""
        self.pending.clear()
        self._submission = None
        self._next_worker = 0
        self._epoch += 1
        self.order.begin()
        for worker in self.workers:
            worker.is_active = True

    @property
    def is_running(self) -> bool:
        """Whether the threads are of this process and have not been told to end."""
        return os.getpid() == self.ender.owner_pid and not self.is_ending

    @property
    def is_ending(self) -> bool:
        return self.ender.is_ending

    @property
    def has_active_worker(self) -> bool:
        return any(worker.is_active for worker in self.workers)

    def submit(self, request: Request, done: Task | None) -> None:
        """Asks for a batch. There must be an active worker.

        An interrupt may come between any two steps of this. Called again with the same request, before any batch is
        taken, it goes on where it was left: each step can be repeated.

        Args:
            request: What is asked for.
            done: The task in whose place it comes: without order, a worker that has finished one gets the next.
        """
        task = self._submission
        if task is None or task.request is not request:
            is_free = done is not None and not self.plan.in_order and self.workers[done.worker_id].is_active
            worker = self.workers[done.worker_id] if done is not None and is_free else self._worker_in_turn()
            wake = functools.partial(self.ender.changed.put, None)
            next_worker = self._next_worker if is_free else (worker.number + 1) % len(self.workers)
            task = Task(request, self._epoch, worker.number, worker.last_task, wake, next_worker)
            self._submission = task
        with self._distribution:
            self._hand_out(task)
        self._next_worker = task.next_worker
        self.workers[task.worker_id].last_task = task
        if not (self.pending and self.pending[-1] is task):
            self.pending.append(task)

    def end_probe(self) -> None:
        """The first sample is loaded."""
        with self._distribution:
            held, self._held = self._held or [], None
            self.plan.splitting.is_known = True
            for task in held:
                task.pieces = self._pieces(task)
                self._send(task)

    def wait(self, timeout_seconds: float) -> Task:
        """The next task that is done; it stays pending until it is removed. With 0 the wait has no limit.

        Raises:
            RuntimeError: So much time has passed since a batch was done, be it the next one or another, as torch counts
                it; the batch is still pending.
            LoaderClosedError: The threads have been told to end.
        """
        begin = time.monotonic()
        while (task := self._next_done()) is None:
            try:
                self.ender.changed.get(timeout=timeout_seconds or None)
            except queue.Empty:
                raise RuntimeError(f"DataLoader timed out after {timeout_seconds} seconds") from None
        self.counters.add({"consumer_wait_seconds": time.monotonic() - begin})
        if task.is_end_of_stream:
            self.workers[task.worker_id].is_active = False
        return task

    @property
    def has_next(self) -> bool:
        """Whether wait() would return a batch at once, or what came in its place."""
        task = None if self.is_ending else self._next_done()
        return task is not None and not task.is_end_of_stream

    def signal_end(self) -> None:
        """Tells the threads to end after the sample at hand, and who waits for a batch. Waits for nothing."""
        self.ender.signal_end()

    def close(self) -> None:
        """Ends the threads and waits for them, at most a second. Never call it from a finalizer."""
        self.signal_end()
        if os.getpid() == self.ender.owner_pid:
            join_threads(self._threads, EXIT_JOIN_SECONDS)

    def thread_is_ready(self) -> None:
        self._ready.put(None)

    def _worker_in_turn(self) -> _Worker:
        workers = self.workers[self._next_worker :] + self.workers[: self._next_worker]
        return next(worker for worker in workers if worker.is_active)

    def _next_done(self) -> Task | None:
        if self.is_ending:
            exit_state.sleep_if_begun()
            raise closed_error()
        candidates = tuple(self.pending)[:1] if self.plan.in_order else tuple(self.pending)
        return next((task for task in candidates if task.is_done), None)

    # ---- who does what ---------------------------------------------------------------------------------------------

    def _hand_out(self, task: Task) -> None:
        """Gives threads their pieces of a batch, or holds it back until the first sample of all is loaded."""
        if self._held is not None:
            if task not in self._held:
                self._held.append(task)
        elif self.plan.splitting.is_known or not _can_be_split(task):
            if task.pieces is None:
                task.pieces = self._pieces(task)
        else:
            self._split(task)
            task.pieces = [Piece(task, task.worker_id, [0], is_probe=True)]
            self._held = [task]
        self._send(task)

    def _send(self, task: Task) -> None:
        for piece in task.pieces or ():
            self.ender.pieces[piece.thread].put(piece)

    def _pieces(self, task: Task) -> list[Piece]:
        """The first batch may have been split, and its first sample loaded, to find out how the others are made."""
        is_probed = task.split is not None
        if not (self.plan.splitting.is_possible and _can_be_split(task)):
            positions = range(1, len(task.indices)) if is_probed else None
            return [Piece(task, task.worker_id, positions)] if positions is None or len(positions) else []
        if not is_probed:
            self._split(task)
        positions = range(1 if is_probed else 0, len(task.indices))
        num_threads = len(self._threads)
        # The worker's own thread gets the first samples: where there are fewer than threads, not always the same idle.
        return [
            Piece(task, (task.worker_id + offset) % num_threads, positions[offset::num_threads])
            for offset in range(min(num_threads, len(positions)))
        ]

    @staticmethod
    def _split(task: Task) -> None:
        task.split = SplitBatch(len(task.indices))


def closed_error() -> LoaderClosedError:
    return LoaderClosedError("the loader was closed; iterate over it again to start anew")


class _WorkerThread(DaemonThread):
    """Has what it is given made, piece after piece. Keeps what that takes only as long as it lasts."""

    def __init__(self, group: WorkerGroup, maker: _PieceMaker, number: int) -> None:
        super().__init__(f"fastload-python-{number}")
        self._ender = group.ender
        self._pieces = group.ender.pieces[number]
        self._state = group.thread_state
        self._counters = group.counters
        self._gil_watch = maker.gil_watch
        self._maker = weakref.ref(maker)

    def signal_end(self) -> None:
        self._ender.signal_end()

    def run(self) -> None:
        with self._state.entered():
            self._call(_PieceMaker.prepare)
            while (piece := self._next_piece()) is not None:
                self._call(_PieceMaker.make, piece)
                del piece
            self._call(_PieceMaker.let_go)

    def _call(self, method: Callable[..., None], *arguments: Any) -> None:
        """Calls it in what the worker has for itself. Nothing is left to be done where the group was collected."""
        if (maker := self._maker()) is None:
            return
        set_worker_globals(maker.worker_globals)
        try:
            maker.context.run(method, maker, *arguments)
        finally:
            set_worker_globals(None)

    def _next_piece(self) -> Piece | None:
        self._gil_watch.look()
        begin = time.monotonic()
        while (piece := self._pieces.get()) is not None and piece.is_taken:
            del piece
        if piece is not None:
            piece.is_taken = True
        self._counters.add({"worker_wait_seconds": time.monotonic() - begin})
        return None if self._ender.is_ending else piece


class _PieceMaker:
    """Makes the pieces that one thread is given. Kept by its group, which it knows."""

    def __init__(self, group: WorkerGroup, worker: _Worker) -> None:
        self.context = worker.context
        self.worker_globals = WorkerGlobals(self._take_info, self._take_global_generator)
        self.gil_watch = GilWatch(group.counters)
        self._group = group
        self._worker = worker
        self._stream = self._make_stream()
        self._fetcher: BatchFetcher = group.plan.make_fetcher(self._stream, worker.number)
        self._problem: BaseException | None = None  # why no batch can be made
        # Of the sample at hand, for Note [turns].
        self._task: Task | None = None
        self._position = 0
        self._has_turn = False
        self._stand_in: _Worker | None = None  # for what goes on although it was refused its turn

    def _make_stream(self) -> RandomStream:
        plan = self._group.plan
        if plan.rng == "sample":
            return SampleStream(plan.position)
        return TorchStream(self._take_generator, is_of_process=False)

    def prepare(self) -> None:
        """Called first, in the thread."""
        plan = self._group.plan
        try:
            if num_threads_is_of_thread():
                torch.get_num_threads()  # at its first use in a thread torch takes the number set last anywhere
                torch.set_num_threads(1)
            if self._group.set_device is not None:
                self._group.set_device()
            if plan.init_fn is not None:
                with self._group.init_lock, self._stream.mode():
                    self._init(plan.init_fn)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self._problem = error
        self._group.thread_is_ready()

    def _init(self, init_fn: Callable[[int], None]) -> None:
        """Calls it, with a copy of the dataset to set attributes of: see Note [own attributes]."""
        plan, worker = self._group.plan, self._worker
        own = shallow_copy(plan.dataset)
        before = dict(getattr(own, "__dict__", {}))
        worker.show(own)
        call_init_fn(init_fn, worker.number)
        if own is plan.dataset or has_same_values(before, vars(own)):
            worker.show(plan.dataset)
        else:
            self._fetcher = plan.make_own_fetcher(own, self._stream, worker.number)

    def let_go(self) -> None:
        """Called last."""
        del self._fetcher, self._stream  # with scratch memory

    # ---- making ----------------------------------------------------------------------------------------------------

    def make(self, piece: Piece) -> None:
        if self._problem is not None:
            self._refuse(piece, self._problem)
            return
        try:
            self._group.order.enter()
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self._refuse(piece, error)
            return
        if piece.positions is None:
            self._make_batch(piece.task)
        else:
            self._make_samples(piece)
        self._task = None

    def _make_batch(self, task: Task) -> None:
        self._begin(task, 0)
        try:
            batch = self._in_turn(lambda: self._fetcher.fetch(task.indices, task.key, task.epoch, self._is_abandoned))
            self._finish(task, batch)
        except AbandonedError:
            pass
        except EndOfStreamError:
            task.finish(is_end_of_stream=True)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller; who waits for the batch gets it
            self._finish(task, error=error)

    def _make_samples(self, piece: Piece) -> None:
        for position in piece.positions or ():
            is_last = self._make_sample(piece, position)
            if piece.is_probe:
                self._group.end_probe()
            if is_last:
                self._collate(piece.task)

    def _make_sample(self, piece: Piece, position: int) -> bool:
        """Whether it was the last of its batch to be done."""
        task = piece.task
        if self._is_abandoned() or _split_of(task).has_failed_before(position):
            return self._sample_is_done(piece, position)
        self._begin(task, position)
        try:
            sample = self._in_turn(
                lambda: self._fetcher.load(task.indices[position], task.key)  # type: ignore[attr-defined]
            )
            mark = self._group.order.mark(sample)
        except AbandonedError:
            return self._sample_is_done(piece, position)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            return self._sample_is_done(piece, position, error=error)
        return self._sample_is_done(piece, position, sample, mark)

    def _sample_is_done(
        self,
        piece: Piece,
        position: int,
        sample: Any = None,
        mark: Mark | None = None,
        error: BaseException | None = None,
    ) -> bool:
        if piece.positions is None or position == piece.positions[-1]:
            self._fetcher.flush()  # type: ignore[attr-defined]  # before anyone can see the batch
        is_last = _split_of(piece.task).finish(position, sample, mark, error)
        piece.task.announce_progress()
        return is_last

    def _collate(self, task: Task) -> None:
        split = _split_of(task)
        if split.first_error is not None:
            self._finish(task, error=split.first_error)
            return
        if self._is_abandoned():
            return
        samples, split.samples = split.samples, []  # theirs now: collate_fn may return the list itself
        self._begin(task, len(samples))
        try:
            if not self._group.plan.collates_as_torch:
                # It cannot begin anew, as it may change the samples. The wait ends: each thread makes its part of the
                # batches in the order in which they were asked for, so none has this one before what it waits for.
                self._wait_for_turn()
            for sample, mark in zip(samples, split.marks, strict=True):
                self._group.order.take_over(sample, mark)
            batch = self._in_turn(
                lambda: self._fetcher.collate(samples, task.indices, task.key)  # type: ignore[attr-defined]
            )
            self._finish(task, batch)
        except AbandonedError:
            pass
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self._finish(task, error=error)

    def _finish(self, task: Task, batch: Any = None, error: BaseException | None = None) -> None:
        if error is not None:
            task.finish(error=as_worker_raises(error, task.worker_id))
        else:
            batch = batch if self._group.plan.pin is None else self._group.plan.pin(batch)
            task.finish(batch, mark=self._group.order.mark(batch))

    def _refuse(self, piece: Piece, problem: BaseException) -> None:
        self._finish(piece.task, error=problem)
        if piece.is_probe:
            self._group.plan.splitting.forbid()
            self._group.end_probe()

    def _is_abandoned(self) -> bool:
        """Asked between samples."""
        self.gil_watch.look()
        return self._group.is_ending

    # ---- what the sample at hand may know of its worker: Note [turns] ----------------------------------------------

    def _begin(self, task: Task, position: int) -> None:
        self._task, self._position, self._has_turn, self._stand_in = task, position, False, None

    def _in_turn(self, action: Callable[[], Any]) -> Any:
        return in_turn(action, lambda: self._stand_in is not None, self._wait_for_turn)

    def _wait_for_turn(self) -> None:
        assert self._task is not None, "something is being made"
        self._task.wait_for_turn(self._position, lambda: self._group.is_ending)
        self._stand_in = None

    def _worker_at_turn(self) -> _Worker:
        task = self._task
        if task is None:  # worker_init_fn
            return self._worker
        worker = self._group.workers[task.worker_id]
        if self._stand_in is not None:  # not refused again: code that tries until it gets something would never end
            return self._stand_in
        if not self._has_turn:
            if task.split is not None:
                self._group.plan.splitting.forbid()
            if not task.has_turn(self._position):
                self._stand_in = worker.stand_in()
                raise NotYetError
            self._has_turn = True
        return worker

    def _take_generator(self) -> torch.Generator:
        return self._worker_at_turn().generator

    def _take_global_generator(self) -> torch.Generator:
        return self._stream.take_generator()

    def _take_info(self) -> Any:
        return self._worker_at_turn().info


def _can_be_split(task: Task) -> bool:
    """Whether there are samples, in the form in which samplers of torch give them."""
    return type(task.indices) in (list, tuple) and len(task.indices) > 0


def _split_of(task: Task) -> SplitBatch:
    assert task.split is not None, "its samples are asked for one by one"
    return task.split


def _setter_of_current_device() -> Callable[[], Any] | None:
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
