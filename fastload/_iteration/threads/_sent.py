"""A batch that was made, on its way to whoever iterates."""

from __future__ import annotations

from typing import Any

import torch

from fastload._delivery._hand_over import Delivery
from fastload._iteration.threads._task import Task
from fastload._iteration.threads._worker_group import WorkerGroup
from fastload._quarantine._failure import Account
from fastload._workers._inherited import without_inference


class Sent:
    """A batch that was made: an interrupt finds it here, on its way to the device or not.

    Args:
        number: In its epoch.
        batch: Where it is at hand.
        task: Whose batch it is, else.
        account: Of its samples; a task's own, where there is one.
    """

    def __init__(
        self, number: int, batch: Any = None, task: Task | None = None, account: Account | None = None
    ) -> None:
        self.batch = batch
        self.number = number
        self.task = task
        self.account = account if task is None else task.account
        self.has_failed = False  # there is no batch
        self._is_open = task is None
        self._is_moved = False

    def open(self, group: WorkerGroup, delivery: Delivery) -> None:
        """Takes the task's batch, or raises what came in its place."""
        task = self.task
        if task is None:
            return
        if not self._is_open:
            self._raise_error()
            batch = task.batch
            if group.thread_state.is_inference and not torch.is_inference_mode_enabled():
                batch = without_inference(batch)
            with delivery.naming(batch, self.number):
                group.order.take_over(batch, task.mark)
            self.batch, self._is_open = batch, True
        task.let_go()
        self.task = None

    def _raise_error(self) -> None:
        assert self.task is not None, "its error"
        error = self.task.take_error()
        if error is None:
            return
        self.has_failed = True
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    def move(self, delivery: Delivery) -> None:
        if not self._is_moved:
            self.batch, self._is_moved = delivery.move(self.batch, self.number), True
