"""One epoch of a loader: the iterator over its batches, independent of their maker."""

from __future__ import annotations

import collections
import contextlib
import functools
import operator
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import numpy as np
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from fastload import _native
from fastload._errors import ForkedProcessError
from fastload._iteration._maker import BatchMaker, EpochStart, MadeBatch, Request, TorchValues
from fastload._iteration._saved_state import SavedState
from fastload._iteration._setup import LoaderSetup
from fastload._iteration._states import generator_state, order_from
from fastload._process._config import TorchDataLoader
from fastload._process._distributed import rank_and_world_size
from fastload._process._exit import exit_state
from fastload._process._interrupts import is_interrupt
from fastload._process._waits import ConsumerClock
from fastload._resume._generators import ProgramReplay
from fastload.samplers._epoch_order import EpochOrder
from fastload.samplers._own_batches import sequential_key
from fastload.samplers._resting import SavedSampler, common_epoch, depends_on_epoch, known_length
from fastload.samplers._sampled import BadIndicesError

# The most states of a stateful sampler that are kept.
_MOST_BATCHES = 2**20


class EpochIterator(_BaseDataLoaderIter, _native.Droppable):
    """Yields the batches of an epoch in order. Threads may share it: each batch goes to one of them.

    No interrupt loses a batch: Note [interrupts]. A batch waits in `_ready` until C code takes it out, as the last step
    of next(). An interrupt falls before that step, and the next call continues with what it finds.

    The loader is for torch's base class and not kept. The maker is not started yet.
    """

    __next__ = _native.next_when_ready
    _is_interrupt = staticmethod(is_interrupt)
    _begun_key: tuple[int, int, bool] | None = None  # of the next epoch, if it was begun early
    _has_begun_early = False  # all of its first batches were requested

    def __init__(self, loader: TorchDataLoader[Any], setup: LoaderSetup, maker: BatchMaker) -> None:
        saved, resumed = setup.saved, setup.resumed
        order = self._order_from(setup, maker, saved)
        with contextlib.ExitStack() as stack:
            # Workers that continue have their seeds already.
            if resumed is not None:
                stack.enter_context(_nothing_drawn(setup.generator))
            if setup.num_workers == 0 and order.is_asked_by_torch:
                stack.enter_context(order.asking())
            super().__init__(loader)
        if resumed is not None:
            assert resumed.base_seed is not None, "the workers continue"
            self._base_seed, self._shared_seed = resumed.base_seed, resumed.graph_seed
            if setup.generator is not None and resumed.generator is not None:
                setup.generator.set_state(resumed.generator)
        self._graph_seed = self._shared_seed
        self._setup, self._delivery = setup, setup.delivery
        self._owner_pid = os.getpid()
        self._clock = ConsumerClock(setup.waits)
        self._turn = threading.RLock()  # held by the thread that iterates; re-entrant, to know its owner
        self._resets = 0 if resumed is None else resumed.resets
        exit_state.watch()
        self._maker = maker
        pin_device = self._pin_memory_device or None
        base_seed, pins = int(self._base_seed), bool(self._pin_memory)
        maker.start(TorchValues(base_seed, self._graph_seed, pins, pin_device, self._timeout))
        try:
            if maker.threads:
                self._workers = maker.threads
            self._begin(loader, order, saved, first_iter=True)
        except BaseException:
            maker.close()
            del self._maker  # the error refers to this frame, and would keep the maker's objects
            raise
        self._progress = setup.progress

    # ---- an epoch begins -------------------------------------------------------------------------------------------

    @staticmethod
    def _order_from(setup: LoaderSetup, maker: BatchMaker, saved: SavedState | None) -> EpochOrder:
        # The states of a stateful sampler are kept back to the batch at which a saved state may begin.
        every = maker.snapshot_every
        depth = setup.max_batches + setup.delivery.prefetch + 2 + (every - 1 if every else _MOST_BATCHES)
        return order_from(saved, setup.index_sampler, depth)

    def _reset(self, loader: TorchDataLoader[Any], first_iter: bool = False) -> None:
        """Begins another epoch on the same iterator; torch calls it for persistent_workers."""
        with self._enter():
            self._resets += 1
            self._begin(loader, self._order_from(self._setup, self._maker, None), None, first_iter=first_iter)

    def _begin(
        self, loader: TorchDataLoader[Any], order: EpochOrder, saved: SavedState | None, *, first_iter: bool
    ) -> None:
        setup = self._setup
        is_within = saved is not None and saved.moment == "in an epoch"
        self._clock.begin_epoch()
        if setup.num_workers > 0:
            with contextlib.ExitStack() as stack:
                # torch asks the sampler for a second iterator here and uses it; samplers may rely on this.
                if order.is_asked_by_torch:
                    stack.enter_context(order.asking())
                if is_within:
                    stack.enter_context(_nothing_drawn(setup.generator))
                super()._reset(loader, first_iter)
        if self._resets and not is_within:
            self._graph_seed = self._shared_seed  # no worker gets the one that torch's first _reset() draws
        self._epoch = setup.progress.epoch
        key = setup.random_key(int(self._base_seed), self._resets)
        self._key = key._replace(graph_seed=self._graph_seed if self._resets else None)
        # While nothing was requested, set_epoch() may change the epoch: frameworks call it after the first iter().
        self._may_change_epoch = (
            not is_within
            and not setup.is_of_stream
            and depends_on_epoch(setup.index_sampler, is_seeded=setup.settings.is_seeded)
        )
        self._is_over = False  # StopIteration was raised
        self._ready: list[Any] = []  # the batch that next() returns, once it is complete
        # Batches that have come, the oldest first. The source of the batch in `_ready` is the first until it is let go.
        self._made: collections.deque[MadeBatch] = collections.deque()
        self._current: MadeBatch | None = None  # the source of the batch in `_ready`
        self._late_errors: list[Exception] = []  # at most one, which came instead of a batch, after those in `_made`
        first, position = (0, 0) if saved is None else (saved.begins_at, saved.position)
        self._num_yielded = self._num_before = self._next_number = first
        self._position_begun = position
        begun_key = self._begun_key if self._has_begun_early else None
        self._begun_key, self._has_begun_early = None, False
        if begun_key is not None and begun_key == sequential_key(setup.index_sampler):
            return
        self._begin_order(order, self._sampler_iter)
        resumed = None if saved is None else setup.resumed
        self._maker.begin_epoch(EpochStart(self._key, first, position - first, resumed))
        if setup.num_workers > 0 and not self._may_change_epoch:
            self._fill()
        self._pass_over(position - first)

    def _begin_order(self, order: EpochOrder, begun: Iterator[Any] | None) -> None:
        self._is_exhausted = False
        self._given: list[Any] = []  # the sampler's last item, until the maker has it
        self._request: Request | None = None  # the request for this item
        order.begin(begun)
        self._order = order

    def _begin_early(self) -> None:
        """Begins the next epoch of a persistent iterator before it is asked for: its batches are known, nothing draws.

        The requested batches must not count as more of this epoch, and an interrupt or an error must not cost batches
        of the next epoch: unless everything succeeds, that epoch begins anew.
        """
        setup = self._setup
        key = sequential_key(setup.index_sampler)
        if not (setup.is_persistent and self._maker.begins_early) or key is None or self._begun_key is not None:
            return
        self._begun_key, self._has_begun_early = key, False
        order = self._order_from(setup, self._maker, None)
        try:
            self._begin_order(order, None)
            self._fill()
        except Exception as error:
            if is_interrupt(error):
                raise
            return  # nobody has asked for its batch yet
        self._has_begun_early = True

    def _pass_over(self, count: int) -> None:
        """Takes and drops batches that were handed out before the state was saved, failed ones too."""
        if count > 0 and self._setup.is_of_stream and not self._maker.has_own_states:
            warnings.warn(
                f"{count} batches are asked for again and dropped: neither the data set nor its iterator has both "
                "state_dict() and load_state_dict(), with which a stream would continue at once",
                stacklevel=2,
            )
        for _ in range(count):
            try:
                self._take_next()
            except StopIteration:
                break
            made = self._made.pop()
            made.release()
            self._next_number = made.number + 1
        self._num_yielded = self._num_before = self._next_number

    # ---- its batches -----------------------------------------------------------------------------------------------

    def _enter(self) -> AbstractContextManager[Any]:
        """Returns the lock that a thread holds while it iterates.

        Raises:
            ValueError: The calling thread holds it already; generators raise this, too.
        """
        if self._turn._is_owned():  # type: ignore[attr-defined]
            raise ValueError(
                "iterator already executing: next() was called on it from inside its own next(), by code of the data "
                "set, collate_fn, the sampler or a signal handler. Call it after next() has returned, or give that "
                "code an iterator of its own: iter(loader)"
            )
        return self._turn

    def _check_caller(self) -> None:
        """Raises if the calling thread cannot iterate. Waits forever if the interpreter exits."""
        self._check_process()
        if threading.current_thread() in self._maker.threads:
            raise ValueError(
                "iterator already executing: code of the data set, collate_fn or worker_init_fn calls next() on the "
                "iterator that waits for it. Give that code an iterator of its own: iter(loader)"
            )
        exit_state.sleep_if_begun()

    def _prepare(self) -> None:
        """Brings the next batch into `_ready` and notes how long this took. next() calls it first.

        Another call after an interrupt continues.
        """
        self._clock.ask()
        try:
            self._check_caller()
            with self._enter():
                self._count_next()
        except StopIteration:
            self._setup.tell_end()
            self._setup.raise_warnings()
            raise
        self._clock.give()

    def _count_next(self) -> None:
        """Does the work of torch's next() around _next_data().

        Without a profiler it leaves out the profiler's name for each step, which takes longer than the rest.
        """
        if not self._ready:
            self._num_before = self._num_yielded
        self._num_yielded = self._num_before
        is_counted = self._dataset_kind == _DatasetKind.Iterable and self._IterableDataset_len_called is not None
        if not (torch.autograd._profiler_enabled() or self._sampler_iter is None or is_counted):  # type: ignore[attr-defined]
            self._next_data()
            self._num_yielded += 1
            return
        try:
            super().__next__()
        except Warning:  # the length was too small: this costs the batch, as in torch
            self._ready = []
            raise

    def _next_data(self) -> Any:
        """Returns the next batch, which is in `_ready`; torch's next() calls it."""
        if not self._ready:
            self._bring_batch()
        number = 0 if self._current is None else self._current.number
        try:
            self._delivery.follow(self._ready[0], number)
        except BaseException as error:
            if not is_interrupt(error):
                self._ready = []
                self._let_go()
            raise
        self._let_go()
        return self._ready[0]

    def _bring_batch(self) -> None:
        if self._setup.quarantine is not None:
            self._setup.quarantine.check()
        if self._begun_key is not None:  # the batches in flight belong to the next epoch
            raise StopIteration
        self._follow_epoch()
        self._may_change_epoch = False
        self._current = self._next_made()
        self._hand_over(self._current.batch)
        self._setup.raise_warnings()  # one that is an error costs no batch: the next call returns it

    def _hand_over(self, batch: Any) -> None:
        """Puts the result of device_transform into `_ready`. An error in it costs the batch: it is not called twice."""
        given = iter([batch])
        try:
            self._delivery.hand_over(given, self._ready)
        except BaseException:
            if not self._ready and operator.length_hint(given) == 0:
                self._let_go()
            raise

    def _next_made(self) -> MadeBatch:
        """Returns the next batch, sent to the device, and sends later batches there that have come already."""
        if not self._made:
            if self._late_errors:
                raise self._late_errors.pop()
            self._take_next()
        self._open_last()
        while not self._late_errors and len(self._made) <= self._delivery.prefetch and self._maker.has_next:
            try:
                self._take_next()
                self._open_last()
            except Exception as error:
                if is_interrupt(error):
                    raise
                self._late_errors = [error.with_traceback(None)]  # raised in its turn
        return self._made[0]

    def _take_next(self) -> None:
        """Appends the next batch to `_made`. Raises StopIteration at the end of the epoch."""
        self._fill(may_wait=True)
        while (made := self._maker.take()) is not None:
            made.number = self._next_number
            exit_state.sleep_if_begun()
            try:
                self._fill()
            except BaseException as error:
                if not is_interrupt(error):  # in torch, too, a sampler that fails costs the current batch
                    made.release()
                    self._drop(made)
                raise
            if not made.is_end_of_stream:
                self._made.append(made)
                return
            made.release()
        self._end_epoch()

    def _open_last(self) -> None:
        """Opens the batch that came last. May be repeated. Raises the error that came instead of it."""
        made = self._made[-1]
        self._next_number = max(self._next_number, made.number + 1)  # a later one may have failed
        made.release()
        try:
            made.open(self._delivery)
        except BaseException as error:
            if not is_interrupt(error) or made.has_failed:
                self._made.pop()
                self._drop(made)
            raise
        finally:
            del made  # the traceback of its error refers to this frame

    def _drop(self, made: MadeBatch) -> None:
        self._next_number = max(self._next_number, made.number + 1)
        made.let_go()
        self._count(made)

    def _let_go(self) -> None:
        """Frees the source of the batch in `_ready` and counts its bad samples. May be repeated."""
        if self._made and self._made[0] is self._current:
            self._current.let_go()
            self._count(self._current)
            del self._made[0]

    def _count(self, made: MadeBatch) -> None:
        """Counts the bad samples of a batch that is handed out, or of the error instead of it."""
        if self._setup.quarantine is not None and made.account is not None:
            self._setup.quarantine.count(made.account, self._epoch, made.number)

    def _fill(self, *, may_wait: bool = False) -> None:
        """Requests batches until the maker has no room. It first completes a request that an interrupt left undone."""
        while not self._is_exhausted and self._maker.has_room(may_wait=may_wait):
            if not self._given:
                self._request = None
                self._order.give(self._given)
                if not self._given or not self._maker.is_active:
                    self._is_exhausted, self._given = True, []
                    return
            if self._request is None:
                self._request = self._request_of(self._given[0])
            if not self._maker.submit(self._request, self._given):
                return
            self._request = None  # it may refer to an error, whose traceback refers to this frame

    def _request_of(self, given: Any) -> Request:
        item = self._order.item(given, takes_keys=self._maker.takes_keys)
        numbers = self._order.draw_numbers(_num_samples(item)) if self._maker.takes_numbers else None
        return Request(self._next_number + self._maker.in_flight, item, self._key, numbers)

    def _end_epoch(self) -> NoReturn:
        self._order.check_end()  # raises if an interrupt has ended the sampler
        self._is_over = True
        if self._setup.is_of_stream and 0 < self._next_number <= self._position_begun:
            self._position_begun = 0  # once is enough
            warnings.warn(
                "the state is of an epoch that was over: the stream has no batch after position "
                f"{self._next_number}. A stream does not know its last batch until it is asked for another",
                stacklevel=2,
            )
        self._begin_early()
        raise StopIteration

    @property
    def batch_report(self) -> Callable[[], list[Any]]:
        """The method that reports on the samples of the batch returned last.

        It returns a SampleReport for each sample, in the order of the batch; an empty list before the first batch.

        Raises:
            AttributeError: Python makes the batches, so the steps of a sample are not known.

        Example:
            >>> iterator = iter(fastload.DataLoader(dataset, batch_size=4))
            >>> images, labels = next(iterator)
            >>> [report.index for report in iterator.batch_report()]
            [0, 1, 2, 3]
            >>> iterator.batch_report()[0].steps[0]
            crop(left=..., top=..., width=..., height=..., pad_left=0, ...)
        """
        if not self.is_native:
            raise AttributeError(
                "batch_report() needs native batches: the steps that Python does to a sample are not known. The "
                "loader's explain() says why the batches are not native"
            )
        return lambda: [] if self._current is None else self._current.report()

    # ---- its state -------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the iterator, for DataLoader.load_state_dict().

        Waits for workers that run Python and have not begun, at most as long as for a batch. A signal handler may call
        it in the middle of next(): it changes nothing, and a batch counts as handed out once next() has let go of it.

        Returns:
            A new dict, as DataLoader.state_dict() returns it.

        Raises:
            StateError: A worker ended before it began; or state_dict() of the data set or its iterator raised.
            ForkedProcessError: The iterator belongs to another process.
        """
        self._check_process()
        is_inside_next = self._turn._is_owned()  # type: ignore[attr-defined]  # in a signal handler
        with self._turn:
            if not is_inside_next:
                self._follow_epoch()
                self._look_for_end()
            return self._state_later()().as_dict()

    @property
    def position(self) -> int:
        """The number of batches that were handed out, failed ones too."""
        if self._ready and self._current is not None:
            return self._current.number
        if self._made:
            return self._made[0].number
        return self._next_number - len(self._late_errors)

    def _follow_epoch(self) -> None:
        """Applies an epoch that was set after iter() if nothing was requested yet. May be repeated."""
        if not self._may_change_epoch:
            return
        self._order.look_again()
        setup, progress = self._setup, self._setup.progress
        epoch, is_latest = self._epoch, progress.is_latest(self)
        if is_latest and progress.asked_epoch is not None:
            epoch = progress.asked_epoch
        if setup.settings.is_seeded:
            epoch = common_epoch(setup.index_sampler, epoch)
            self._key = self._key._replace(epoch=epoch)
        if is_latest and epoch != self._epoch:
            progress.epoch = epoch + 1
        self._epoch = epoch

    def _look_for_end(self) -> None:
        """Asks a stateful sampler for a batch after the last one, as next() will: its state then belongs to the next
        epoch. With workers this was done when the last batch was handed out."""
        is_asked_for_each = self._setup.num_workers == 0 and self._order.kind == "stateful"
        if not is_asked_for_each or self._is_exhausted or self._given:
            return
        has_given_all = self._has_given_all()
        if _is_at_end(self.position, self._setup.index_sampler) if has_given_all is None else has_given_all:
            self._order.give(self._given)
            self._is_exhausted = not self._given

    def _has_given_all(self) -> bool | None:
        """Returns whether all batches of the epoch were handed out; None: the length of the user's sampler tells."""
        if self._is_over:
            return True
        if self._ready or self._made or self._late_errors or self._maker.in_flight or self._given:
            return False
        if self._is_exhausted and self._maker.is_running:  # if it has ended, batches in flight may be missing
            return True
        length = known_length(self._setup.index_sampler)
        return None if length is None else self.position >= length

    def _state_later(self) -> Callable[[], SavedState]:
        """Returns a function that makes the state of this moment and does not keep the iterator."""
        has_given_all, position, index_sampler = self._has_given_all(), self.position, self._setup.index_sampler
        if has_given_all is not None:
            return self._state_at(position, is_over=has_given_all)
        # The user's __len__ may draw, which only a program that asks for the state may notice.
        before, after = (self._state_at(position, is_over=is_over) for is_over in (False, True))
        return lambda: (after if _is_at_end(position, index_sampler) else before)()

    def _state_at(self, position: int, *, is_over: bool) -> Callable[[], SavedState]:
        setup, order = self._setup, self._order
        begins_at, workers = self._maker.state_before(position, is_over=is_over)
        goes_on = setup.is_persistent or not is_over  # the workers resume
        new_state = functools.partial(
            SavedState,
            "between epochs" if is_over else "in an epoch",
            rng=setup.settings.rng,
            seed=setup.settings.seed,
            epoch=self._epoch + is_over,
            position=0 if is_over else position,
            num_yielded=position,
            num_workers=setup.num_threads,
            base_seed=int(self._base_seed) if goes_on else None,
            resets=self._resets + is_over if goes_on else 0,
            way=self._maker.way,
            graph_seed=None if is_over else self._graph_seed,
        )
        is_exhausted = self._is_exhausted or self._is_over
        sampler = order.saved_after(is_exhausted=is_exhausted) if is_over else order.saved_at(begins_at)
        fingerprint, generator, index_sampler = self._maker.fingerprint, setup.generator, setup.index_sampler

        def state() -> SavedState:  # does not refer to the iterator, nor to Progress, which keeps this function
            saved = sampler if isinstance(sampler, SavedSampler) else sampler()
            return new_state(
                **workers()._asdict(),
                sampler=saved,
                world=rank_and_world_size(),
                generator=generator_state(generator, index_sampler, saved),
                fingerprint=fingerprint(),
            )

        return state

    def _when_dropped(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A program that leaves a loop drops its iterator, and may then ask the loader for its state. While the
        # interpreter finalizes, nobody asks, and the modules that this needs may be gone.
        progress = None if is_finalizing() else getattr(self, "_progress", None)
        if progress is not None and progress.is_latest(self) and not self._is_forked:
            progress.left = self._state_later()

    # ---- its end ---------------------------------------------------------------------------------------------------

    @property
    def is_native(self) -> bool:
        """Whether native code makes the batches as a whole."""
        return self._maker.way == "native"

    @property
    def is_running(self) -> bool:
        """Whether more batches can come: the workers belong to this process and were not told to end."""
        return not self._is_forked and self._maker.is_running

    def _shutdown_workers(self) -> None:
        """Ends the workers. Subclasses of torch's loader call it on their iterator, as torch's iterators have it."""
        if not self._is_forked:
            self._maker.cancel()

    def _check_process(self) -> None:
        if self._is_forked:
            raise ForkedProcessError("this iterator", self._owner_pid)

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._owner_pid


@contextlib.contextmanager
def _nothing_drawn(generator: torch.Generator | None) -> Iterator[None]:
    """Lets torch's base class draw without a change to the program's generators and the loader's."""
    state = None if generator is None else generator.get_state()
    with ProgramReplay().drawing():
        yield
    if generator is not None and state is not None:
        generator.set_state(state)


def _num_samples(item: Any) -> int:
    """Returns the number of samples that the sampler gave, up to the first that is not an index."""
    given = item.before if isinstance(item, BadIndicesError) else item
    return len(given) if isinstance(given, (list, np.ndarray)) else 1


def _is_at_end(position: int, index_sampler: Any) -> bool:
    try:
        return position >= len(index_sampler)
    except Exception as error:
        if is_interrupt(error):
            raise
        return False  # it has no length
