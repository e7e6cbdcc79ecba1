"""Batches made by native threads, or by native code in the calling thread."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._delivery._batch_memory import BatchMemory, HostMemory, StagedMemory
from fastload._delivery._hand_over import Delivery
from fastload._errors import LoaderClosedError
from fastload._iteration._fingerprint import fingerprint_of
from fastload._iteration._maker import BatchMaker, EpochStart, MadeBatch, Request, TorchValues, WorkerStates
from fastload._iteration._saved_state import SavedState
from fastload._iteration._setup import LoaderSetup
from fastload._iteration.native._engine import LoaderEngine
from fastload._iteration.native._pending_batch import PendingBatch, find_files
from fastload._iteration.native._repairs import BatchRepairs
from fastload._iteration.native._report import SampleReport, TransformStep
from fastload._pillow._failures import exception_of
from fastload._pillow._pillow import serve
from fastload._planning._plan import NativePlan
from fastload._process._exit import LiveObjects, exit_state
from fastload._process._interrupts import append_result
from fastload._quarantine._failure import Account
from fastload._quarantine._guard import pause_before
from fastload._quarantine._repair import Unrepairable
from fastload._workers._init_fn import init_native_workers
from fastload._workers._native_draws import saved_draws, uniform_rule
from fastload._workers._random_stream import RandomKey
from fastload._workers._worker_error import WorkerFailure


class NativeMaker(BatchMaker):
    """Makes [images, labels] as torch's default_collate does; images lie where the engine wrote them.

    For a MultiView: [[images of the first view, ...], labels].

    Args:
        engine: Runs the native threads. Knows the maker before any user code runs.
        make_plan: Returns the plan. Called after worker_init_fn.
        count: Adds to the loader's counters.
        staged: Receives the memory of batches that go to a device.
    """

    way = "native"
    takes_keys = False

    def __init__(
        self,
        setup: LoaderSetup,
        engine: LoaderEngine,
        make_plan: Callable[[], NativePlan],
        count: Callable[[dict[str, Any]], None],
        staged: LiveObjects[StagedMemory],
    ) -> None:
        engine.iterators.add(self)
        self._setup, self._engine, self._make_plan = setup, engine, make_plan
        self._count, self._staged = count, staged
        self._num_workers, self._prefetch = setup.num_workers, setup.delivery.prefetch
        self._is_ordered = False  # whether samples draw from torch's generators, one after another
        # The batch that is taken next, until it is released; or another answer of the engine.
        self._arrived: list[Any] = []
        self._owners: list[PendingBatch] = []  # the owner of that batch
        self._next_number = 0  # of the batch that is released next
        self._last: tuple[int, _native.Batch] | None = None  # the engine's last batch, with its number
        self._failed: _native.Batch | None = None  # the batches that share its draws still have to be loaded again

    # ---- beginnings ------------------------------------------------------------------------------------------------

    def start(self, values: TorchValues) -> None:
        setup = self._setup
        self._base_seed, self._timeout_seconds = values.base_seed, values.timeout_seconds
        found = init_native_workers(setup.code, setup.num_workers, values.base_seed)
        self._init_failure = found if isinstance(found, WorkerFailure) else None
        self._generators = [] if isinstance(found, WorkerFailure) else found
        plan = self._plan = self._make_plan()
        del self._make_plan  # it refers to the loader
        self._is_ordered, self.takes_numbers = plan.has_ordered_draws, not plan.has_ordered_draws
        self._is_random = any(view.is_random for view in plan.views)
        self._memory = self._new_memory(plan, is_pinned=values.pins)
        self.fingerprint = functools.cache(functools.partial(fingerprint_of, plan, setup.index_sampler, setup.errors))
        # A worker process would begin in the current directory and stay there.
        self._directory = _native.WorkingDirectory() if self._num_workers > 0 else None
        directory = None if self._directory is None else self._directory.fileno()
        self._repairs: BatchRepairs | None = None
        if setup.quarantine is not None:
            self._repairs = BatchRepairs(setup.quarantine, setup.candidates, plan.source, directory)
        self._iteration: _native.Iteration | None = None

    def _new_memory(self, plan: NativePlan, *, is_pinned: bool) -> BatchMemory:
        delivery = self._setup.delivery
        if delivery.device is None:
            return HostMemory(self._engine.native, plan.forms, delivery.pinned if is_pinned else None)
        memory = StagedMemory(
            delivery.device,
            plan.forms,
            # One more for the batch that is being handed over, and one for the copy of the batch before it.
            num_slots=self._setup.max_batches + 2,
            count=self._count,
            check_open=self._engine.check_open,
        )
        self._staged.add(memory)
        return memory

    def begin_epoch(self, start: EpochStart) -> None:
        self._arrived, self._owners, self._last = [], [], None
        self._next_number, resumed = start.first, start.resumed
        # Number and draws of a batch that drew from the program's generator and was not handed out.
        self._drawn_before = None if resumed is None or resumed.draws is None else (resumed.position, resumed.draws[0])
        if self._iteration is None:
            self._iteration = self._open(start.key, resumed)
        elif self._is_ordered:
            self._finish_epoch(self._iteration)
        else:
            self._iteration.cancel()
            self._iteration = self._open(start.key, None)
        self._key = start.key

    def _open(self, key: RandomKey, resumed: SavedState | None) -> _native.Iteration:
        plan, draws = self._plan, []
        if self._is_ordered:
            draws = self._worker_draws(resumed)
        first_lane = resumed.position % len(draws) if resumed is not None and draws else 0
        index, directory = plan.source.table.index, self._directory
        return self._engine.native.open_iteration(
            index, plan.views, key.seed, key.epoch, draws, first_lane, directory, plan.first_steps
        )

    def _worker_draws(self, resumed: SavedState | None) -> list[_native.TorchDraws]:
        """Returns each worker's generator: as torch seeds it, as worker_init_fn left it, or as it was saved.

        torch seeds each worker with the sum of the base seed and the worker's number. Without workers torch draws from
        its default generator, whose state is loaded before each batch and stored after it.
        """
        if resumed is not None and resumed.draws is not None:
            return list(map(saved_draws, resumed.draws))
        seeds = [(self._base_seed + worker) % 2**64 for worker in range(max(1, self._num_workers))]
        draws = [_native.TorchDraws(seed, uniform_rule()) for seed in seeds]
        for worker, generator in zip(draws, self._generators, strict=False):
            worker.load(generator.get_state().numpy())
        return draws

    def _finish_epoch(self, iteration: _native.Iteration) -> None:
        """Waits until the batches in flight are made, as torch's workers do: they draw before the next epoch."""
        self._redo_after_failed()
        while iteration.batches_in_flight:
            self._wait()
            self._note_failed(self._arrived[0])
            self._arrived, self._owners = [], []
            self._redo_after_failed()
        iteration.begin_epoch()

    def _follow_key(self, key: RandomKey) -> None:
        """Opens the iteration again if the epoch was set late and draws depend on it. Nothing is in flight then."""
        if key != self._key and self._is_random and not self._is_ordered:
            opened = self._open(key, None)
            self._opened.cancel()
            self._iteration = opened
        self._key = key

    @property
    def _opened(self) -> _native.Iteration:
        assert self._iteration is not None, "an epoch has begun"
        return self._iteration

    # ---- batches are asked for -------------------------------------------------------------------------------------

    def has_room(self, *, may_wait: bool = False) -> bool:
        if self._init_failure is not None:
            return False
        if self._num_workers == 0:
            is_free = self.in_flight == 0
        else:
            is_free = self._opened.batches_in_flight < self._setup.max_batches
        if is_free and may_wait and self.in_flight == 0:
            self._redo_after_failed()  # if an interrupt left it undone
            self._memory.wait_for_room()
        return is_free and self._memory.has_room()

    def submit(self, request: Request, given: list[Any]) -> bool:
        self._follow_key(request.key)
        source = self._plan.source
        indices, files, error = find_files(source, request.item)
        numbers = None if request.numbers is None else request.numbers[: len(files)]
        repair = None if self._repairs is None else self._repairs.planned(indices)
        if repair is not None and repair.places:
            indices, files = repair.loaded, source.files(repair.loaded)
        labels = self._labels_of(files)
        pending = PendingBatch(indices, files, error, labels, self._memory.place(labels), numbers, repair)
        if self._num_workers == 0 and self._is_ordered:
            self._opened.set_draws(self._program_draws(request.number))
        # The engine keeps everything that belongs to a batch, so that an interrupt loses a batch as a whole or not at
        # all.
        self._opened.submit(pending.submission(), given)
        self._look_ahead()
        return True

    def _labels_of(self, files: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self._plan.source.table.labels_of(files))

    def _program_draws(self, number: int) -> _native.TorchDraws:
        """Returns the program's generator, from which batch `number` draws if there are no workers."""
        if self._drawn_before is not None and self._drawn_before[0] == number:
            return saved_draws(self._drawn_before[1])
        draws = _native.TorchDraws(0, uniform_rule())
        draws.load(torch.get_rng_state().numpy())
        return draws

    def _look_ahead(self) -> None:
        if self._prefetch:
            owners = self._opened.owners_in_flight(self._prefetch)
            self._memory.look_ahead([pending.place for pending in owners])

    # ---- batches are taken -----------------------------------------------------------------------------------------

    def take(self) -> MadeBatch | None:
        if self._init_failure is not None:
            raise self._init_failure.new_error()
        if not self._arrived:
            self._redo_after_failed()  # if an interrupt left it undone
        self._wait()
        if not self._arrived:
            return None
        batch, pending = self._arrived[0], self._take_owner()
        self._last = self._next_number, batch
        self._note_failed(batch)
        if self._is_ordered:
            self._settle_draws(batch)
        self._look_ahead()
        return _NativeBatch(self, batch, pending)

    def _wait(self) -> None:
        """Waits for the oldest batch in flight, unless one has arrived already, and repairs it if it can."""
        self._wait_for_engine()
        while self._repairs is not None and self._arrived and not self._arrived[0].is_whole:
            if not self._load_again(self._repairs):
                return
            self._wait_for_engine()

    def _wait_for_engine(self) -> None:
        while not (self._arrived and isinstance(self._arrived[0], _native.Batch)):
            if not self._arrived:
                append_result(self._arrived, self._opened.next, float(self._timeout_seconds))
                exit_state.sleep_if_begun()
                if not self._arrived:
                    return
                continue
            result, self._arrived = self._arrived[0], []
            if result is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout_seconds} seconds")
            if isinstance(result, str):
                raise LoaderClosedError(result)
            serve(result)

    def _take_owner(self) -> PendingBatch:
        """Returns the owner of the batch that has arrived."""
        if not self._owners:
            append_result(self._owners, self._arrived[0].take_owner)
        return self._owners[0]

    def release(self, number: int) -> None:
        self._arrived, self._owners, self._next_number = [], [], number + 1

    def _load_again(self, repairs: BatchRepairs) -> bool:
        """Submits the arrived batch again, without its failed samples; returns False if it stays an error.

        With ordered draws it also submits the later batches again, because they drew as if no sample had failed.
        """
        batch, pending = self._arrived[0], self._take_owner()
        assert pending.repair is not None, "there are repairs"
        repair = repairs.after(pending.repair, batch, pending.begun_ns)
        if isinstance(repair, Unrepairable):
            return False
        if repair.pause is not None:
            pause_before(repair.pause)
        files = self._plan.source.files(repair.loaded)
        labels = self._labels_of(files)
        if self._is_ordered:
            later = self._opened.owners_after(batch)
            place, *places = self._memory.place_again([labels, *(other.labels for other in later)])
            later = [replace(other, place=its_place) for other, its_place in zip(later, places, strict=True)]
        else:
            self._memory.wait_for_room()
            later, place = [], self._memory.place(labels)
        again = PendingBatch(repair.loaded, files, pending.error, labels, place, pending.numbers, repair)
        if not self._opened.submit_again(
            batch,
            again.submission(),
            repair.lost_draws,
            [other.submission() for other in later],
            [self._arrived, self._owners],
        ):
            raise LoaderClosedError("the loader was closed; iterate over it again to start anew")
        self._look_ahead()
        return True

    def error_of(self, batch: _native.Batch, pending: PendingBatch) -> tuple[BaseException, Account | None]:
        """Returns the error to raise instead of a batch, and the account of its samples."""
        account = None if pending.repair is None else pending.repair.account
        if batch.is_whole:
            error = pending.final_error
            assert error is not None, "a whole batch fails only with a final error"
            return error, account
        if self._repairs is not None and pending.repair is not None:
            found = self._repairs.after(pending.repair, batch, pending.begun_ns)
            assert isinstance(found, Unrepairable), "else it was loaded again"
            return found.error, found.account
        failure = batch.errors[0]
        directory = None if self._directory is None else self._directory.fileno()
        return exception_of(failure, int(pending.indices[failure["position"]]), directory), account

    def _note_failed(self, batch: _native.Batch) -> None:
        if self._num_workers > 0 and self._is_ordered and batch.errors:
            self._failed = batch

    def _redo_after_failed(self) -> None:
        """Loads again the batches that share draws with a failed one. May be repeated.

        A failed sample and the later samples of its batch draw nothing, which was unknown when later batches began.
        """
        if self._failed is None:
            return
        later = self._opened.owners_after(self._failed)
        places = self._memory.place_again([pending.labels for pending in later])
        again = [replace(pending, place=place) for pending, place in zip(later, places, strict=True)]
        self._opened.restart(self._failed, [pending.submission() for pending in again])
        self._failed = None
        self._look_ahead()

    def _settle_draws(self, batch: _native.Batch) -> None:
        """Sets torch's generator to its state after `batch`."""
        if self._num_workers > 0:
            self._redo_after_failed()
        elif (draws := batch.draws_after()) is not None:
            state = torch.get_rng_state()
            draws.store(state.numpy())
            torch.set_rng_state(state)

    def delivered(self, pending: PendingBatch, number: int) -> list[Any]:
        """Returns the value that the user gets for a whole batch."""
        views, labels = self._memory.deliver(pending.place, number)
        return [views if self._plan.lowered.views else views[0], labels]

    def let_go(self, pending: PendingBatch) -> None:
        """Frees the batch's memory that does not belong to the user."""
        self._memory.let_go(pending.place)

    # ---- its state and its end -------------------------------------------------------------------------------------

    def state_before(self, position: int, *, is_over: bool) -> tuple[int, Callable[[], WorkerStates]]:
        states = WorkerStates()
        if self._is_ordered and (not is_over or self._setup.is_persistent):
            states = WorkerStates(draws=self._draws_before(position))
        return position, lambda: states

    def _draws_before(self, position: int) -> tuple[str, ...] | None:
        """Returns the state of each worker's generator before its first batch that was not handed out, as text.

        Returns None if nothing is drawn in order. Without workers the program's generator has that state, and this
        returns None, too, unless the engine has given the batch already.
        """
        taken = self._batch_at(position)
        before = None if taken is None else taken.draws_before()
        if self._num_workers == 0:  # the program's generator may have passed that batch already
            return None if before is None else (before.text(),)
        draws = self._opened.draws_untaken()
        if not draws:
            return None
        if before is not None:
            draws[position % self._num_workers] = before
        elif self._failed is not None and (after := self._failed.draws_after()) is not None:
            draws[(position - 1) % self._num_workers] = after
        return tuple(worker.text() for worker in draws)

    def _batch_at(self, position: int) -> _native.Batch | None:
        """Returns the batch at `position` if the engine has given it, taken or not (after an interrupt)."""
        if position == self._next_number and self._arrived and isinstance(self._arrived[0], _native.Batch):
            return self._arrived[0]
        return self._last[1] if self._last is not None and self._last[0] == position else None

    def cancel(self) -> None:
        if self._iteration is not None and not self._iteration.is_forked:
            self._iteration.cancel()

    def close(self) -> None:
        self.cancel()
        # An error that somebody keeps leads here by its frames; it would keep the descriptor.
        self._iteration = self._directory = None

    @property
    def in_flight(self) -> int:
        return self._opened.batches_in_flight + (1 if self._arrived else 0)

    @property
    def is_running(self) -> bool:
        return self._engine.native.is_running

    @property
    def begins_early(self) -> bool:
        return self._num_workers > 0 and not self._is_random


