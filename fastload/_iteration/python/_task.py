"""One batch in flight: requested, made by a worker's thread, and taken by the iterator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastload._delivery._thread_order import Mark
from fastload._iteration._maker import Request
from fastload._iteration._saved_worker import SavedWorker
from fastload._quarantine._failure import Account
from fastload._workers._worker_error import WorkerFailure


class AbandonedError(BaseException):
    """The batch is not wanted any more. Not an Exception, so that the user's code does not catch it."""


class Task:
    """One requested batch.

    Args:
        is_asked: Whether a state may begin after the batch, so that the worker takes a snapshot then.
        epoch: The iterator's epoch, from 1.
        wake: Called when the task is done, or None.
    """

    def __init__(
        self, request: Request, *, is_asked: bool, epoch: int, worker_id: int, wake: Callable[[], None] | None = None
    ) -> None:
        self.request = request
        self.is_asked = is_asked
        self.epoch = epoch
        self.worker_id = worker_id
        self.is_taken = False  # by its thread, whose queue may get the task more than once
        self.is_done = False
        self.is_end_of_stream = False
        self.mark: Mark | None = None  # marks the work that was queued on a device for the batch
        self.account: Account | None = None  # lists its bad samples, if these are replaced or left out
        self.snapshot: SavedWorker | None = None  # the worker's position after the batch
        self._wake = wake
        self.batch: Any = None
        self.failure: WorkerFailure | None = None  # came instead of the batch

    def finish(
        self,
        batch: Any = None,
        failure: WorkerFailure | None = None,
        *,
        mark: Mark | None = None,
        account: Account | None = None,
        snapshot: SavedWorker | None = None,
        is_end_of_stream: bool = False,
    ) -> None:
        self.batch, self.failure, self.mark, self.account = batch, failure, mark, account
        self.snapshot = snapshot
        self.is_end_of_stream = is_end_of_stream
        self.is_done = True
        if self._wake is not None:
            self._wake()

    def let_go(self) -> None:
        """Drops the batch or failure, which frames of the thread would keep alive together with the task."""
        self.batch = self.failure = None
