"""Base class of the fetchers, which make a thread's batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fastload._quarantine._failure import Account
from fastload._threads._random_stream import RandomKey, RandomStream
from fastload._threads._worker_objects import UserCode


class EndOfStreamError(Exception):
    """The iterable dataset has no more for this worker."""


class BatchFetcher(Protocol):
    """Makes batches, drawing from one stream. Not thread-safe."""

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
