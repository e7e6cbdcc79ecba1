"""A batch that a worker or the caller has made, on its way to the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastload._delivery._hand_over import Delivery
from fastload._iteration._maker import MadeBatch
from fastload._iteration.python._counters import WorkerCounters
from fastload._iteration.python._task import Task
from fastload._iteration.python._worker_group import WorkerGroup
from fastload._quarantine._failure import Account


class PythonBatch(MadeBatch):
    """A batch that Python has made in the calling thread, or the error that came instead.

    `forget` is called with the batch's number when the iterator holds the batch.
    """

    def __init__(
        self,
        counters: WorkerCounters,
        forget: Callable[[int], None],
        batch: Any = None,
        account: Account | None = None,
        error: BaseException | None = None,
    ) -> None:
        super().__init__()
        self._errors = [] if error is None else [error]
        self.batch, self.account = batch, account
        self._counters, self._forget = counters, forget
        self._is_moved = self._is_counted = False

    def release(self) -> None:
        self._forget(self.number)

    def open(self, delivery: Delivery) -> None:
        if self._errors:
            self.has_failed = True
            raise self._errors.pop()
        if not self._is_moved:
            self.batch, self._is_moved = delivery.move(self.batch, self.number), True

    def let_go(self) -> None:
        if self._is_moved and not self._is_counted:
            self._counters.add({"batches_delivered": 1})
            self._is_counted = True
        self.batch = None


class TaskBatch(PythonBatch):
    """A batch of a worker's task."""

    def __init__(self, counters: WorkerCounters, forget: Callable[[int], None], task: Task, group: WorkerGroup) -> None:
        super().__init__(counters, forget, account=task.account)
        self.is_end_of_stream = task.is_end_of_stream
        self._task: Task | None = task
        self._group = group
        self._is_open = False

    def open(self, delivery: Delivery) -> None:
        with delivery.on_copy_stream():  # runs after the work that the batch's thread queued on the device
            self._take(delivery)
        super().open(delivery)

    def _take(self, delivery: Delivery) -> None:
        """Takes the task's batch, or raises what came instead of it."""
        task, group = self._task, self._group
        if task is None:
            return
        if not self._is_open:
            if task.failure is not None:
                error, self.has_failed = task.failure.new_error(), True
                try:
                    raise error
                finally:
                    del error, task  # the error's traceback refers to this frame
            batch = group.received(task)
            with delivery.naming(batch, self.number):
                group.order.take_over(batch, task.mark)
            self.batch, self._is_open = batch, True
        task.let_go()
        self._task = None

    def let_go(self) -> None:
        if self._task is not None:  # the batch has failed
            self._task.let_go()
            self._task = None
        super().let_go()
