"""Epochs with a chosen number of batches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from fastload import _native
from fastload._process._interrupts import append_result


class StepsIterator:
    """Gives `num_steps` batches of a loader: part of an epoch, or an epoch and the ones that follow.

    An interrupt loses no batch: Note [interrupts]. A batch that raises an error is not counted. `begin` starts an
    epoch; it is called at once, and again each time an epoch ends too early.
    """

    __next__ = _native.next_when_ready

    def __init__(self, begin: Callable[[], Iterator[Any]], num_steps: int) -> None:
        self._begin = begin
        self._num_steps = num_steps
        self._left = iter(range(num_steps))
        self._ready: list[Any] = []  # the batch that next() returns next
        self._has_ended_once = False
        self._begin_epoch()

    def __iter__(self) -> StepsIterator:
        return self

    def __len__(self) -> int:
        return self._num_steps

    def __getattr__(self, name: str) -> Any:
        """Gets attributes of the loader's iterator, such as batch_report()."""
        if name.startswith("__") or "_epoch" not in vars(self):
            raise AttributeError(name)
        return getattr(self._epoch, name)

    def _begin_epoch(self) -> None:
        epoch = self._begin()
        # This is all C code, so that an interrupt cannot come between taking a batch and its step.
        self._batches = map(operator.itemgetter(0), zip(epoch, self._left, strict=False))
        self._num_before = self._num_left
        self._epoch = epoch

    @property
    def _num_left(self) -> int:
        return operator.length_hint(self._left)

    def _prepare(self) -> None:
        """Makes the next batch ready, for next(). It may be called again after an interrupt, and then continues."""
        while not self._ready:
            if self._num_left == 0:
                raise StopIteration
            append_result(self._ready, next, self._batches)
            if not self._ready:
                self._continue()

    def _continue(self) -> None:
        """Starts the next epoch after one that has ended too early."""
        is_empty = self._num_left == self._num_before
        if is_empty and self._has_ended_once:  # the first may be the empty rest of a resumed epoch
            raise RuntimeError(
                f"steps={self._num_steps} cannot be reached: an epoch of this loader gave no batch, and "
                f"{self._num_left} are missing"
            )
        self._begin_epoch()
        self._has_ended_once = True
