"""A batch that a worker or the caller has made, on its way to the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastload._delivery._hand_over import Delivery
from fastload._iteration._maker import MadeBatch
from fastload._iteration.python._counters import WorkerCounters
from fastload._iteration.python._task import Task


class PythonBatch(MadeBatch):
    """The batch of a finished task, or the failure that came instead.

    Args:
        counters: Counts the batches that are delivered.
        forget: Called with the batch's number when the iterator holds the batch.
        received: Returns the task's batch. May be called again until the task is let go.
    """

    def __init__(
        self, counters: WorkerCounters, forget: Callable[[int], None], task: Task, received: Callable[[Task], Any]
    ) -> None:
        super().__init__()
        self.account, self.is_end_of_stream = task.account, task.is_end_of_stream
        self._counters, self._forget, self._received = counters, forget, received
        self._task: Task | None = task
        self._is_open = self._is_moved = self._is_counted = False

    def release(self) -> None:
        self._forget(self.number)

    def open(self, delivery: Delivery) -> None:
        with delivery.on_copy_stream():  # runs after the work that the batch's thread queued on the device
            self._take(delivery)
        if not self._is_moved:
            self.batch, self._is_moved = delivery.move(self.batch, self.number), True

    def _take(self, delivery: Delivery) -> None:
        """Takes the task's batch, or raises what came instead of it."""
        task = self._task
        if task is None:
            return
        if not self._is_open:
            if task.failure is not None:
                error, self.has_failed = task.failure.new_error(), True
                try:
                    raise error
                finally:
                    del error, task  # the error's traceback refers to this frame
            with delivery.naming(task.batch, self.number):
                self.batch, self._is_open = self._received(task), True
        task.let_go()
        self._task = None

    def let_go(self) -> None:
        if self._task is not None:  # the batch has failed
            self._task.let_go()
            self._task = None
        if self._is_moved and not self._is_counted:
            self._counters.add({"batches_delivered": 1})
            self._is_counted = True
        self.batch = None
