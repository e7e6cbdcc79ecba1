"""The interface of the makers of batches, as EpochIterator uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastload._delivery._hand_over import Delivery
from fastload._iteration._saved_state import SavedState, Way
from fastload._iteration._saved_worker import SavedWorker
from fastload._quarantine._failure import Account
from fastload._workers._random_stream import RandomKey
from fastload.samplers._draw_numbers import Numbers


class TorchValues(NamedTuple):
    """The values that torch's base class of iterators has set.

    Attributes:
        base_seed: The base seed of the workers.
        graph_seed: The seed of a data pipe; None: there is none, or a resumed epoch has its own.
        pins: Whether batches on the host are page-locked.
        pin_device: The value of pin_memory_device, or None.
        timeout_seconds: The limit of each wait; 0: no limit.
    """

    base_seed: int
    graph_seed: int | None
    pins: bool
    pin_device: str | None
    timeout_seconds: float


class EpochStart(NamedTuple):
    """The position at which an epoch begins.

    Attributes:
        key: Seed and epoch of rng="sample".
        first: Number of the batch that is asked for first.
        num_replayed: Number of batches from `first` on that were handed out before and are dropped now.
        resumed: The state whose workers continue, in the iterator's first epoch; else None.
    """

    key: RandomKey
    first: int = 0
    num_replayed: int = 0
    resumed: SavedState | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """A request for one batch.

    Attributes:
        number: Number of the batch in its epoch, from 0; with streams, its number if none of them ends before it.
        item: The sampler's item.
        key: Seed and epoch of rng="sample".
        numbers: Numbers of the draws of its samples; None: draws have no numbers.
    """

    number: int
    item: Any
    key: RandomKey
    numbers: Numbers | None

    @property
    def python_key(self) -> RandomKey:
        """The key with the numbers of the draws, for random streams in Python."""
        return self.key if self.numbers is None else self.key._replace(numbers=self.numbers.tolist())


class WorkerStates(NamedTuple):
    """The workers' part of a saved state; see the attributes of SavedState with these names."""

    draws: tuple[str, ...] | None = None
    workers: tuple[SavedWorker, ...] | None = None
    replayed: int = 0
    next_worker: int | None = None


class MadeBatch:
    """A batch that has come from a maker, or an error instead of it. An interrupt finds it here, opened or not.

    Attributes:
        number: Number of the batch in its epoch; set when it is taken.
        batch: The batch that the user gets, once it is open.
        account: The account of its bad samples, or None.
        is_end_of_stream: Whether a worker's stream has ended instead.
        has_failed: Whether open() has raised the error that came instead of the batch.
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
        """Sets `batch` and sends it to the device. May be repeated. Raises the error that came instead of the batch."""

    def let_go(self) -> None:
        """Frees the maker's memory of the batch once the user has it or will not get it. May be repeated."""

    def report(self) -> list[Any]:
        """Returns the report on each of its samples; empty if Python made the batch."""
        return []


class BatchMaker(ABC):
    """Makes the batches of an iterator: in native threads, in workers that run Python, or in the calling thread.

    An interrupt may come between any two steps of these methods; each continues when it is called again with the same
    arguments.

    Attributes:
        way: The way in which the batches are made, as saved states name it.
        takes_keys: Whether requests have the sampler's items unchanged, instead of index batches.
        takes_numbers: Whether requests have the numbers of the draws.
        snapshot_every: A saved state begins at a multiple of this number of batches; 0: at the beginning of the epoch.
        threads: The worker threads, which replace the worker processes in torch's iterators.
        fingerprint: Returns the fingerprint of everything that the batches depend on. Does not keep the maker.
    """

    way: Way
    takes_keys: bool = True
    takes_numbers: bool
    snapshot_every: int = 1
    threads: Sequence[Any] = ()
    fingerprint: Callable[[], dict[str, Any]]

    @abstractmethod
    def start(self, values: TorchValues) -> None:
        """Starts the workers. Called once, after torch's base class has drawn the base seed."""

    @abstractmethod
    def begin_epoch(self, start: EpochStart) -> None:
        """Begins an epoch. Batches that were requested before are still made, but not taken.

        Raises:
            StateError: The workers cannot continue at their resume points.
        """

    @abstractmethod
    def has_room(self, *, may_wait: bool = False) -> bool:
        """Returns whether another batch may be requested now; with `may_wait`, waits if nothing is in flight."""

    @abstractmethod
    def submit(self, request: Request, given: list[Any]) -> bool:
        """Requests a batch and returns whether the maker accepted it.

        It empties `given` in the same step in which the maker takes the request over.
        """

    @abstractmethod
    def take(self) -> MadeBatch | None:
        """Waits for the next batch in order, which stays in flight until it is released; None: there is none.

        Raises:
            RuntimeError: The wait took longer than the timeout.
            LoaderClosedError: The loader was closed.
        """

    @abstractmethod
    def state_before(self, position: int, *, is_over: bool) -> tuple[int, Callable[[], WorkerStates]]:
        """Returns the workers' positions before batch `position`; with `is_over`, before the next epoch.

        Returns:
            The number of the first batch for which the sampler is asked again, and a function that returns the workers'
            part of the state. It may be called after the iterator is gone; it may wait for workers that have not begun.
        """

    def cancel(self) -> None:  # noqa: B027 - without workers nothing runs between two batches
        """Ends the iteration without a wait."""

    def close(self) -> None:  # noqa: B027
        """Ends the iteration and waits at most a second for its threads."""

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """The number of batches that were requested and not released."""

    @property
    def has_next(self) -> bool:
        """Whether take() would return at once a batch that can be sent ahead to the device."""
        return False

    @property
    def is_active(self) -> bool:
        """Whether a batch requested now may come: not all streams have ended."""
        return True

    @property
    def is_running(self) -> bool:
        """Whether more batches can come: its threads were not told to end."""
        return True

    @property
    def has_own_states(self) -> bool:
        """Whether data set or stream has a state of its own; False: batches of a stream are made again."""
        return False

    @property
    def begins_early(self) -> bool:
        """Whether batches of the next epoch may be made before it begins: they draw nothing and nobody notices."""
        return False