class _NativeBatch(MadeBatch):
    """A batch that the engine has made."""

    def __init__(self, maker: NativeMaker, batch: _native.Batch, pending: PendingBatch) -> None:
        super().__init__()
        self.account = None if pending.repair is None else pending.repair.account
        self._maker, self._native = maker, batch
        self._pending: PendingBatch | None = pending
        self._indices = pending.indices if pending.error is None else None
        self._replaced = {} if pending.repair is None else pending.repair.replaced
        self._is_released = False

    def release(self) -> None:
        if not self._is_released:
            self._maker.release(self.number)
            self._is_released = True

    def open(self, delivery: Delivery) -> None:
        pending = self._pending
        if pending is None or self.batch is not None:
            return
        if self._native.is_whole and pending.final_error is None:
            self.batch = self._maker.delivered(pending, self.number)
            return
        error, self.account = self._maker.error_of(self._native, pending)
        self.has_failed = True
        try:
            raise error
        finally:
            del error, pending  # the error's traceback refers to this frame

    def let_go(self) -> None:
        if self._pending is not None:
            self._maker.let_go(self._pending)
            self._pending = self.batch = None

    def report(self) -> list[SampleReport]:
        if self._indices is None:
            return []
        reports = zip(self._indices.tolist(), self._native.reports(), strict=True)
        made = []
        for position, (index, (path, source, size, views)) in enumerate(reports):
            steps = tuple(tuple(map(TransformStep, view)) for view in views)
            made.append(SampleReport(index, os.fsdecode(path), source, size, steps, self._replaced.get(position)))
        return made
