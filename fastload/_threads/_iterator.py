"""One epoch of a loader whose batches are made, or ended, by threads that run Python."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from torch.utils.data import IterableDataset

from fastload._delivery._hand_over import Delivery
from fastload._delivery._thread_order import DeviceOrder
from fastload._epochs._fingerprint import fingerprint_of_loader
from fastload._epochs._late_epoch import LateEpoch
from fastload._epochs._resumable_iterator import ResumableIterator
from fastload._epochs._state_maker import NO_DRAWS, Draws, StateMaker, order_of
from fastload._errors import ForkedProcessError
from fastload._process._exit import exit_state
from fastload._process._interrupts import is_interrupt
from fastload._quarantine._quarantine import Quarantine
from fastload._resume._obstacles import NOT_OF_STREAMS, obstacle
from fastload._resume._saved_state import SavedState, Way
from fastload._threads._collate_memory import CollateMemory
from fastload._threads._dataset import IterableFetcher
from fastload._threads._fetcher import EndOfStreamError, FetcherFactory
from fastload._threads._loader_threads import LoaderThreads
from fastload._threads._random_stream import RandomKey, RandomStream, SampleStream, TorchStream
from fastload._threads._sent import Sent
from fastload._threads._task import Request, Task
from fastload._threads._torch_globals import generator_of_thread
from fastload._threads._worker import WorkerPlan, setter_of_current_device
from fastload._threads._worker_draws import Beginning, Moment
from fastload._threads._worker_group import WorkerGroup, closed_error
from fastload._threads._worker_objects import UserCode, make_worker_objects
from fastload._worker_state._generators import WorkerGenerators, exchanged
from fastload._worker_state._objects import held_generators
from fastload.samplers._epoch_order import EpochOrder


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
        quarantine: Counts bad samples, where they are replaced or left out.
        way: Who makes the batches, as states say it.
        saved: Where the iteration begins; None: at the beginning of an epoch.
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
    quarantine: Quarantine | None
    way: Way
    saved: SavedState | None


class ThreadIterator(ResumableIterator):
    """Yields what collate_fn makes of the samples, as torch's iterators do, with threads instead of processes.

    With rng="torch" the numbers drawn from torch's generators are those that torch's DataLoader would have drawn.
    """

    def __init__(self, loader: Any, threads: LoaderThreads, plan: ThreadPlan) -> None:
        """`loader` is a fastload.DataLoader; the iterator does not keep it."""
        saved = plan.saved
        going_on = saved if saved is not None and saved.goes_on else None
        # One more than the batches that may be ahead is being handed over.
        self._depth = plan.max_batches + plan.delivery.prefetch + 2
        order = order_of(loader._index_sampler, self._depth, saved, takes_keys=True)
        super().__init__(loader, plan.delivery, order, going_on)
        self._owner_pid = os.getpid()
        self._threads = threads
        self._num_closes = threads.num_closes
        self._counters = threads.counters
        self._rng = plan.rng
        self._quarantine = plan.quarantine
        # Not a method of this: the threads get it, and must not know the iterator.
        pinned = self._delivery.pinned
        self._pin: Callable[[Any], Any] | None = None
        if self._delivery.device is not None:
            self._pin = pinned.pin_host_tensors
        elif self._pin_memory:
            self._pin = functools.partial(pinned.pin, device=self._pin_memory_device or None)
        self._resets = 0 if going_on is None else going_on.resets
        self._obstacle = NOT_OF_STREAMS if isinstance(plan.code.dataset, IterableDataset) else None
        errors = loader._describe_errors()
        fingerprint = functools.partial(fingerprint_of_loader, loader.dataset, loader._index_sampler, errors)
        self._states = StateMaker(loader, plan.way, fingerprint)
        self._is_over = False
        self._late = LateEpoch(loader, saved)
        self._position_begun = 0 if saved is None else saved.position
        self._moments: list[collections.deque[tuple[int, Moment]]] = []
        exit_state.watch()
        if plan.num_threads == 0:
            self._epoch = loader._fastload.epoch
            self._begin_with(order, self._sampler_iter, self._position_begun)
            self._caller = _Caller(plan)
            self._fetcher = plan.make_fetcher(self._caller.stream, None, plan.code)
            self._key = self._random_key(loader)
            self._group = None
            if isinstance(self._fetcher, IterableFetcher):  # torch asks the dataset now, not with the first batch
                with self._caller.draws():
                    self._fetcher.begin(self._key, 0)
            self._progress = loader._fastload.progress
            return
        self._max_batches = plan.max_batches
        self._group = self._start_threads(loader, plan, going_on)
        try:
            self._begin(loader, order, self._position_begun, first_iter=True)
        except BaseException:
            self._group.close()  # whoever keeps the error keeps this iterator
            raise
        self._progress = loader._fastload.progress

    def _begin_with(self, order: EpochOrder, sampler_iter: Iterator[Any], position: int) -> None:
        """Nothing has been asked for yet behind that position."""
        order.begin(sampler_iter)
        self._order = order
        self._is_exhausted = self._is_over = False
        self._num_yielded = position
        self._given: list[Any] = []  # what the sampler gave last, until it is asked for: an item or none
        # What has come, the oldest first: on its way to the device, or there. What came in the place of one is last.
        self._sent: collections.deque[Sent] = collections.deque()
        self._error_behind_sent: Exception | None = None
        self._in_hand: Sent | None = None  # what the batch in hand is made of
        self._next_number = position

    def _start_threads(self, loader: Any, plan: ThreadPlan, going_on: SavedState | None) -> WorkerGroup:
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
            None if going_on is None else going_on.workers,
        )
        if plan.copied:
            self._threads.look_at_globals(plan.code)
        objects = make_worker_objects(plan.code, plan.num_threads, copied=plan.copied)
        group = WorkerGroup(worker_plan, objects, in_order=loader.in_order, max_batches=plan.max_batches)
        self._workers = group.threads
        weakref.finalize(self, group.ender.signal_end).atexit = False
        self._threads.add(group)
        group.start()
        if worker_plan.saved is not None:
            try:
                for beginning in group.beginnings:
                    beginning.wait(self._timeout)  # or raises what does not fit
            except BaseException:
                group.close()
                raise
        return group

    @property
    def is_running(self) -> bool:
        """Whether more batches can come: its threads are of this process and have not been told to end."""
        return os.getpid() == self._owner_pid if self._group is None else self._group.is_running

    def state_dict(self) -> dict[str, Any]:
        """Tells where the next batch comes from, for DataLoader.load_state_dict().

        Waits for workers that have not begun, at most as long as for a batch.

        Raises:
            StateError: a stream's batches are not resumed yet.
            ForkedProcessError: the iterator is of another process.
        """
        if self._obstacle is not None:
            raise obstacle("this iterator", self._obstacle)
        return super().state_dict()

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
        with self._enter():
            self._resets += 1
            self._late = LateEpoch(loader, None)
            order = order_of(self._index_sampler, self._depth, None, takes_keys=True)
            self._begin(loader, order, 0, first_iter)

    def _begin(self, loader: Any, order: EpochOrder, position: int, first_iter: bool) -> None:
        assert self._group is not None, "torch keeps an iterator only where there are workers"
        # torch asks the sampler for an iterator here for a second time, and uses this one; samplers may count on it.
        with order.asking() if order.is_asked_by_torch else contextlib.nullcontext():
            super()._reset(loader, first_iter)
        self._key = self._random_key(loader)
        self._epoch = loader._fastload.epoch
        self._hand = []
        self._begin_with(order, self._sampler_iter, position)
        num_workers = len(self._workers)
        self._group.restart_order(position % num_workers)
        # What each worker draws from behind its last batches, with their numbers: more than may be ahead.
        self._moments = [collections.deque(maxlen=self._delivery.prefetch + 3) for _ in range(num_workers)]
        self._request: Request | None = None
        if not self._late.is_open:
            self._submit_up_to(self._max_batches, self._group)

    def _random_key(self, loader: Any) -> RandomKey:
        if self._rng == "torch":
            return RandomKey(0, 0)
        seed, epoch = loader._random_key(int(self._base_seed), self._resets)
        return RandomKey(int(seed), int(epoch))

    def _set_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        if self._late.is_seeded:
            self._key = self._key._replace(epoch=epoch)

    def _submit_up_to(self, count: int, group: WorkerGroup, done: Task | None = None) -> None:
        """Asks for batches until `count` are on their way. What an interrupt has left undone comes first."""
        has_room = self._submit_given(group, done)
        while has_room and len(group.pending) < count and not self._is_exhausted:
            try:
                self._order.give(self._given)
            except BaseException as error:
                if done is not None and not is_interrupt(error):
                    group.pending.remove(done)  # in torch, too, a sampler that fails costs the batch at hand
                raise
            self._is_exhausted = not self._given
            has_room = self._submit_given(group, done)

    def _submit_given(self, group: WorkerGroup, done: Task | None) -> bool:
        """Asks for the batch that the sampler gave last; False: no worker may be asked now. Steps can be repeated."""
        if self._given and self._request is None:
            self._request = self._request_of(self._given[0])
        if self._request is not None and group.has_active_worker:
            if not group.submit(self._request, done):
                return False
        elif self._request is not None:
            self._is_exhausted = True
        self._given, self._request = [], None
        return True

    def _request_of(self, given: Any) -> Request:
        indices = self._order.item(given)
        if self._rng == "torch":
            return Request(indices, self._key)
        numbers = self._order.draw_numbers(len(indices) if isinstance(indices, list) else 1)
        return Request(indices, self._key if numbers is None else self._key._replace(numbers=numbers.tolist()))

    def _check(self) -> None:
        self._check_process()
        if self._group is not None and threading.current_thread() in self._group.threads:
            raise ValueError(
                "iterator already executing: code of the data set, collate_fn or worker_init_fn calls next() on the "
                "iterator that waits for it. Give that code an iterator of its own: iter(loader)"
            )
        exit_state.sleep_if_begun()

    def _make(self) -> None:
        if self._quarantine is not None:
            self._quarantine.check()
        self._follow_epoch()
        self._late.is_open = False
        sent = self._next_of_caller() if self._group is None else self._next_sent(self._group)
        self._in_hand = sent
        self._hand_over(sent.batch)

    @property
    def position(self) -> int:
        """Batches that were handed out, failed ones too."""
        if self._hand and self._in_hand is not None:
            return self._in_hand.number
        if self._sent:
            return self._sent[0].number
        return self._next_number - (0 if self._error_behind_sent is None else 1)

    @property
    def _has_batches_ahead(self) -> bool:
        is_ahead = bool(self._hand or self._sent or self._error_behind_sent)
        return is_ahead or (self._group is not None and bool(self._group.pending))

    def _draws_later(self, position: int) -> Callable[[], Draws]:
        if self._group is None or self._rng == "sample":
            return lambda: NO_DRAWS
        found = [self._moment_at(position, number) for number in range(len(self._workers))]
        timeout = self._timeout
        return lambda: (None, tuple(_moment_of(each, timeout).saved() for each in found))

    def _moment_at(self, position: int, worker: int) -> Moment | Beginning:
        assert self._group is not None, "it has workers"
        behind = [moment for number, moment in self._moments[worker] if number < position]
        return behind[-1] if behind else self._group.beginnings[worker]

    def _note_moment(self, number: int, task: Task) -> None:
        """What is drawn behind a batch that has come; may be called again for the same one."""
        moments = self._moments[task.worker_id]
        if task.behind is not None and not (moments and moments[-1][0] == number):
            moments.append((number, task.behind))

    def _check_process(self) -> None:
        if os.getpid() != self._owner_pid:
            raise ForkedProcessError("this iterator", self._owner_pid)

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._owner_pid

    @property
    def _number(self) -> int:
        return 0 if self._in_hand is None else self._in_hand.number

    def _let_go(self) -> None:
        if self._sent and self._sent[0] is self._in_hand:
            self._counters.add({"batches_delivered": 1})
            self._count(self._sent[0])
            del self._sent[0]

    def _count(self, sent: Sent) -> None:
        """The samples of what is handed out, a batch or an error."""
        if self._quarantine is not None and sent.account is not None:
            self._quarantine.count(sent.account, self._epoch, sent.number)

    def _next_of_caller(self) -> Sent:
        if not self._sent:
            self._fetch()
        sent = self._sent[0]
        self._given, self._next_number = [], sent.number + 1
        try:
            sent.move(self._delivery)
        except BaseException as error:
            if not is_interrupt(error):
                del self._sent[0]  # the error comes in its place
            raise
        return sent

    def _fetch(self) -> None:
        """Makes the next batch in the calling thread. After an interrupt it is made again, of the same indices; a
        stream's samples are taken only once."""
        if not self._given:
            self._order.give(self._given)
        if not self._given:
            self._order.check_end()
            self._is_exhausted = self._is_over = True
            raise StopIteration
        if self._threads.num_closes != self._num_closes:
            raise closed_error()
        try:
            request = self._request_of(self._given[0])
            with self._caller.draws():
                batch = self._fetcher.fetch(request.indices, request.key, 0, lambda: False)
            batch = batch if self._pin is None else self._pin(batch)
            self._sent.append(Sent(self._next_number, batch=batch, account=self._fetcher.take_account()))
        except EndOfStreamError:
            self._given, self._is_over = [], True
            raise StopIteration from None
        except BaseException as error:
            account = self._fetcher.take_account()
            if isinstance(self._fetcher, IterableFetcher) or not is_interrupt(error):
                self._count(Sent(self._next_number, account=account))
                self._given, self._next_number = [], self._next_number + 1
            raise

    def _next_sent(self, group: WorkerGroup) -> Sent:
        """The next batch, on its way to the device; those behind it that are made already are sent there too."""
        if not self._sent:
            self._raise_error_behind_sent()
            self._take_next(group)
        self._send_last(group)
        while len(self._sent) <= self._delivery.prefetch and group.has_next and self._error_behind_sent is None:
            try:
                self._take_next(group)
                self._send_last(group)
            except Exception as error:
                if is_interrupt(error):
                    raise
                self._error_behind_sent = error.with_traceback(None)  # it comes in its turn
        return self._sent[0]

    def _raise_error_behind_sent(self) -> None:
        error, self._error_behind_sent = self._error_behind_sent, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame

    def _take_next(self, group: WorkerGroup) -> None:
        """Appends what has come next, still to be sent."""
        # What an interrupt has cost is asked for again, and a batch that is done stays pending until it is returned.
        self._submit_up_to(self._max_batches, group)
        while group.pending:
            task = group.wait(self._timeout)
            exit_state.sleep_if_begun()
            self._submit_up_to(self._max_batches + 1, group, task)
            if not task.is_end_of_stream:
                self._sent.append(Sent(self._next_number, task=task))
                return
            group.pending.remove(task)
        if not self._persistent_workers:
            group.signal_end()
        self._order.check_end()
        self._is_over = True
        raise StopIteration

    def _send_last(self, group: WorkerGroup) -> None:
        """Sends what has come last to the device. May be repeated; an error comes in its place."""
        sent = self._sent[-1]
        self._next_number = max(self._next_number, sent.number + 1)  # one behind it may have failed
        if sent.task is not None:
            self._note_moment(sent.number, sent.task)
            if sent.task in group.pending:
                group.pending.remove(sent.task)
        try:
            with self._delivery.on_copy_stream():  # what the batch's thread gave to the device comes before it
                sent.open(group, self._delivery)
            sent.move(self._delivery)
        except BaseException as error:
            if not is_interrupt(error) or sent.has_failed:
                self._count(sent)
                del self._sent[-1]
            raise
        finally:
            del sent  # the traceback of a task's error has this frame


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


def _moment_of(found: Moment | Beginning, timeout_seconds: float) -> Moment:
    return found.wait(timeout_seconds) if isinstance(found, Beginning) else found
