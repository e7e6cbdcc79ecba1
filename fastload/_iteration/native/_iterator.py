"""One epoch of a native loader, and the engine it runs on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from fastload import _native
from fastload._delivery._batch_memory import BatchMemory
from fastload._delivery._hand_over import Delivery
from fastload._iteration._fingerprint import fingerprint_of
from fastload._iteration._late_epoch import LateEpoch
from fastload._iteration._state_maker import StateMaker, order_of
from fastload._iteration.native._engine import LoaderEngine
from fastload._iteration.native._files import find_files
from fastload._iteration.native._pending_batch import PendingBatch, SampleNames
from fastload._iteration.native._reloading_iterator import ReloadingIterator
from fastload._iteration.native._repairs import BatchRepairs
from fastload._iteration.native._report import SampleReport, views_of
from fastload._iteration.native._state import worker_draws
from fastload._planning._native_plans import NativePlan
from fastload._process._exit import exit_state
from fastload._process._interrupts import is_interrupt
from fastload._quarantine._failure import Account
from fastload._resume._fields import decoded
from fastload._resume._saved_state import DRAWS_BYTES, SavedState
from fastload._workers._native_draws import uniform_rule
from fastload.samplers._draw_numbers import Numbers
from fastload.samplers._epoch_order import EpochOrder
from fastload.samplers._lowering import BadIndicesError, IndexBatch, sequential_key
from fastload.sources._lowering import LoweredSource


class NativeIterator(ReloadingIterator):
    """Yields [images, labels] as torch's default_collate makes them; images lie where the engine wrote them.

    Of a MultiView: [[images of the first view, ...], labels].
    """

    def __init__(
        self,
        loader: Any,
        engine: LoaderEngine,
        make_plan: Callable[[], NativePlan],
        init_workers: Callable[[int], list[torch.Generator] | Callable[[], BaseException]] | None,
        make_memory: Callable[[NativePlan, bool], BatchMemory],
        delivery: Delivery,
        make_repairs: Callable[[LoweredSource, int | None], BatchRepairs] | None,
        saved: SavedState | None = None,
    ) -> None:
        """`loader` is a fastload.DataLoader; the iterator does not keep it.

        `init_workers` gets the base seed and gives the workers' generators, where they are not those that torch seeds,
        or what makes the error that comes in the place of every batch; the plan is made after it. `make_repairs` gets
        the data set and the directory of relative paths; without it bad samples are errors. `saved` is where the
        iterator begins.
        """
        engine.iterators.add(self)  # before code of the user's runs
        going_on = saved if saved is not None and saved.goes_on else None
        order = order_of(loader.batch_sampler, engine.settings.max_batches, saved)
        super().__init__(loader, delivery, order, going_on)
        self._engine = engine
        found = None if init_workers is None else init_workers(int(self._base_seed))
        self._new_init_error = found if callable(found) else None
        self._generators = None if callable(found) else found
        self._plan = make_plan()
        self._memory = make_memory(self._plan, bool(self._pin_memory))
        plan, batch_sampler, errors = self._plan, loader.batch_sampler, loader._describe_errors()
        self._late = LateEpoch(loader, saved)
        self._states = StateMaker(loader, "native", lambda: fingerprint_of(plan, batch_sampler, errors))
        self._epoch: int = loader._fastload.epoch
        self._num_taken = self._num_yielded = 0 if saved is None else saved.position
        self._is_over = False  # StopIteration has come
        # Number and draws of a batch that has drawn from the program's generator and was not handed out.
        self._drawn_before = (
            None if going_on is None or going_on.draws is None else (going_on.position, going_on.draws[0])
        )
        # The batch that is handed out next, until it is; or what else the engine has answered.
        self._arrived: list[Any] = []
        self._owners: list[PendingBatch] = []  # of it
        self._resets = 0 if going_on is None else going_on.resets
        self._failed: _native.Batch | None = None  # with its like behind it still to be loaded again
        self._last: tuple[SampleNames, _native.Batch] | None = None  # the batch handed out last
        self._begun_key: tuple[int, int, bool] | None = (
            None  # of the next epoch, where this one is over and that begins
        )
        self._has_begun_next = False  # with all of its first batches
        # As a worker process, which begins in the directory of this moment and stays there.
        self._directory = _native.WorkingDirectory() if self._num_workers > 0 else None
        directory = None if self._directory is None else self._directory.fileno()
        self._repairs = None if make_repairs is None else make_repairs(self._plan.source, directory)
        self._iteration = self._open_iteration(loader, going_on)
        try:
            # With workers torch asks the sampler for an iterator twice, and uses the second; samplers may count on it.
            self._start(order, self._sampler_iter if self._num_workers == 0 else None)
        except BaseException:
            self._iteration.cancel()
            del self._iteration, self._directory  # the error has this frame, and would keep the descriptor
            raise
        self._progress = loader._fastload.progress

    def _shutdown_workers(self) -> None:
        """Drops the batches in flight: a state was loaded, and the next iteration begins there."""
        if not self._iteration.is_forked:
            self._iteration.cancel()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another epoch on the same iterator; torch calls it for persistent_workers."""
        with self._enter():
            self._begin_again(loader, first_iter)

    def _begin_again(self, loader: Any, first_iter: bool) -> None:
        order = order_of(loader.batch_sampler, self._engine.settings.max_batches, None)
        with order.asking() if order.is_asked_by_torch else contextlib.nullcontext():
            super()._reset(loader, first_iter)
        self._resets += 1
        self._num_taken = 0
        self._late = LateEpoch(loader, None)
        self._epoch, self._is_over = loader._fastload.epoch, False
        self._hand, self._arrived, self._owners = [], [], []
        begun_key = self._begun_key if self._has_begun_next else None
        self._begun_key, self._has_begun_next = None, False
        if begun_key is not None and begun_key == sequential_key(loader.batch_sampler):
            self._last = None
            return
        if self._plan.has_ordered_draws:
            self._finish_epoch()
        else:
            self._iteration.cancel()
            self._iteration = self._open_iteration(loader, None)
        self._start(order, self._sampler_iter)

    def _open_iteration(self, loader: Any, going_on: SavedState | None) -> _native.Iteration:
        plan, engine = self._plan, self._engine.native
        if plan.has_ordered_draws:
            draws = worker_draws(int(self._base_seed), self._num_workers, self._generators, going_on)
            first_lane = 0 if going_on is None else going_on.position % len(draws)
            return engine.open_torch_iteration(
                plan.source.table.index, plan.views, draws, self._directory, first_lane, plan.first_steps
            )
        return self._open_seeded(*loader._random_key(int(self._base_seed), self._resets))

    def _finish_epoch(self) -> None:
        """Lets the batches in flight end, as torch's workers do: they draw, and the next epoch goes on there."""
        self._redo_behind_failed()
        while self._iteration.batches_in_flight:
            self._wait()
            self._note_failed(self._arrived[0])
            self._arrived, self._owners = [], []
            self._redo_behind_failed()
        self._iteration.begin_epoch()

    def _start(self, order: EpochOrder, begun: Iterator[Any] | None) -> None:
        order.begin(begun)
        self._last = None
        self._submit_first(order)

    def _begin_next_epoch(self) -> None:
        """Lets the threads begin the epoch that a persistent iterator is likely to be asked for, where that changes
        nothing but the time: the batches are known and neither sampler nor transform draws.

        What is submitted must not be taken for more of this epoch, nor an interrupt or an error leave out batches of
        the next one: unless all of it went well, that begins anew.
        """
        key = sequential_key(self._index_sampler)
        if not (self._persistent_workers and self._num_workers > 0) or key is None or self._begun_key is not None:
            return
        if any(view.is_random for view in self._plan.views):
            return
        order = order_of(self._index_sampler, self._engine.settings.max_batches, None)
        order.begin(None)
        self._begun_key = key
        try:
            self._submit_first(order)
        except Exception as error:
            if is_interrupt(error):
                raise
            return  # of a batch that nobody has asked for yet
        self._has_begun_next = True

    def _submit_first(self, order: EpochOrder) -> None:
        self._order = order
        self._given: list[IndexBatch | BadIndicesError] = []  # by the sampler, until the engine has it
        self._is_exhausted = False
        if self._num_workers > 0 and self._new_init_error is None and not self._late.is_open:
            self._submit_where_room()

    def _ask_late(self) -> None:
        """Asks for the first batches, where iter() has not."""
        if self._late.is_open:
            self._follow_epoch()
            self._late.is_open = False
            if self._num_workers > 0:
                self._submit_where_room()

    def _submit_where_room(self) -> None:
        """Asks for batches until as many are in flight as may be, or there is no room for another one now."""
        while (
            not self._is_exhausted
            and self._iteration.batches_in_flight < self._engine.settings.max_batches
            and self._memory.has_room()
        ):
            self._submit_next()
        self._look_ahead()

    def _submit_next(self) -> None:
        if not self._given and not self._is_exhausted:
            self._order.give(self._given)
            self._is_exhausted = not self._given
        if self._is_exhausted:
            return
        pending = self._pending_batch(find_files(self._plan.source, self._given[0], self._numbers_of(self._given[0])))
        if self._num_workers == 0 and self._plan.has_ordered_draws:
            self._iteration.set_draws(self._default_draws())
        # The engine keeps what belongs to a batch, so that an interrupt loses a batch as a whole or not at all.
        self._iteration.submit(*pending.submission(), self._given)

    def _numbers_of(self, given: IndexBatch | BadIndicesError) -> Numbers | None:
        if self._plan.has_ordered_draws:
            return None
        return self._order.draw_numbers(len(given.before if isinstance(given, BadIndicesError) else given))

    def _check(self) -> None:
        self._engine.check_process("this iterator")
        exit_state.sleep_if_begun()

    def _make(self) -> None:
        if self._new_init_error is not None:
            raise self._new_init_error()
        if self._repairs is not None:
            self._repairs.quarantine.check()
        if self._begun_key is not None:  # what is in flight is the next epoch's
            raise StopIteration
        self._ask_late()
        if not self._arrived:
            self._redo_behind_failed()  # what an interrupt has left
            if self._iteration.batches_in_flight == 0:
                self._memory.wait_for_room()
                self._submit_next()
        self._wait()
        if not self._arrived:
            self._end_epoch()
        batch, pending = self._arrived[0], self._take_owner()
        try:
            self._submit_behind(batch, pending)
            if batch.is_whole and pending.final_error is None:
                self._hand_over(self._delivered(pending))
                return
        except BaseException as error:
            if not self._hand and not is_interrupt(error):
                self._let_go()  # in torch, too, a sampler that fails costs the batch at hand
            raise
        del pending  # the traceback of its error has this frame
        self._raise_error()

    def _submit_behind(self, batch: _native.Batch, pending: PendingBatch) -> None:
        """What there is to do when a batch has come, before the user gets it."""
        self._note_failed(batch)
        if self._plan.has_ordered_draws:
            self._settle_draws(batch)
        if self._num_workers > 0:
            self._submit_where_room()
        if pending.error is None:  # else no batch is reported: its indices ended in the middle
            self._last = pending.names, batch

    def _delivered(self, pending: PendingBatch) -> list[Any]:
        views, labels = self._memory.deliver(pending.place, self._num_taken)
        return [views if self._plan.is_multi_view else views[0], labels]

    def _raise_error(self) -> NoReturn:
        """Raises what comes in the place of the batch that has come."""
        error, account = self._error_of(self._arrived[0], self._owners[0])
        try:
            self._let_go(account)
            raise error
        finally:
            del error  # its traceback has this frame

    def _end_epoch(self) -> NoReturn:
        self._order.check_end()
        self._is_over = True
        self._begin_next_epoch()
        raise StopIteration

    @property
    def _number(self) -> int:
        return self._num_taken

    def _let_go(self, account: Account | None = None) -> None:
        """`account` is that of an error."""
        if self._arrived:
            for pending in self._owners:
                self._memory.let_go(pending.place)
                if self._repairs is not None and pending.repair is not None:
                    self._repairs.quarantine.count(account or pending.repair.account, self._epoch, self._num_taken)
            self._arrived, self._owners, self._num_taken = [], [], self._num_taken + 1

    def _settle_draws(self, batch: _native.Batch) -> None:
        """Brings torch's generator to where it is after `batch`."""
        if self._num_workers > 0:
            self._redo_behind_failed()
        elif (draws := batch.draws_after()) is not None:
            state = torch.get_rng_state()
            draws.store(state.numpy())
            torch.set_rng_state(state)

    def _default_draws(self) -> _native.TorchDraws:
        draws = _native.TorchDraws(0, uniform_rule())
        if self._drawn_before is not None and self._drawn_before[0] == self._num_taken:
            draws.unpack(decoded("fastload.draws", self._drawn_before[1], DRAWS_BYTES))
        else:
            draws.load(torch.get_rng_state().numpy())
        return draws

    def batch_report(self) -> list[SampleReport]:
        """What was done to each sample of the batch returned last.

        Returns:
            A SampleReport for each sample, in the order of the batch; empty before the first batch.

        Example:
            >>> iterator = iter(fastload.DataLoader(dataset, batch_size=4))
            >>> images, labels = next(iterator)
            >>> [report.index for report in iterator.batch_report()]
            [0, 1, 2, 3]
            >>> iterator.batch_report()[0].steps[0]
            crop(left=..., top=..., width=..., height=..., pad_left=0, ...)
        """
        if self._last is None:
            return []
        (indices, replaced), batch = self._last
        return [
            SampleReport(
                index,
                os.fsdecode(path),
                source,
                size,
                views_of(views),
                replaced.get(position),
            )
            for position, (index, (path, source, size, views)) in enumerate(
                zip(indices.tolist(), batch.reports(), strict=True)
            )
        ]
