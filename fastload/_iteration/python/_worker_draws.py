"""Snapshots of a worker's random generators between two batches: taken, and restored from a state."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import random
from typing import Any

import numpy as np

from fastload import _native
from fastload._errors import StateError
from fastload._iteration._saved_worker import SavedWorker
from fastload._resume._generators import ProgramStates, state_of
from fastload._workers._places import HeldGenerators
from fastload._workers._random_stream import RandomKey
from fastload._workers._seeding import bit_generator_of
from fastload._workers._user_code import UserCode

# The reference count, which every object begins with.
_COUNT_BYTES = ctypes.sizeof(ctypes.c_ssize_t)


class _LastState:
    """The state of a generator, which is read again only if the memory of its objects has changed.

    Reading makes an int of each of 624 words, which takes `random` 7 us and NumPy 25 us; comparing takes 1 us.
    """

    def __init__(self) -> None:
        self._memory: tuple[Any, ...] = ()
        self._state: Any = None

    def of(self, generator: random.Random | np.random.RandomState) -> Any:
        """Returns what state_of() does. `generator` is the same one in every call, and is not in use now."""
        memory = _memory_of(generator)
        if not memory or memory != self._memory:
            self._memory, self._state = memory, state_of(generator)
        return self._state


def _memory_of(generator: random.Random | np.random.RandomState) -> tuple[Any, ...]:
    """Returns all that the state consists of; empty for classes of which that is not known."""
    if type(generator) is random.Random:
        return _bytes_of(generator), generator.gauss_next  # type: ignore[attr-defined]
    if type(generator) is not np.random.RandomState:
        return ()
    source = bit_generator_of(generator)
    return (_bytes_of(generator), _bytes_of(source)) if type(source) is np.random.MT19937 else ()


def _bytes_of(value: object) -> bytes:
    return ctypes.string_at(id(value) + _COUNT_BYTES, type(value).__basicsize__ - _COUNT_BYTES)


class WorkerDraws:
    """All generators that one worker draws from. Use it only in the worker's thread.

    Args:
        generators: The worker's three generators.
        held: The generators that the user's objects hold; None: several worker threads draw from them.
        is_program: Whether the three generators are the program's, which no state sets.
    """

    def __init__(
        self,
        generators: _native.ThreadGenerators,
        code: UserCode,
        held: HeldGenerators | None,
        *,
        is_program: bool = False,
    ) -> None:
        self._generators = generators
        self._code = code
        self._held = held
        self._is_program = is_program
        self._has_looked_again = False
        self._python, self._numpy = _LastState(), _LastState()

    @property
    def _knows_numpy(self) -> bool:
        """Whether NumPy's generator is of a kind that can be saved; user code may have replaced it."""
        return isinstance(bit_generator_of(self._generators.numpy), np.random.MT19937)

    def begin(self) -> None:
        """Finds the generators that worker_init_fn has made. Call it after worker_init_fn."""
        if self._held is not None and self._code.init_fn is not None:
            self._held.look_again()

    def load(self, saved: SavedWorker, field: str) -> None:
        """Restores all generators from a loaded state, which overrides what worker_init_fn seeded.

        Raises StateError, which names the field below `field`, if the worker has no such generator.
        """
        if saved.held and self._held is None:
            raise StateError(
                f"{field}.held",
                "belong to generators that each worker had for itself, but all worker threads share one data set",
                'give the loader workers="processes"',
            )
        self.set(saved, field)

    def set(self, saved: SavedWorker, field: str) -> None:
        """Restores all generators from `saved` once more. Raises StateError as load() does."""
        if self._held is not None:
            self._held.restore(saved.held, f"{field}.held")
        if not self._is_program:
            self._set_own(saved.generators, field)

    def _set_own(self, states: ProgramStates, field: str) -> None:
        if (states.numpy is not None) != self._knows_numpy:
            raise StateError(
                f"{field}.numpy",
                "comes from a program whose NumPy has another kind of default generator",
                "call numpy.random.set_bit_generator() as the program that saved the state did",
            )
        self._generators.torch.set_state(states.torch)
        self._generators.random.setstate(states.python)
        if states.numpy is not None:
            self._generators.numpy.set_state(states.numpy)

    def copy(self, *, is_after_batch: bool) -> SavedWorker:
        """Returns the generators' states. After the first batch it searches the user's objects for more generators."""
        if self._held is not None and is_after_batch and not self._has_looked_again:
            self._held.find_more()
            self._has_looked_again = True
        numpy = self._numpy.of(self._generators.numpy) if self._knows_numpy else None
        states = ProgramStates(self._generators.torch.get_state(), self._python.of(self._generators.random), numpy)
        return SavedWorker(states, *(({}, ()) if self._held is None else (self._held.states(), self._held.unread)))


class WorkerStart:
    """A request to a worker to begin an epoch, and the position that the worker then reports.

    It waits on a queue, because a signal handler may wait while the code that it interrupted waits, too.

    Args:
        epoch: Number of the iterator's epoch, from 1.
        worker: Kept until the epoch has begun, even if the iterator is gone: its state may still be asked for.

    Attributes:
        is_done: Whether the worker has reported, or its thread or process has ended. Then these are known:
        snapshot, error, is_stateful: See Begun; `snapshot` is None, too, if the worker ended before.
    """

    is_taken = False  # like a Task that no thread has begun

    def __init__(self, key: RandomKey, epoch: int, worker: Any = None) -> None:
        self.key = key
        self.epoch = epoch
        self._worker = worker
        self._pid = os.getpid()
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.is_done = False
        self.snapshot: SavedWorker | None = None
        self.error: StateError | None = None
        self.is_stateful = False

    def finish(
        self, snapshot: SavedWorker | None, error: StateError | None = None, *, is_stateful: bool = False
    ) -> None:
        """Reports the worker's position; None: its thread ended before. Only the first call has an effect."""
        if not self.is_done:
            self.snapshot, self.error, self.is_stateful, self.is_done = snapshot, error, is_stateful, True
            self._worker = None
            self._done.put(None)

    def wait(self, timeout_seconds: float) -> SavedWorker:
        """Waits for the worker's position and returns it. With 0 the wait has no limit.

        Raises:
            StateError: The worker could not begin at its resume point, or its thread ended before the epoch began.
        """
        self.check(timeout_seconds)
        if self.snapshot is None:
            raise StateError(
                "fastload.workers",
                "are not known: a worker ended or did not answer before it began the epoch",
                "ask for the state after the first batch",
            )
        return self.snapshot

    def check(self, timeout_seconds: float) -> None:
        """Waits as wait() does, but accepts a thread that has ended. Raises StateError: the worker could not begin."""
        if not self.is_done and self._pid == os.getpid():
            with contextlib.suppress(queue.Empty):
                self._done.get(timeout=timeout_seconds or None)
                self._done.put(None)
        if self.error is not None:
            raise StateError(self.error.field, self.error.problem, self.error.next_step)
