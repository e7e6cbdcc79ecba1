"""The position of a worker: what it draws from, and what data set and stream say of themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fastload._iteration.threads._fetcher import BatchFetcher
from fastload._iteration.threads._worker_draws import GeneratorSnapshot, WorkerDraws
from fastload._resume._saved_state import SavedState
from fastload._resume._saved_worker import SavedWorker
from fastload._resume._torchdata_keys import user_path
from fastload._workers._random_stream import RandomKey


@dataclass(frozen=True)
class ResumePoint:
    """Where a worker continues.

    Attributes:
        saved: Its part of the state.
        is_in_epoch: Whether it continues in an epoch; else the next one begins.
        field: The state's field of what it draws from, for messages.
        user_field: The state's field of what data set and stream said of themselves.
    """

    saved: SavedWorker
    is_in_epoch: bool
    field: str
    user_field: str


def resume_points(saved: SavedState | None, num_workers: int) -> tuple[ResumePoint, ...] | None:
    """Returns where each worker continues, or the caller where there is none; None: they begin."""
    if saved is None or saved.workers is None:
        return None
    is_in_epoch = saved.moment == "in an epoch"
    return tuple(
        ResumePoint(worker, is_in_epoch, f"fastload.workers[{number}]", user_path(num_workers, number))
        for number, worker in enumerate(saved.workers)
    )


class WorkerPlaces:
    """Says where one worker stands. To be used in its thread alone, in which its generators are entered.

    Args:
        draws: What it draws from.
        fetcher: What makes its batches.
        around_iter: Held where a data set is asked for an iterator again, as it was in the run that was saved.
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

    def begin_epoch(self, key: RandomKey, epoch: int, resume_point: ResumePoint | None) -> GeneratorSnapshot:
        """Begins an epoch, or goes on in it; `epoch` counts those of the iterator.

        Returns:
            Where the worker stands. Where data set and stream do not tell, that is before the data set was asked for an
            iterator: all that follows comes out the same from there.

        Raises:
            StateError: The worker cannot go on there.
        """
        if resume_point is not None and resume_point.saved.user.is_known:
            restored = self.restore(key, epoch, resume_point)
            if resume_point.is_in_epoch:
                return restored
        with contextlib.nullcontext() if resume_point is None or not resume_point.is_in_epoch else self._around_iter():
            before = self._draws.copy(is_after_batch=epoch > 1)
            self._fetcher.begin_epoch(key, epoch)
        return self._moment(is_after_batch=False) if self._fetcher.is_stateful else before

    def restore(self, key: RandomKey, epoch: int, resume_point: ResumePoint) -> GeneratorSnapshot:
        """As torchdata: first the data set's state, then iter(), then that of the iterator. Returns where it stands."""
        user, fetcher = resume_point.saved.user, self._fetcher
        fetcher.load_dataset(user.dataset, resume_point.user_field)
        with self._around_iter():
            moment = self._draws.copy(is_after_batch=False)
            fetcher.begin_epoch(key, epoch)
        fetcher.load_iterator(user, resume_point.user_field)
        self._draws.set(resume_point.saved, resume_point.field)  # which all of that may have drawn from
        return moment._replace(user=user)  # a data set need not tell it again before it is asked for a sample

    def behind_batch(self, *, is_asked: bool) -> GeneratorSnapshot | None:
        """Where it stands behind a batch, where a state may begin there; or None."""
        if not is_asked or (self._fetcher.is_of_stream and not self._fetcher.is_stateful):
            return None
        return self._moment(is_after_batch=True)

    def behind_end(self) -> GeneratorSnapshot:
        """Where it stands when its stream has ended."""
        return self._moment(is_after_batch=True)

    def _moment(self, *, is_after_batch: bool) -> GeneratorSnapshot:
        moment = self._draws.copy(is_after_batch=is_after_batch)
        return moment._replace(user=self._fetcher.user_state()) if self._fetcher.is_stateful else moment
