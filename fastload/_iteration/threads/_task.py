"""One batch on its way: asked for, made by one worker's thread, and taken by who asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastload._delivery._thread_order import Mark
from fastload._iteration._maker import Request
from fastload._iteration.threads._worker_draws import GeneratorSnapshot
from fastload._quarantine._failure import Account


class AbandonedError(BaseException):
    """The batch is not wanted any more. No Exception: the user's code is left by it."""


class Task:
    """One batch.

    Args:
        request: The batch that is asked for.
        is_asked: Whether a state may begin after the batch, so that the worker notes its position then.
        epoch: The iterator's, from 1.
        worker_id: The worker that makes it.
        wake: Called when it is done.
    """

    def __init__(
        self, request: Request, *, is_asked: bool, epoch: int, worker_id: int, wake: Callable[[], None]
    ) -> None:
        self.request = request
        self.is_asked = is_asked
        self.epoch = epoch
        self.worker_id = worker_id
        self.is_taken = False  # by its thread, which may be given it more than once
        self.is_done = False
        self.is_end_of_stream = False
        self.mark: Mark | None = None  # of what was given to a device for the batch
        self.account: Account | None = None  # of its samples, where bad ones are replaced or left out
        self.behind: GeneratorSnapshot | None = None  # where its worker stands behind it
        self._wake = wake
        self._batch: Any = None
        self._error: BaseException | None = None

    def finish(
        self,
        batch: Any = None,
        error: BaseException | None = None,
        *,
        mark: Mark | None = None,
        account: Account | None = None,
        behind: GeneratorSnapshot | None = None,
        is_end_of_stream: bool = False,
    ) -> None:
        self._batch, self._error, self.mark, self.account = batch, error, mark, account
        self.behind = behind
        self.is_end_of_stream = is_end_of_stream
        self.is_done = True
        self._wake()

    @property
    def batch(self) -> Any:
        """What was made."""
        return self._batch

    def take_error(self) -> BaseException | None:
        """What came in the place of the batch, once."""
        error, self._error = self._error, None
        return error

    def let_go(self) -> None:
        """What a thread's frames know of this task holds the batch no more."""
        self._batch = None
