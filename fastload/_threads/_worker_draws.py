"""What a worker draws from between two of its batches: copied behind each, and set again where a state says."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fastload._errors import StateError
from fastload._resume._generators import ProgramStates
from fastload._resume._saved_worker import SavedWorker
from fastload._threads._worker_objects import NAMES, WorkerObjects
from fastload._worker_state._generator_copies import Copy, copier_of
from fastload._worker_state._generators import WorkerGenerators
from fastload._worker_state._places import HeldGenerators
from fastload._worker_state._seeding import bit_generator_of


class Moment(NamedTuple):
    """What a worker draws from at one moment. Cheap to make, as every batch has one; a state is made of it when asked.

    Attributes:
        torch, python: Of the worker's generators of that name.
        numpy: Of NumPy's; None: of a kind that is not kept.
        held: Of the generators that its objects hold, by path.
        not_exact: Paths of those that are not kept.
    """

    torch: Copy
    python: Copy
    numpy: Copy | None
    held: Mapping[str, Copy]
    not_exact: tuple[str, ...]

    def saved(self) -> SavedWorker:
        numpy = None if self.numpy is None else self.numpy()
        generators = ProgramStates(self.torch(), self.python(), numpy)
        return SavedWorker(generators, {path: copy() for path, copy in self.held.items()}, self.not_exact)


class WorkerDraws:
    """All that one worker draws from. To be used in its thread alone."""

    def __init__(self, generators: WorkerGenerators, own: WorkerObjects) -> None:
        self._generators = generators
        self._own = own
        self._held: HeldGenerators | None = None
        self._has_looked_again = False
        self._torch, self._python = copier_of(generators.torch), copier_of(generators.random)
        is_known = isinstance(bit_generator_of(generators.numpy), np.random.MT19937)
        self._numpy: Callable[[], Copy] | None = copier_of(generators.numpy) if is_known else None

    def begin(self, saved: SavedWorker | None, field: str) -> None:
        """Called behind worker_init_fn, which a state wins over.

        Raises:
            StateError: The worker has no such generator; the text names what is below `field`.
        """
        code = self._own.code
        if self._own.is_copied and (saved is not None or code.init_fn is not None or self._own.generators):
            self._held = HeldGenerators(tuple(code), NAMES)
        if saved is None:
            return
        if saved.held and self._held is None:
            raise StateError(
                f"{field}.held",
                "are of generators that each worker had a copy of, and copy=False lets all share one",
                "give the loader copy=True",
            )
        if self._held is not None:
            self._held.restore(saved.held, f"{field}.held")
        self._set(saved.generators, field)

    def _set(self, states: ProgramStates, field: str) -> None:
        if (states.numpy is None) != (self._numpy is None):
            raise StateError(
                f"{field}.numpy",
                "is of a program whose NumPy has another kind of default generator",
                "call numpy.random.set_bit_generator() as when the state was saved",
            )
        self._generators.torch.set_state(states.torch)
        self._generators.random.setstate(states.python)
        if states.numpy is not None:
            self._generators.numpy.set_state(states.numpy)

    def copy(self, *, is_behind_batch: bool) -> Moment:
        """What it draws from now. Behind the first batch the user's objects are looked at once more."""
        if is_behind_batch and not self._has_looked_again and self._own.is_copied:
            if self._held is None:
                self._held = HeldGenerators((), ())
            self._held.find_more(tuple(self._own.code), NAMES)
            self._has_looked_again = True
        numpy = None if self._numpy is None else self._numpy()
        if self._held is None:
            return Moment(self._torch(), self._python(), numpy, {}, ())
        return Moment(self._torch(), self._python(), numpy, self._held.copies(), self._held.unread)


class Beginning:
    """What one worker draws from where an epoch begins, once its thread has come there.

    Waits are those of a queue, as a signal's handler may wait where the code that it interrupts does.
    """

    is_taken = False  # as of a Task that no thread has begun

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_done = False
        self._moment: Moment | None = None
        self._error: StateError | None = None

    def finish(self, moment: Moment | None, error: StateError | None = None) -> None:
        """Called by the thread; with None where it ends before. Only the first call has an effect."""
        if not self._is_done:
            self._moment, self._error, self._is_done = moment, error, True
            self._done.put(None)

    def wait(self, timeout_seconds: float) -> Moment:
        """What the worker draws from. With 0 the wait has no limit.

        Raises:
            StateError: The worker could not begin where a state says, or has ended before.
        """
        if not self._is_done and self._pid == os.getpid():
            with contextlib.suppress(queue.Empty):  # what is missing is said below
                self._done.get(timeout=timeout_seconds or None)
                self._done.put(None)
        if self._error is not None:
            raise StateError(self._error.field, self._error.problem, self._error.next_step)
        if self._moment is None:
            raise StateError(
                "fastload.workers",
                "are not known: a worker's thread was ended, or has not answered, before it began the epoch",
                "ask for the state behind the first batch",
            )
        return self._moment
