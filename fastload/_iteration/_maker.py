"""What makes the batches of an epoch, as EpochIterator sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from fastload._delivery._hand_over import Delivery
from fastload._quarantine._failure import Account
from fastload._resume._saved_state import SavedState, Way
from fastload._resume._saved_worker import SavedWorker
from fastload._workers._random_stream import RandomKey
from fastload.samplers._draw_numbers import Numbers


class TorchValues(NamedTuple):
    """What torch's base class of iterators has decided.

    Attributes:
        base_seed: Of the workers.
        pins: Whether batches on the host are page-locked.
        pin_device: The value of pin_memory_device, or None.
        timeout_seconds: The limit of each wait; 0: none.
    """

    base_seed: int
    pins: bool
    pin_device: str | None
    timeout_seconds: float


class EpochStart(NamedTuple):
    """Where an epoch begins.

    Attributes:
        key: Seed and epoch of rng="sample".
        first: Number of the batch that is asked for first.
        num_replayed: The number of batches after that which were handed out before, and are dropped now.
        resumed: The state whose workers continue, where this is the iterator's first epoch.
    """

    key: RandomKey
    first: int = 0
    num_replayed: int = 0
    resumed: SavedState | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """One batch that is asked for.

    Attributes:
        number: In its epoch, from 0; with streams that end, the number it has if none ends before it.
        item: What the sampler gave.
        key: Seed and epoch of rng="sample".
        numbers: Numbers of the draws of its samples; None: they have none.
    """

    number: int
    item: Any
    key: RandomKey
    numbers: Numbers | None

    @property
    def python_key(self) -> RandomKey:
        """The key with the numbers of the draws, for streams of Python."""
        return self.key if self.numbers is None else self.key._replace(numbers=self.numbers.tolist())


class WorkerStates(NamedTuple):
    """The workers' part of a saved state; see the attributes of SavedState with these names.

    Attributes:
        draws: What native workers draw from next, as text.
        workers: Of those that run Python.
        replayed: The number of batches handed out that are asked for again.
        next_worker: The worker whose turn it is, of a stream.
    """

    draws: tuple[str, ...] | None = None
    workers: tuple[SavedWorker, ...] | None = None
    replayed: int = 0
    next_worker: int | None = None


class StateBefore(NamedTuple):
    """Where the workers stand before a batch.

    Attributes:
        begins_at: Number of the batch from which on the sampler is asked again.
        states: Returns the workers' part of the state. May be called after the iterator is gone; may wait for workers
            that have not begun.
    """

    begins_at: int
    states: Callable[[], WorkerStates]


class MadeBatch:
    """A batch that has come from a maker, or an error instead of it. An interrupt finds it here, opened or not.

    Attributes:
        number: In its epoch; set when it is taken.
        batch: What the user gets, once it is open.
        account: Of bad samples in it.
        is_end_of_stream: Whether a worker's stream has ended instead.
        has_failed: Whether open() has raised what came instead of the batch.
    """

    def __init__(self) -> None:
        self.number = 0
        self.batch: Any = None
        self.account: Account | None = None
        self.is_end_of_stream = False
        self.has_failed = False

    def release(self) -> None:
        """Lets the maker forget the batch, which the iterator now holds. May be repeated."""

    def open(self, delivery: Delivery) -> None:
        """Sets `batch`, on its way to the device. May be repeated. Raises what came instead of the batch."""

    def let_go(self) -> None:
        """Frees what the batch was made of, once the user has it or will not get it. May be repeated."""

    def report(self) -> list[Any]:
        """Returns what was done to each of its samples, where native code has made them."""
        return []


class BatchMaker(Protocol):
    """Makes the batches of an iterator: in native threads, in workers that run Python, or in the calling thread.

    An interrupt may come between any two steps of these methods; each goes on when it is called again with the same
    arguments.

    Attributes:
        way: Who makes the batches, as saved states say it.
        takes_keys: Whether requests have what the sampler gave as it is; else index batches.
        takes_numbers: Whether requests have the numbers of the draws.
        snapshot_every: A saved state begins at multiples of so many batches; 0: at the epoch's beginning.
        threads: The worker threads, where torch's iterators list their worker processes.
        fingerprint: Returns what the batches depend on. Does not keep the maker.
    """

    @property
    def way(self) -> Way: ...
    @property
    def takes_keys(self) -> bool: ...
    @property
    def takes_numbers(self) -> bool: ...
    @property
    def snapshot_every(self) -> int: ...
    @property
    def threads(self) -> Sequence[threading.Thread]: ...
    @property
    def fingerprint(self) -> Callable[[], dict[str, Any]]: ...

    def start(self, values: TorchValues) -> None:
        """Starts the workers. Called once, after torch's base class has drawn the base seed."""

    def begin_epoch(self, start: EpochStart) -> None:
        """Begins an epoch; batches that were asked for before are made, but not taken.

        Raises:
            StateError: The workers cannot continue where the state says.
        """

    def has_room(self, *, may_wait: bool = False) -> bool:
        """Returns whether another batch may be asked for now; with `may_wait` waits where nothing else is in flight."""

    def submit(self, request: Request, given: list[Any]) -> bool:
        """Asks for a batch, and empties `given` in the step that makes it the maker's. Returns whether it did."""

    def take(self) -> MadeBatch | None:
        """Waits for the next batch in order, which stays in flight until it is released; None: there is none.

        Raises:
            RuntimeError: The wait took longer than the timeout.
            LoaderClosedError: The loader was closed.
        """

    def state_before(self, position: int, *, is_over: bool) -> StateBefore:
        """Tells where the workers stand before batch `position`; `is_over`: that is one of the next epoch."""

    def cancel(self) -> None:
        """Ends what runs, and waits for nothing."""

    def close(self) -> None:
        """Ends what runs, and waits at most a second for it."""

    @property
    def in_flight(self) -> int:
        """The number of batches that were asked for and not released."""

    @property
    def has_next(self) -> bool:
        """Whether take() would return a batch at once that is to be sent ahead to the device."""

    @property
    def is_active(self) -> bool:
        """Whether a batch that is asked for now may come: not all streams have ended."""

    @property
    def is_running(self) -> bool:
        """Whether more batches can come: its threads have not been told to end."""

    @property
    def has_own_states(self) -> bool:
        """Whether data set or stream have states of their own; False: batches of a stream are made again."""

    @property
    def begins_early(self) -> bool:
        """Whether batches of the next epoch may be made before it is asked for: nothing is drawn or noticed."""
