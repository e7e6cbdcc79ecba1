"""Base class of the fetchers, which make a thread's batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fastload._quarantine._failure import Account
from fastload._resume._user_state import UserState
from fastload._workers._random_stream import RandomKey, RandomStream
from fastload._workers._worker_objects import UserCode


class EndOfStreamError(Exception):
    """The iterable dataset has no more samples for this worker."""


class BatchFetcher(Protocol):
    """Makes batches and draws from one random stream. Not thread-safe."""

    @property
    def is_of_stream(self) -> bool:
        """Whether the samples come from an iterator."""

    @property
    def is_stateful(self) -> bool:
        """Whether the data set or its iterator has a state of its own."""

    def user_state(self) -> UserState:
        """Returns the states of the data set and its iterator, or the error that they raised."""

    def load_dataset(self, state: Any, field: str) -> None:
        """Loads `state` into the data set; `field` is the prefix of the state's keys. Raises StateError."""

    def load_iterator(self, user: UserState, field: str) -> None:
        """Loads the iterator's part of `user` into the iterator that begin_epoch() made, as load_dataset() does."""

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:
        """Asks a stream's data set for an iterator. If that raises, the error comes instead of the first batch."""

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """Makes a whole batch, or one sample if the loader does not batch.

        Args:
            indices: The sampler's item.
            key: Key of the epoch's random numbers, if they depend on one.
            epoch: Number of the iterator's epoch.
            is_abandoned: Called between samples; returns whether the batch is not wanted any more.

        Raises:
            AbandonedError: `is_abandoned` returned True.
            EndOfStreamError: The stream has ended.
            Exception: Whatever the dataset and collate_fn raise.
        """

    def take_account(self) -> Account | None:
        """Returns the account of the samples since the last call; None: bad samples are not replaced or left out."""


# Makes a worker's fetcher from its random stream, its number (None: the caller does the work) and the user's code.
FetcherFactory = Callable[[RandomStream, "int | None", UserCode], BatchFetcher]
