"""Batches made by Python in the calling thread, if there are no workers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fastload._iteration._maker import BatchMaker, EpochStart, MadeBatch, Request, TorchValues, WorkerStates
from fastload._iteration._saved_worker import SavedWorker
from fastload._iteration._setup import LoaderSetup
from fastload._iteration.python._dataset import IterableFetcher, make_fetcher
from fastload._iteration.python._fetcher import EndOfStreamError, FetchPlan
from fastload._iteration.python._loader_workers import LoaderWorkers
from fastload._iteration.python._made_batch import PythonBatch
from fastload._iteration.python._resume_point import ResumePoint, WorkerPosition, resume_points
from fastload._iteration.python._worker_draws import WorkerDraws
from fastload._iteration.python._worker_group import closed_error
from fastload._process._interrupts import is_interrupt
from fastload._resume._generators import ProgramReplay
from fastload._workers._data_pipes import begin_graph
from fastload._workers._exchanges import exchanged
from fastload._workers._generators import WorkerGenerators, program_generators
from fastload._workers._places import HeldGenerators
from fastload._workers._random_stream import RandomKey, RandomStream, SampleStream
from fastload._workers._user_code import UserCode


class CallerMaker(BatchMaker):
    """Makes each batch in the calling thread when it is taken. With rng="torch" it draws from the program's generators.

    Between epochs data set and stream load their states when the maker is made, before the next epoch draws anything,
    because they may set the program's generators.
    """

    def __init__(self, setup: LoaderSetup, fetch: FetchPlan, record: LoaderWorkers) -> None:
        self.way, self.fingerprint = setup.python_way, setup.python_fingerprint()
        self.takes_numbers = fetch.rng != "torch"
        self._setup, self._record = setup, record
        self._num_closes = record.num_closes
        self._generators = WorkerGenerators(0, 0) if fetch.rng == "sample" else None
        self._key = RandomKey(0, 0)
        (resume_point,) = resume_points(setup.saved, 0) or (None,)
        self._resume_point = resume_point if resume_point is not None and resume_point.is_in_epoch else None
        # Does not lead here: a stream ends as soon as its iterator is dropped.
        self._replaying: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        if resume_point is not None and fetch.rng == "torch":
            # Batches that are made again draw here what they drew from the program's generators before.
            self._replaying = ProgramReplay(resume_point.saved.generators).drawing
        draws = self._draws_of(setup.code, resume_point) if setup.has_states else None  # may restore generators
        stream: RandomStream
        if self._generators is None:
            stream = RandomStream()
        else:
            held = HeldGenerators(setup.code)  # with those that were restored
            stream = SampleStream(fetch.naming, self._generators, held.seedable)
        self._fetcher = make_fetcher(fetch, stream, setup.code)
        self._position = None if draws is None else WorkerPosition(draws, self._fetcher, self._replaying)
        self._start: SavedWorker | None = None  # the position at which the epoch began, if it is known
        # The request that was submitted last, and whether its batch is still to come: set in one step.
        self._submitted: tuple[Request | None, bool] = (None, False)
        self._made: MadeBatch | None = None
        is_between = resume_point is not None and not resume_point.is_in_epoch
        if self._position is not None and resume_point is not None and is_between and resume_point.saved.user.is_known:
            with self._drawing():
                self._position.restore(self._key, 0, resume_point)

    def _draws_of(self, code: UserCode, resume_point: ResumePoint | None) -> WorkerDraws:
        is_program, held = self._generators is None, HeldGenerators(code)
        generators = self._generators or program_generators()
        draws = WorkerDraws(generators, code, held, is_program=is_program)
        draws.begin()
        if resume_point is not None:
            draws.load(resume_point.saved, resume_point.field)
        return draws

    def start(self, values: TorchValues) -> None:
        self._pinning = self._setup.delivery.pinning(values.pins, values.pin_device)
        begin_graph(self._setup.code.dataset, values.graph_seed)

    def begin_epoch(self, start: EpochStart) -> None:
        self._key, self._first, self._num_replayed = start.key, start.first, start.num_replayed
        self._next_number = start.first
        # A batch's number and the position before it, if the position cannot be had later.
        self._before: tuple[int, SavedWorker | None] | None = None
        with self._drawing():
            if self._position is not None:
                self._start = self._position.begin_epoch(start.key, 0, self._resume_point)
            if isinstance(self._fetcher, IterableFetcher):
                self._fetcher.check_begun()

    # ---- batches ---------------------------------------------------------------------------------------------------

    def has_room(self, *, may_wait: bool = False) -> bool:
        return not self._submitted[1]

    def submit(self, request: Request, given: list[Any]) -> bool:
        if self._submitted[0] is not request:  # else an interrupt came before `given` was emptied
            self._submitted = request, True
        given.clear()
        return True

    def take(self) -> MadeBatch | None:
        """Makes the requested batch. After an interrupt it is made again of the same indices, but a stream's samples
        are taken only once."""
        request, is_pending = self._submitted
        if self._made is None and request is not None and is_pending:
            if self._record.num_closes != self._num_closes:
                raise closed_error()
            try:
                self._made = self._replayed(request) if self._num_replayed else self._fetched(request)
            except EndOfStreamError:
                self._submitted = request, False
        return self._made

    def _fetched(self, request: Request) -> MadeBatch:
        is_first = self._next_number == self._first
        if self._fetcher.is_stateful and not is_first and self._known_before(self._next_number) is None:
            # The position before a batch cannot be had once the batch is begun.
            self._before = self._next_number, self._snapshot()
        try:
            batch = self._fetch(request)
        except EndOfStreamError:
            raise
        except BaseException as error:
            if not (self._fetcher.is_of_stream or not is_interrupt(error)):
                raise
            return PythonBatch(self._record.counters, self._forget, None, self._fetcher.take_account(), error)
        batch = batch if self._pinning is None else self._pinning.pin(batch)
        return PythonBatch(self._record.counters, self._forget, batch, self._fetcher.take_account())

    def _fetch(self, request: Request) -> Any:
        with self._drawing():
            return self._fetcher.fetch(request.item, request.python_key, 0, lambda: False)

    def _replayed(self, request: Request) -> MadeBatch:
        """Makes a batch that was handed out before. Its errors are ignored, because they were raised before, too."""
        try:
            with self._replaying():
                self._fetch(request)
        except EndOfStreamError:
            raise
        except Exception as error:
            if is_interrupt(error):
                raise
        self._fetcher.take_account()
        return PythonBatch(self._record.counters, self._forget)

    def _forget(self, number: int) -> None:
        if self._made is not None:
            self._num_replayed = max(0, self._num_replayed - 1)
        self._made, self._next_number = None, number + 1
        self._submitted = self._submitted[0], False

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """Enters the generators that the batches draw from."""
        if self._generators is None:
            yield
            return
        with exchanged(), self._generators.entered():
            yield

    # ---- its state and its end -------------------------------------------------------------------------------------

    @property
    def has_own_states(self) -> bool:
        return self._fetcher.is_stateful

    def state_before(self, position: int, *, is_over: bool) -> tuple[int, Callable[[], WorkerStates]]:
        snapshot, replayed = self._start, 0
        if snapshot is None or self._position is None:
            return position, WorkerStates
        if is_over:
            with self._drawing():
                snapshot = self._position.after_end()
        elif not self._fetcher.is_stateful:
            replayed = position
        elif (known := self._known_before(position)) is not None:
            snapshot = known
        elif position != self._first:
            snapshot = self._snapshot()
        assert snapshot is not None, "data set or stream have states"
        at, next_worker = snapshot, 0 if self._fetcher.is_of_stream else None
        return position, lambda: WorkerStates(None, (at.saved(),), replayed, next_worker)

    def _known_before(self, number: int) -> SavedWorker | None:
        return self._before[1] if self._before is not None and self._before[0] == number else None

    def _snapshot(self) -> SavedWorker | None:
        """Returns the current position; None: it is not known."""
        if self._position is None:
            return None
        with self._drawing():
            return self._position.after_batch(is_asked=True)

    @property
    def in_flight(self) -> int:
        return 1 if self._submitted[1] else 0
