"""Base class of the loader's iterators."""

from __future__ import annotations

import operator
import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from fastload import _native
from fastload._delivery._hand_over import Delivery
from fastload._process._interrupts import is_interrupt
from fastload._process._waits import ConsumerClock


class BaseIterator(_BaseDataLoaderIter):
    """torch's base of iterators, whose next() loses no batch to an interrupt: Note [interrupts].

    A batch comes into the hand, and stays there until C code takes it out as the last step of next(). An interrupt
    falls before that, and the next call goes on with what it finds.

    Of the parts of torch's next() those that nobody looks at are left out: torch names each step of an epoch for its
    profiler, which takes longer than all that is done here for a batch.

    Args:
        loader: The iterator does not keep it.
        delivery: Where the batches go.
    """

    __next__ = _native.next_in_hand

    def __init__(self, loader: Any, delivery: Delivery) -> None:
        super().__init__(loader)
        self._delivery = delivery
        self._clock = ConsumerClock(loader._fastload.waits)
        self._tell_end: Callable[[], None] = loader._fastload.cache.end_epoch
        self._hand: list[Any] = []  # the batch that is handed out next, once it is all that the user gets
        self._num_before = 0  # so many were handed out before it
        # Two threads may share an iterator: each batch goes to one of them. Re-entrant, to know its owner.
        self._turn = threading.RLock()

    def _enter(self) -> AbstractContextManager[Any]:
        """What a thread that iterates holds. Raises ValueError, as generators do, where it iterates already."""
        if self._turn._is_owned():  # type: ignore[attr-defined]
            raise ValueError(
                "iterator already executing: next() was called on it from inside of its own next(), by code of the "
                "data set, collate_fn, the sampler or a signal's handler. Call it after that has returned, or give "
                "that code an iterator of its own: iter(loader)"
            )
        return self._turn

    def _prepare(self) -> None:
        """Called by next(): brings the next batch into the hand, and notes how long that took.

        Called again after an interrupt, it goes on.
        """
        self._clock.ask()
        try:
            self._bring_next()
        except StopIteration:
            self._tell_end()
            raise
        self._clock.give()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._clock.begin_epoch()
        super()._reset(loader, first_iter)

    def _bring_next(self) -> None:
        self._check()
        with self._enter():
            if not self._hand:
                self._num_before = self._num_yielded
            self._num_yielded = self._num_before
            is_counted = self._dataset_kind == _DatasetKind.Iterable and self._IterableDataset_len_called is not None
            if not (torch.autograd._profiler_enabled() or self._sampler_iter is None or is_counted):  # type: ignore[attr-defined]
                self._next_data()
                self._num_yielded += 1
                return
            try:
                super().__next__()
            except Warning:  # of a length that was too small: it costs the batch, as in torch
                self._hand = []
                raise

    def _next_data(self) -> Any:
        """The batch in hand; torch's next() asks for it."""
        if not self._hand:
            self._make()
        try:
            self._delivery.follow(self._hand[0], self._number)
        except BaseException as error:
            if not is_interrupt(error):
                self._hand = []
                self._let_go()
            raise
        self._let_go()
        return self._hand[0]

    def _hand_over(self, batch: Any) -> None:
        """Brings what device_transform makes of `batch`, which is on the device, into the hand.

        The user's function cannot be called twice with a batch: whatever raises inside of it costs the batch.
        """
        given = iter([batch])
        try:
            self._delivery.hand_over(given, self._hand)
        except BaseException:
            if not self._hand and operator.length_hint(given) == 0:
                self._let_go()
            raise

    @abstractmethod
    def _check(self) -> None:
        """Raises where the calling thread cannot iterate. May wait, for ever where the interpreter exits."""

    @abstractmethod
    def _make(self) -> None:
        """Calls _hand_over() with the next batch. Raises what comes in its place, StopIteration at the end."""

    @abstractmethod
    def _let_go(self) -> None:
        """Lets go of what the batch in hand was made of, and counts that; may be called again for the same one."""

    @property
    @abstractmethod
    def _number(self) -> int:
        """Of the batch in hand, counted in its epoch."""
