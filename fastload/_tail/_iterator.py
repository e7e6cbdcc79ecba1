"""One epoch of a loader whose samples end in Python."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from typing import Any, NoReturn

import torch
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _BaseDataLoaderIter

from fastload._errors import ForkedProcessError
from fastload._exit import exit_state
from fastload._tail._batch_maker import BatchMaker
from fastload._tail._counters import TailCounters
from fastload._tail._plan import TailPlan
from fastload._tail._random_stream import RandomKey, RandomStream, SampleStream, TorchStream
from fastload._tail._threads import WorkerGroup, closed_error


class LoaderTails:
    """What a loader keeps of its iterations with a Python tail: those that run, and what all of them have counted."""

    def __init__(self) -> None:
        self.counters = TailCounters()
        self.num_closes = 0
        self._groups: weakref.WeakSet[WorkerGroup] = weakref.WeakSet()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a loader begins with none and nothing counted."""
        return LoaderTails, ()

    def add(self, group: WorkerGroup) -> None:
        self._groups.add(group)

    def close(self) -> None:
        """Ends every iteration and its threads; those that wait for a batch get LoaderClosedError."""
        self.num_closes += 1
        groups = list(self._groups)
        for group in groups:
            group.signal_end()
        for group in groups:
            group.close()

    def stats(self) -> dict[str, Any]:
        """Counters by the names of LoaderStats."""
        pending = [task for group in list(self._groups) if not group.is_ending for task in tuple(group.pending)]
        depth = sum(task.is_done for task in pending)
        return {**self.counters.snapshot(), "batches_in_flight": len(pending), "queue_depth": depth}


class TailIterator(_BaseDataLoaderIter):
    """Yields what collate_fn makes of the samples, as torch's iterators do, with threads instead of processes.

    With rng="torch" the bytes are those of torch's DataLoader with the same arguments, and the same draws are made.
    """

    def __init__(self, loader: Any, tails: LoaderTails, plan: TailPlan, batches_per_thread: int) -> None:
        """`loader` is a fastload.DataLoader; the iterator does not keep it."""
        super().__init__(loader)
        self._owner_pid = os.getpid()
        self._tails = tails
        self._num_closes = tails.num_closes
        self._counters = tails.counters
        self._rng = plan.rng
        # Not a method: the threads get it, and must not know the iterator.
        self._pin = functools.partial(pin_memory, device=self._pin_memory_device or None) if self._pin_memory else None
        # Two threads may share an iterator: each batch goes to one of them.
        self._lock = threading.Lock()
        self._resets = 0
        exit_state.watch()
        if self._num_workers == 0:
            stream = _stream(plan, torch.default_generator, is_of_process=True)
            self._maker = BatchMaker(plan, stream, self._counters, None)
            self._key = self._random_key(loader)
            self._group = None
            return
        self._group = self._start_threads(plan, tails)
        self._max_batches = batches_per_thread * self._num_workers
        self._begin(loader, first_iter=True)

    def _start_threads(self, plan: TailPlan, tails: LoaderTails) -> WorkerGroup:
        seeds = [int(self._base_seed) + number for number in range(self._num_workers)]
        makers = [
            BatchMaker(
                plan,
                _stream(plan, torch.Generator().manual_seed(seed), is_of_process=False),
                self._counters,
                number,
            )
            for number, seed in enumerate(seeds)
        ]
        group = WorkerGroup(makers, seeds, plan.dataset, self._counters, self._pin)
        weakref.finalize(self, group.signal_end).atexit = False
        tails.add(group)
        group.start()
        return group

    @property
    def is_running(self) -> bool:
        """Whether more batches can come: its threads are of this process and have not been told to end."""
        return os.getpid() == self._owner_pid and (self._group is None or not self._group.is_ending)

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
        self._group.restart_order()
        for _ in range(self._max_batches):
            self._submit_next(self._group)

    def _random_key(self, loader: Any) -> RandomKey:
        if self._rng == "torch":
            return 0, 0
        seed, epoch = loader._random_key(int(self._base_seed), self._resets)
        return int(seed), int(epoch)

    def _submit_next(self, group: WorkerGroup) -> None:
        try:
            indices = self._next_index()  # type: ignore[no-untyped-call]
        except StopIteration:
            return
        group.submit(indices, self._key)

    def _next_data(self) -> Any:
        if os.getpid() != self._owner_pid:
            raise ForkedProcessError("this iterator", self._owner_pid)
        exit_state.sleep_if_begun()
        with self._lock:
            batch = self._next_of_caller() if self._group is None else self._next_of_threads(self._group)
        self._counters.add({"batches_delivered": 1})
        return batch

    def _next_of_caller(self) -> Any:
        indices = self._next_index()  # type: ignore[no-untyped-call]
        if self._tails.num_closes != self._num_closes:
            raise closed_error()
        batch = self._maker.make(indices, self._key)
        return batch if self._pin is None else self._pin(batch)

    def _next_of_threads(self, group: WorkerGroup) -> Any:
        if not group.pending:
            if not self._persistent_workers:
                group.signal_end()
            raise StopIteration
        task = group.wait(float(self._timeout))
        exit_state.sleep_if_begun()
        self._submit_next(group)
        return task.take()


def _stream(plan: TailPlan, generator: torch.Generator, *, is_of_process: bool) -> RandomStream:
    if plan.rng == "sample":
        return SampleStream(plan.tail_position)
    return TorchStream(generator, is_of_process=is_of_process)
