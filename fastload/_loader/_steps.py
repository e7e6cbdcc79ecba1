"""Epochs of as many batches as are asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from fastload import _native
from fastload._process._interrupts import append_result


class StepsIterator:
    """Gives so many batches of a loader: a part of its epoch, or that epoch and those that follow.

    An interrupt costs no batch: Note [interrupts]. A batch that raises an error is not counted.

    Args:
        begin: Begins an epoch; called at once, and each time when one has ended too early.
        num_steps: Batches.
    """

    __next__ = _native.next_when_ready

    def __init__(self, begin: Callable[[], Iterator[Any]], num_steps: int) -> None:
        self._begin = begin
        self._num_steps = num_steps
        self._left = iter(range(num_steps))
        self._ready: list[Any] = []  # the batch that is handed out next
        self._has_ended_once = False
        self._begin_epoch()

    def __iter__(self) -> StepsIterator:
        return self

    def __len__(self) -> int:
        return self._num_steps

    def __getattr__(self, name: str) -> Any:
        """batch_report() and what else an iterator of the loader has."""
        if name.startswith("__") or "_epoch" not in vars(self):
            raise AttributeError(name)
        return getattr(self._epoch, name)

    def _begin_epoch(self) -> None:
        epoch = self._begin()
        # All of it C code: a batch and its step are taken together.
        self._batches = map(operator.itemgetter(0), zip(epoch, self._left, strict=False))
        self._num_before = self._num_left
        self._epoch = epoch

    @property
    def _num_left(self) -> int:
        return operator.length_hint(self._left)

    def _prepare(self) -> None:
        """Called by next(): brings the next batch into the hand. Called again after an interrupt, it goes on."""
        while not self._ready:
            if self._num_left == 0:
                raise StopIteration
            append_result(self._ready, next, self._batches)
            if not self._ready:
                self._go_on()

    def _go_on(self) -> None:
        """Behind an epoch that has ended too early."""
        is_empty = self._num_left == self._num_before
        if is_empty and self._has_ended_once:  # the first may be the rest of an epoch, of which nothing is left
            raise RuntimeError(
                f"steps={self._num_steps} cannot be reached: an epoch of this loader gave no batch, and "
                f"{self._num_left} are missing"
            )
        self._begin_epoch()
        self._has_ended_once = True
