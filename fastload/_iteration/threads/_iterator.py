"""One epoch of a loader whose batches are made, or ended, by threads that run Python."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from fastload._delivery._thread_order import DeviceOrder
from fastload._errors import ForkedProcessError
from fastload._iteration._fingerprint import fingerprint_of_loader
from fastload._iteration._late_epoch import LateEpoch
from fastload._iteration._resumable_iterator import ResumableIterator
from fastload._iteration._state_maker import NO_DRAWS, Draws, StateMaker, order_of
from fastload._iteration.threads._caller import Caller
from fastload._iteration.threads._fetcher import EndOfStreamError
from fastload._iteration.threads._loader_threads import LoaderThreads
from fastload._iteration.threads._moments import MomentLog
from fastload._iteration.threads._saved_places import Span, places_later
from fastload._iteration.threads._sent import Sent
from fastload._iteration.threads._task import Request, Task
from fastload._iteration.threads._thread_plan import ThreadPlan
from fastload._iteration.threads._worker import WorkerPlan, setter_of_current_device
from fastload._iteration.threads._worker_group import WorkerGroup, closed_error
from fastload._iteration.threads._worker_places import GoingOn
from fastload._process._exit import exit_state
from fastload._process._interrupts import is_interrupt
from fastload._resume._saved_state import SavedState
from fastload._resume._torchdata_keys import user_path
from fastload._workers._collate_memory import CollateMemory
from fastload._workers._random_stream import RandomKey
from fastload._workers._worker_objects import make_worker_objects
from fastload.samplers._epoch_order import EpochOrder

# So many sampler's states are kept at most.
_MOST_BATCHES = 2**20


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
        order = self._order_of(loader._index_sampler, plan.every, saved)
        caller = Caller(plan, (_going_on_of(saved, 0) or (None,))[0]) if plan.num_threads == 0 else None
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
        errors = loader._describe_errors()
        fingerprint = functools.partial(fingerprint_of_loader, loader.dataset, loader._index_sampler, errors)
        self._states = StateMaker(loader, plan.way, fingerprint)
        self._is_over = False
        self._late = LateEpoch(loader, saved)
        first, self._position_begun = (0, 0) if saved is None else (saved.begins_at, saved.position)
        self._first_worker = 0 if saved is None or saved.next_worker is None else saved.next_worker
        self._num_threads = plan.num_threads
        self._numbers_are_known = loader.in_order and not plan.is_of_stream
        self._is_of_stream, self._is_in_order, self._every = plan.is_of_stream, plan.is_in_order, plan.every
        exit_state.watch()
        if caller is not None:
            self._epoch = loader._fastload.epoch
            self._begin_with(order, self._sampler_iter, first)
            self._key = self._random_key(loader)
            self._group = None
            # torch asks the data set of a stream for an iterator now, not with the first batch.
            self._caller = caller
            caller.begin_epoch(self._key)
            self._pass_over(self._position_begun - first)
            self._progress = loader._fastload.progress
            return
        self._max_batches = plan.max_batches
        self._group = self._start_threads(loader, plan, going_on)
        try:
            self._begin(loader, order, first, first_iter=True)
            if going_on is not None and going_on.workers is not None:
                for beginning in self._group.beginnings:
                    beginning.check(self._timeout)  # or raises what does not fit
            self._pass_over(self._position_begun - first)
        except BaseException:
            self._group.close()  # whoever keeps the error keeps this iterator
            raise
        self._progress = loader._fastload.progress

    def _order_of(self, index_sampler: Any, every: int, saved: SavedState | None) -> EpochOrder:
        # Of a stateful sampler the states are kept to where a state begins.
        depth = self._depth + (every - 1 if every else _MOST_BATCHES)
        return order_of(index_sampler, depth, saved, takes_keys=True)

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
        self._next_number = self._first = position
        # Where the workers, or the caller, stand behind their last batches: more than may be ahead.
        self._log = MomentLog(max(1, self._num_threads), self._every, self._delivery.prefetch)

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
            plan.cache,
            CollateMemory(plan.max_batches),
            plan.is_in_order,
            _going_on_of(going_on, plan.num_threads),
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
        with self._enter():
            self._resets += 1
            self._late = LateEpoch(loader, None)
            self._first_worker = self._position_begun = 0
            order = self._order_of(self._index_sampler, self._every, None)
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
        self._last_number = 0
        with contextlib.suppress(TypeError):  # it has no length, so that any batch may be the last
            self._last_number = sys.maxsize if self._is_of_stream else len(self._index_sampler)
        first_worker = self._first_worker if self._is_of_stream else position % self._num_threads
        self._group.restart_order(self._key, first_worker)
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
            self._request = self._request_of(self._given[0], is_asked=self._is_asked_behind(group))
        if self._request is not None and group.has_active_worker:
            if not group.submit(self._request, done):
                return False
        elif self._request is not None:
            self._is_exhausted = True
        self._given, self._request = [], None
        return True

    def _request_of(self, given: Any, *, is_asked: bool) -> Request:
        indices = self._order.item(given)
        if self._rng == "torch":
            return Request(indices, self._key, is_asked)
        numbers = self._order.draw_numbers(len(indices) if isinstance(indices, list) else 1)
        key = self._key if numbers is None else self._key._replace(numbers=numbers.tolist())
        return Request(indices, key, is_asked)

    def _pass_over(self, count: int) -> None:
        """Asks for batches that were handed out before the state that was loaded, failed ones too, and drops them."""
        if count > 0 and self._is_of_stream and not self._is_stateful():
            warnings.warn(
                f"{count} batches are asked for again and dropped: neither the data set nor its iterator has both "
                "state_dict() and load_state_dict(), with which a stream goes on at once",
                stacklevel=2,
            )
        for _ in range(count):
            if not self._pass_over_one(self._group):
                break
        self._num_yielded = self._next_number

    def _is_stateful(self) -> bool:
        """Whether data set or stream themselves tell where they stand; known once all workers have begun."""
        if self._group is None:
            return self._caller.is_stateful
        for beginning in self._group.beginnings:
            beginning.check(self._timeout)
        return all(beginning.is_stateful for beginning in self._group.beginnings)

    def _pass_over_one(self, group: WorkerGroup | None) -> bool:
        """Returns whether there was one."""
        if group is None:
            self._order.give(self._given)
            is_there = bool(self._given) and self._caller.pass_over(self._request_of(self._given.pop(), is_asked=False))
            self._next_number += is_there
            return is_there
        try:
            self._take_next(group)
        except StopIteration:
            return False
        sent = self._sent.pop()
        assert sent.task is not None, "a worker has made it"
        self._log.note(sent.number, sent.task.worker_id, sent.task.behind)
        group.pending.remove(sent.task)
        self._next_number += 1
        return True

    def _end_epoch(self) -> None:
        """Nothing comes any more. Raises where that is an interrupt's doing."""
        self._order.check_end()
        self._is_over = True
        if self._is_of_stream and 0 < self._next_number <= self._position_begun:
            self._position_begun = 0  # once is enough
            warnings.warn(
                "the state is of an epoch that was over: the stream gives no batch behind position "
                f"{self._next_number}. Its last batch is not known to be the last before it is asked for another",
                stacklevel=2,
            )

    def _is_asked_behind(self, group: WorkerGroup) -> bool:
        """Whether a state may begin between the batch that is asked for now and the next one of its worker."""
        number = self._next_number + len(group.pending)
        if self._every == 1 or (self._persistent_workers and number + self._num_threads >= self._last_number):
            return True  # the next epoch may go on from there
        if self._every == 0:
            return False
        # A stream that ends moves the numbers of all batches behind it.
        earliest = number if self._numbers_are_known else self._next_number
        return (number + self._num_threads) // self._every > earliest // self._every

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

    def _sampler_position(self, position: int) -> int:
        if self._every == 1:
            return position
        return max(self._first, position - position % self._every) if self._every else self._first

    def _draws_later(self, position: int, *, is_behind_last: bool) -> Callable[[], Draws]:
        if self._group is None:
            return self._draws_of_caller(position, is_behind_last)
        if not self._is_in_order or (is_behind_last and not self._persistent_workers):
            draws = Draws(next_worker=0) if self._is_of_stream else NO_DRAWS
            return lambda: draws
        begins_at = position if is_behind_last else self._sampler_position(position)
        return places_later(
            self._log,
            self._group.beginnings,
            Span(self._first, self._first_worker, begins_at, position, is_behind_last),
            is_of_stream=self._is_of_stream,
            timeout_seconds=self._timeout,
        )

    def _draws_of_caller(self, position: int, is_behind_last: bool) -> Callable[[], Draws]:
        caller, beginning = self._caller, self._caller.beginning
        if beginning is None:
            return lambda: NO_DRAWS
        next_worker, replayed = 0 if self._is_of_stream else None, 0
        if is_behind_last:
            moment = caller.behind_end()
        elif not caller.is_stateful:
            moment, replayed = beginning, position
        elif self._log.is_known(position, 0):
            moment = self._log.at(position, 0)
        else:
            moment = beginning if position == self._first else caller.moment()
        assert moment is not None, "there is a beginning"
        return lambda: Draws(None, (moment.saved(),), replayed, next_worker)

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
            self._end_epoch()
            self._is_exhausted = True
            raise StopIteration
        if self._threads.num_closes != self._num_closes:
            raise closed_error()
        is_first = self._next_number == self._first
        if self._caller.is_stateful and not is_first and not self._log.is_known(self._next_number, 0):
            # Once it has begun with the batch, the place before that cannot be had.
            self._log.note(self._next_number - 1, 0, self._caller.moment())
        try:
            batch = self._caller.fetch(self._request_of(self._given[0], is_asked=False))
            batch = batch if self._pin is None else self._pin(batch)
            self._sent.append(Sent(self._next_number, batch=batch, account=self._caller.take_account()))
        except EndOfStreamError:
            self._given = []
            self._end_epoch()
            raise StopIteration from None
        except BaseException as error:
            account = self._caller.take_account()
            if self._caller.is_of_stream or not is_interrupt(error):
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
            self._log.note(self._next_number - 1, task.worker_id, task.behind, is_end=True)
            group.pending.remove(task)
        if not self._persistent_workers:
            group.signal_end()
        self._end_epoch()
        raise StopIteration

    def _send_last(self, group: WorkerGroup) -> None:
        """Sends what has come last to the device. May be repeated; an error comes in its place."""
        sent = self._sent[-1]
        self._next_number = max(self._next_number, sent.number + 1)  # one behind it may have failed
        if sent.task is not None:
            self._log.note(sent.number, sent.task.worker_id, sent.task.behind)
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


def _going_on_of(saved: SavedState | None, num_workers: int) -> tuple[GoingOn, ...] | None:
    """Where each worker goes on, or the caller where there is none; None: they begin."""
    if saved is None or saved.workers is None:
        return None
    is_in_epoch = saved.moment == "in an epoch"
    return tuple(
        GoingOn(worker, is_in_epoch, f"fastload.workers[{number}]", user_path(num_workers, number))
        for number, worker in enumerate(saved.workers)
    )
