"""Where a worker stands: what it draws from, and what data set and stream say of themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fastload._iteration.threads._fetcher import BatchFetcher
from fastload._iteration.threads._worker_draws import Moment, WorkerDraws
from fastload._resume._saved_worker import SavedWorker
from fastload._workers._random_stream import RandomKey


@dataclass(frozen=True)
class GoingOn:
    """Where a worker goes on.

    Attributes:
        saved: Where it stood.
        is_in_epoch: Whether in an epoch; else behind one, so that the next begins.
        field: Of what it draws from, in the state, for messages.
        user_field: Of what data set and stream said of themselves.
    """

    saved: SavedWorker
    is_in_epoch: bool
    field: str
    user_field: str


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

    def begin_epoch(self, key: RandomKey, epoch: int, going_on: GoingOn | None) -> Moment:
        """Begins an epoch, or goes on in it; `epoch` counts those of the iterator.

        Returns:
            Where the worker stands. Where data set and stream do not tell, that is before the data set was asked for an
            iterator: all that follows comes out the same from there.

        Raises:
            StateError: The worker cannot go on there.
        """
        if going_on is not None and going_on.saved.user.is_known:
            restored = self.restore(key, epoch, going_on)
            if going_on.is_in_epoch:
                return restored
        with contextlib.nullcontext() if going_on is None or not going_on.is_in_epoch else self._around_iter():
            before = self._draws.copy(is_behind_batch=epoch > 1)
            self._fetcher.begin_epoch(key, epoch)
        return self._moment(is_behind_batch=False) if self._fetcher.is_stateful else before

    def restore(self, key: RandomKey, epoch: int, going_on: GoingOn) -> Moment:
        """As torchdata: first the data set's state, then iter(), then that of the iterator. Returns where it stands."""
        user, fetcher = going_on.saved.user, self._fetcher
        fetcher.load_dataset(user.dataset, going_on.user_field)
        with self._around_iter():
            moment = self._draws.copy(is_behind_batch=False)
            fetcher.begin_epoch(key, epoch)
        fetcher.load_iterator(user, going_on.user_field)
        self._draws.set(going_on.saved, going_on.field)  # which all of that may have drawn from
        return moment._replace(user=user)  # a data set need not tell it again before it is asked for a sample

    def behind_batch(self, *, is_asked: bool) -> Moment | None:
        """Where it stands behind a batch, where a state may begin there; or None."""
        if not is_asked or (self._fetcher.is_of_stream and not self._fetcher.is_stateful):
            return None
        return self._moment(is_behind_batch=True)

    def behind_end(self) -> Moment:
        """Where it stands when its stream has ended."""
        return self._moment(is_behind_batch=True)

    def _moment(self, *, is_behind_batch: bool) -> Moment:
        moment = self._draws.copy(is_behind_batch=is_behind_batch)
        return moment._replace(user=self._fetcher.user_state()) if self._fetcher.is_stateful else moment
