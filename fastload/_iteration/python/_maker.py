"""Batches made by threads that run Python."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastload import _native
from fastload._delivery._thread_order import DeviceOrder
from fastload._iteration._maker import BatchMaker, EpochStart, MadeBatch, Request, TorchValues, WorkerStates
from fastload._iteration._setup import LoaderSetup
from fastload._iteration.python._fetcher import FetchPlan
from fastload._iteration.python._loader_workers import LoaderWorkers
from fastload._iteration.python._made_batch import TaskBatch
from fastload._iteration.python._resume_point import resume_points
from fastload._iteration.python._snapshot_log import SnapshotLog
from fastload._iteration.python._task import Task
from fastload._iteration.python._thread_group import ThreadGroup
from fastload._iteration.python._worker import WorkerPlan, setter_of_current_device
from fastload._iteration.python._worker_group import WorkerGroup
from fastload._workers._places import HeldGenerators
from fastload.samplers._resting import known_length


class WorkerMaker(BatchMaker):
    """Makes batches with the user's dataset and collate_fn, as torch's worker processes do, in threads.

    With rng="torch" the workers draw the same numbers from torch's generators as torch's DataLoader would.
    """

    def __init__(self, setup: LoaderSetup, fetch: FetchPlan, record: LoaderWorkers) -> None:
        self.way, self.fingerprint = setup.python_way, setup.python_fingerprint()
        self.takes_numbers = fetch.rng != "torch"
        self.snapshot_every = setup.settings.snapshot_every_n_steps if setup.has_states else 1
        self._setup, self._fetch, self._record = setup, fetch, record
        self._done: Task | None = None  # the task that is taken and not yet released

    def start(self, values: TorchValues) -> None:
        self._timeout_seconds = values.timeout_seconds
        group = self._group = self._new_group(values)
        self.threads = group.threads
        self._end = _native.CallsAtDrop(group.end_calls)
        self._record.add(group)
        self._record.caches.begin()
        group.start()

    def _new_group(self, values: TorchValues) -> WorkerGroup:
        setup, pinning = self._setup, self._setup.delivery.pinning(values.pins, values.pin_device)
        plan = self._worker_plan(values)
        if pinning is not None:
            plan = replace(plan, pin=pinning.pin, set_device=setter_of_current_device())
        # Several threads would draw from the generators that the user's objects hold.
        held = HeldGenerators(setup.code) if setup.num_threads == 1 else None
        return ThreadGroup(plan, setup.code, held)

    def _worker_plan(self, values: TorchValues) -> WorkerPlan:
        setup = self._setup
        return WorkerPlan(
            self._fetch,
            num_workers=setup.num_threads,
            base_seed=values.base_seed,
            is_ordered=setup.is_ordered,
            in_order=setup.is_in_order,
            max_batches=setup.max_batches,
            resume_point=resume_points(setup.resumed, setup.num_threads),
            order=DeviceOrder(),
        )

    def begin_epoch(self, start: EpochStart) -> None:
        setup, resumed = self._setup, start.resumed
        self._first = self._next_number = start.first
        self._done = None
        # Any batch may be the last one if the length is not known.
        self._last_number = sys.maxsize if setup.is_of_stream else known_length(setup.index_sampler) or 0
        next_worker = 0 if resumed is None or resumed.next_worker is None else resumed.next_worker
        first_worker = next_worker if setup.is_of_stream else start.first % setup.num_threads
        self._starts = self._group.restart_order(start.key, first_worker)
        self._log = SnapshotLog(
            self._starts,
            every=self.snapshot_every,
            depth=setup.delivery.prefetch,
            first=start.first,
            first_worker=first_worker if setup.is_of_stream else None,
            timeout_seconds=self._timeout_seconds,
        )
        if resumed is not None and resumed.workers is not None:
            for worker in self._starts:
                worker.check(self._timeout_seconds)

    # ---- batches ---------------------------------------------------------------------------------------------------

    def has_room(self, *, may_wait: bool = False) -> bool:
        return self.in_flight - (0 if self._done is None else 1) < self._setup.max_batches

    def submit(self, request: Request, given: list[Any]) -> bool:
        if not self._group.submit(request, self._done, is_asked=self._is_asked_after(request)):
            return False
        given.clear()
        return True

    def _is_asked_after(self, request: Request) -> bool:
        """Returns whether a state may begin between this batch and the next one of its worker."""
        number, every = request.number, self.snapshot_every
        if every == 1 or (self._setup.is_persistent and number + self._setup.num_threads >= self._last_number):
            return True  # the next epoch may continue from there
        if every == 0:
            return False
        # A stream that ends moves the numbers of all batches after it.
        is_known = self._setup.is_in_order and not self._setup.is_of_stream
        earliest = number if is_known else self._next_number
        return (number + self._setup.num_threads) // every > earliest // every

    def take(self) -> MadeBatch | None:
        if not self._group.pending:
            if not self._setup.is_persistent:
                self._group.end()
            return None
        task = self._done = self._group.wait(self._timeout_seconds)
        return TaskBatch(self._record.counters, functools.partial(self._forget, task), task, self._group)

    def _forget(self, task: Task, number: int) -> None:
        """Notes the worker's position after the task, and takes the task out of flight. May be repeated."""
        if task.is_end_of_stream:
            self._log.note(number - 1, task.worker_id, task.snapshot, is_end=True)
        else:
            self._log.note(number, task.worker_id, task.snapshot)
            self._next_number = max(self._next_number, number + 1)
        if task in self._group.pending:
            self._group.pending.remove(task)
        self._done = None

    @property
    def in_flight(self) -> int:
        return len(self._group.pending)

    @property
    def has_next(self) -> bool:
        return self._group.has_next

    @property
    def is_active(self) -> bool:
        return self._group.has_active_worker

    # ---- its state and its end -------------------------------------------------------------------------------------

    @property
    def has_own_states(self) -> bool:
        for worker in self._starts:
            worker.check(self._timeout_seconds)
        return all(worker.is_stateful for worker in self._starts)

    def state_before(self, position: int, *, is_over: bool) -> tuple[int, Callable[[], WorkerStates]]:
        setup, every = self._setup, self.snapshot_every
        if is_over or every == 1:
            begins_at = position
        else:
            begins_at = max(self._first, position - position % every) if every else self._first
        if not setup.is_ordered or (is_over and not setup.is_persistent):
            states = WorkerStates(next_worker=0 if setup.is_of_stream else None)
            return begins_at, lambda: states
        return begins_at, self._log.states_before(begins_at, position, is_over=is_over)

    @property
    def is_running(self) -> bool:
        return self._group.is_running

    def cancel(self) -> None:
        self._group.signal_end()

    def close(self) -> None:
        self._group.close()
