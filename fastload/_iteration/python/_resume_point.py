"""The position of a worker: its random generators, and the states of its data set and stream."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fastload._iteration._saved_state import SavedState
from fastload._iteration._saved_worker import SavedWorker, user_path
from fastload._iteration.python._fetcher import BatchFetcher
from fastload._iteration.python._worker_draws import WorkerDraws
from fastload._workers._random_stream import RandomKey


@dataclass(frozen=True)
class ResumePoint:
    """The position at which a worker continues: in the middle of an epoch, or at the start of the next one.

    Attributes:
        saved: The worker's part of the state.
        field: Name of the state's field for the worker's generators, for messages.
        user_field: Name of the state's field for the states of data set and stream.
    """

    saved: SavedWorker
    is_in_epoch: bool
    field: str
    user_field: str


def resume_points(saved: SavedState | None, num_workers: int) -> tuple[ResumePoint, ...] | None:
    """Returns the resume point of each worker, or of the caller if there are no workers; None: nothing is resumed."""
    if saved is None or saved.workers is None:
        return None
    is_in_epoch = saved.moment == "in an epoch"
    return tuple(
        ResumePoint(worker, is_in_epoch, f"fastload.workers[{number}]", user_path(num_workers, number))
        for number, worker in enumerate(saved.workers)
    )


class WorkerPosition:
    """Tracks the position of one worker. Use it only in the worker's thread, with the worker's generators entered.

    `around_iter` is the context in which a data set is asked again for the iterator that the saved run had.
    """

    def __init__(
        self,
        draws: WorkerDraws,
        fetcher: BatchFetcher,
        around_iter: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._draws = draws
        self._fetcher = fetcher
        self._around_iter = around_iter

    def begin_epoch(self, key: RandomKey, epoch: int, resume_point: ResumePoint | None) -> SavedWorker:
        """Begins an epoch or continues it, and returns the worker's position; `epoch` counts the iterator's epochs.

        If data set and stream have no states, this is the position before the data set was asked for an iterator:
        everything after it comes out the same. Raises StateError if the worker cannot continue there.
        """
        if resume_point is not None and resume_point.saved.user.is_known:
            restored = self.restore(key, epoch, resume_point)
            if resume_point.is_in_epoch:
                return restored
        with contextlib.nullcontext() if resume_point is None or not resume_point.is_in_epoch else self._around_iter():
            before = self._draws.copy(is_after_batch=epoch > 1)
            self._fetcher.begin_epoch(key, epoch)
        return self._snapshot(is_after_batch=False) if self._fetcher.is_stateful else before

    def restore(self, key: RandomKey, epoch: int, resume_point: ResumePoint) -> SavedWorker:
        """Loads the data set's state, calls iter(), then loads the iterator's state, as torchdata does."""
        user, fetcher = resume_point.saved.user, self._fetcher
        fetcher.load_dataset(user.dataset, resume_point.user_field)
        with self._around_iter():
            snapshot = self._draws.copy(is_after_batch=False)
            fetcher.begin_epoch(key, epoch)
        fetcher.load_iterator(user, resume_point.user_field)
        self._draws.set(resume_point.saved, resume_point.field)  # last: the calls above may have drawn
        return snapshot._replace(user=user)  # a data set need not give its state again before its first sample

    def after_batch(self, *, is_asked: bool) -> SavedWorker | None:
        """Returns the worker's position after a batch; None: no state may begin there."""
        if not is_asked or (self._fetcher.is_of_stream and not self._fetcher.is_stateful):
            return None
        return self._snapshot(is_after_batch=True)

    def after_end(self) -> SavedWorker:
        """Returns the worker's position after its stream has ended."""
        return self._snapshot(is_after_batch=True)

    def _snapshot(self, *, is_after_batch: bool) -> SavedWorker:
        snapshot = self._draws.copy(is_after_batch=is_after_batch)
        return snapshot._replace(user=self._fetcher.user_state()) if self._fetcher.is_stateful else snapshot
