"""Base class of the fetchers, which make a thread's batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fastload._quarantine._failure import Account
from fastload._resume._user_state import UserState
from fastload._workers._random_stream import RandomKey, RandomStream
from fastload._workers._worker_objects import UserCode


class EndOfStreamError(Exception):
    """The iterable dataset has no more for this worker."""


class BatchFetcher(Protocol):
    """Makes batches, drawing from one stream. Not thread-safe."""

    @property
    def is_of_stream(self) -> bool:
        """Whether the samples are those of an iterator."""

    @property
    def is_stateful(self) -> bool:
        """Whether the data set, or its iterator, itself tells where it stands."""

    def user_state(self) -> UserState:
        """What they say of themselves; what they raise is in it."""

    def load_dataset(self, state: Any, field: str) -> None:
        """Lets the data set load what it said; `field` is what is before the state's keys. Raises StateError."""

    def load_iterator(self, user: UserState, field: str) -> None:
        """The same of the iterator that begin_epoch() has made."""

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:
        """Asks the data set of a stream for an iterator; what that raises comes in the place of the first batch."""

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """A whole batch, or one sample where there are no batches.

        Args:
            indices: As the sampler gave them.
            key: Of this iteration's random numbers, where they depend on one.
            epoch: Of the iterator.
            is_abandoned: Asked between samples.

        Raises:
            AbandonedError: `is_abandoned` said so.
            EndOfStreamError: There is no more of a stream.
            Exception: Whatever the dataset and collate_fn raise.
        """

    def take_account(self) -> Account | None:
        """Of the samples since the last call, where bad ones are replaced or left out."""


# Makes the one of a worker, which draws from a stream and runs the user's code. The number is the worker's; None where
# the caller does the work.
FetcherFactory = Callable[[RandomStream, "int | None", UserCode], BatchFetcher]
