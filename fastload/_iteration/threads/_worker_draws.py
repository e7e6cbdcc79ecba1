"""Where a worker stands between two of its batches: what it draws from is copied, and set again where a state says."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from fastload._errors import StateError
from fastload._resume._generators import ProgramStates
from fastload._resume._held import state_of
from fastload._resume._saved_worker import SavedWorker
from fastload._resume._user_state import UserState
from fastload._workers._places import HeldGenerators
from fastload._workers._random_stream import RandomKey
from fastload._workers._seeding import bit_generator_of
from fastload._workers._worker_objects import NAMES, WorkerObjects


class GeneratorSnapshot(NamedTuple):
    """Where a worker stands at one moment. Cheap to make, as every batch has one; a state is made of it when asked.

    Attributes:
        torch, python: Of the worker's generators of that name.
        numpy: Of NumPy's; None: of a kind that is not kept.
        held: Of the generators that its objects hold, by path.
        not_exact: Paths of those that are not kept.
        user: What data set and stream say of themselves.
    """

    torch: Any
    python: Any
    numpy: Any
    held: Mapping[str, Any]
    not_exact: tuple[str, ...]
    user: UserState = UserState()

    def saved(self, user_field: str = "") -> SavedWorker:
        """Raises StateError, whose field begins with `user_field`: data set or stream could not say."""
        if (problem := self.user.problem) is not None:
            raise StateError(user_field + problem.field, problem.problem, problem.next_step) from problem.__cause__
        return SavedWorker(ProgramStates(self.torch, self.python, self.numpy), self.held, self.not_exact, self.user)


class Generators(Protocol):
    """The three that code draws from: a worker's, or the program's."""

    @property
    def torch(self) -> Any: ...
    @property
    def random(self) -> Any: ...
    @property
    def numpy(self) -> Any: ...


class WorkerDraws:
    """All that one worker draws from. To be used in its thread alone.

    Args:
        generators: The three that it has.
        own: Its objects.
        keeps_held: Whether the generators that those hold are its own, too.
        is_program: Whether the three are the program's, which no state sets.
    """

    def __init__(
        self, generators: Generators, own: WorkerObjects, *, keeps_held: bool, is_program: bool = False
    ) -> None:
        self._generators = generators
        self._own = own
        self._keeps_held, self._is_program = keeps_held, is_program
        self._held: HeldGenerators | None = None
        self._has_looked_again = False

    @property
    def _knows_numpy(self) -> bool:
        """Whether NumPy's generator is of the kind that is saved; user code may have replaced it."""
        return isinstance(bit_generator_of(self._generators.numpy), np.random.MT19937)

    def begin(self, saved: SavedWorker | None, field: str) -> None:
        """Called behind worker_init_fn, which a state wins over.

        Raises:
            StateError: The worker has no such generator; the text names what is below `field`.
        """
        code = self._own.code
        may_hold = saved is not None or code.init_fn is not None or self._own.generators or not self._own.is_copied
        if self._keeps_held and may_hold:
            self._held = HeldGenerators(tuple(code), NAMES)
        if saved is None:
            return
        if saved.held and self._held is None:
            raise StateError(
                f"{field}.held",
                "are of generators that each worker had a copy of, and copy=False lets all share one",
                "give the loader copy=True",
            )
        self.set(saved, field)

    def set(self, saved: SavedWorker, field: str) -> None:
        """Puts all of them where a state says, once they are found. Raises StateError as begin() does."""
        if self._held is not None:
            self._held.restore(saved.held, f"{field}.held")
        if not self._is_program:
            self._set_own(saved.generators, field)

    def _set_own(self, states: ProgramStates, field: str) -> None:
        if (states.numpy is not None) != self._knows_numpy:
            raise StateError(
                f"{field}.numpy",
                "is of a program whose NumPy has another kind of default generator",
                "call numpy.random.set_bit_generator() as when the state was saved",
            )
        self._generators.torch.set_state(states.torch)
        self._generators.random.setstate(states.python)
        if states.numpy is not None:
            self._generators.numpy.set_state(states.numpy)

    def copy(self, *, is_after_batch: bool) -> GeneratorSnapshot:
        """What it draws from now. Behind the first batch the user's objects are looked at once more."""
        if is_after_batch and not self._has_looked_again and self._keeps_held:
            if self._held is None:
                self._held = HeldGenerators((), ())
            self._held.find_more(tuple(self._own.code), NAMES)
            self._has_looked_again = True
        torch, python = self._generators.torch.get_state(), self._generators.random.getstate()
        numpy = state_of(self._generators.numpy) if self._knows_numpy else None
        if self._held is None:
            return GeneratorSnapshot(torch, python, numpy, {}, ())
        return GeneratorSnapshot(torch, python, numpy, self._held.states(), self._held.unread)


class WorkerStart:
    """Asks a worker to begin an epoch, and says where it stands then, once its thread has come there.

    Waits are those of a queue, as a signal's handler may wait where the code that it interrupts does.

    Args:
        key: Of the epoch's random numbers, where they depend on one.
        epoch: Of the iterator, from 1.
        worker: Kept until it has come there, also where the iterator is let go of: its state may be asked for then.

    Attributes:
        is_stateful: Whether data set and stream themselves tell where they stand; known once the wait is over.
    """

    is_taken = False  # as of a Task that no thread has begun

    def __init__(self, key: RandomKey, epoch: int, worker: Any = None) -> None:
        self.key = key
        self.epoch = epoch
        self._worker = worker
        self.is_stateful = False
        self._pid = os.getpid()
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_done = False
        self._moment: GeneratorSnapshot | None = None
        self._error: StateError | None = None

    def finish(
        self, moment: GeneratorSnapshot | None, error: StateError | None = None, *, is_stateful: bool = False
    ) -> None:
        """Called by the thread; with None where it ends before. Only the first call has an effect."""
        if not self._is_done:
            self._moment, self._error, self.is_stateful, self._is_done = moment, error, is_stateful, True
            self._worker = None
            self._done.put(None)

    def wait(self, timeout_seconds: float) -> GeneratorSnapshot:
        """Where the worker stands. With 0 the wait has no limit.

        Raises:
            StateError: The worker could not begin where a state says, or has ended before.
        """
        self.check(timeout_seconds)
        if self._moment is None:
            raise StateError(
                "fastload.workers",
                "are not known: a worker's thread was ended, or has not answered, before it began the epoch",
                "ask for the state behind the first batch",
            )
        return self._moment

    def check(self, timeout_seconds: float) -> None:
        """Waits as wait() does, for a worker that need not have come there. Raises StateError: it could not begin."""
        if not self._is_done and self._pid == os.getpid():
            with contextlib.suppress(queue.Empty):
                self._done.get(timeout=timeout_seconds or None)
                self._done.put(None)
        if self._error is not None:
            raise StateError(self._error.field, self._error.problem, self._error.next_step)
