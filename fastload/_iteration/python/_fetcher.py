"""Batches of a user's data set, made as torch's fetchers make them: what map-style and iterable ones have in common."""

from __future__ import annotations

import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.utils.data import default_collate

from fastload._errors import StateError
from fastload._images._batch_rows import BatchRows, rows_of_thread
from fastload._iteration.python._counters import WorkerCounters
from fastload._iteration.python._task import AbandonedError
from fastload._pillow._decode_image import OpenCache
from fastload._quarantine._failure import Account
from fastload._quarantine._guard import SampleGuard
from fastload._resume._user_state import UserState, loaded
from fastload._workers._random_stream import RandomKey, RandomStream, SampleNaming
from fastload._workers._user_code import UserCode


class EndOfStreamError(Exception):
    """The iterable dataset has no more samples for this worker."""


@dataclass(frozen=True)
class FetchPlan:
    """The way in which all workers of an iteration make batches.

    Refers to none of the user's objects: Note [references between threads and workers].

    Attributes:
        is_batched: Whether the sampler gives lists.
        drop_last: Whether incomplete last batches of an iterable dataset are dropped.
        rng: "torch": each worker draws as torch's would; "sample": draws depend on the sample alone.
        naming: The names of the samples for rng="sample".
        counters: The counters to add to.
        make_guard: Makes a worker's guard, which replaces bad samples or leaves them out; None: a bad sample raises.
        native_images: Whether JPEG files that the user's code opens with Pillow in a worker are decoded natively.
        open_cache: Opens the cache of these images at the first one; None: there is none.
    """

    is_batched: bool
    drop_last: bool
    rng: str
    naming: SampleNaming
    counters: WorkerCounters
    make_guard: Callable[[], SampleGuard] | None
    native_images: bool
    open_cache: OpenCache | None


class BatchFetcher(ABC):
    """Makes the batches of one worker. Not thread-safe.

    Attributes:
        is_of_stream: Whether the samples come from an iterator.
    """

    is_of_stream: ClassVar[bool]

    def __init__(self, plan: FetchPlan, stream: RandomStream, code: UserCode) -> None:
        self._plan = plan
        self._stream = stream
        self._code = code
        self._num_loaded = 0
        is_listed = plan.is_batched and plan.make_guard is None and code.collate_fn is default_collate
        # The rows of the worker, if default_collate gets the samples in a list that nothing else has.
        self._rows: BatchRows | None = rows_of_thread() if is_listed else None

    @property
    @abstractmethod
    def is_stateful(self) -> bool:
        """Whether the data set or its iterator has a state of its own."""

    def user_state(self) -> UserState:
        """Returns the states of the data set and its iterator, or the error that they raised."""
        try:
            return self._states()
        except StateError as error:
            return UserState(problem=error)

    @abstractmethod
    def _states(self) -> UserState:
        """Asks the data set and its iterator for their states. Raises StateError."""

    def load_dataset(self, state: Any, field: str) -> None:
        """Loads `state` into the data set; `field` is the prefix of the state's keys. Raises StateError."""
        loaded(self._code.dataset, state, f"{field}dataset_state")

    def load_iterator(self, user: UserState, field: str) -> None:  # noqa: B027 - a map-style data set has none
        """Loads the iterator's part of `user` into the iterator that begin_epoch() made, as load_dataset() does."""

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:  # noqa: B027 - a map-style data set has no iterator
        """Asks a stream's data set for an iterator. If that raises, the error comes instead of the first batch."""

    @abstractmethod
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
        """

    def take_account(self) -> Account | None:
        """Returns the account of the samples since the last call; None: bad samples are not replaced or left out."""
        return None

    def _add_counts(self, begin: float) -> None:
        """Adds the samples that were loaded since the time `begin` to the counters."""
        number, self._num_loaded = self._num_loaded, 0
        seconds = time.perf_counter() - begin
        self._plan.counters.add({"samples_python": number, "stage_seconds": {"dataset": seconds}})

    def _wanted(self, indices: Any, is_abandoned: Callable[[], bool]) -> Iterator[Any]:
        """Yields each index of a batch when its sample is begun. Raises AbandonedError."""
        if self._rows is not None:
            self._rows.begin_batch(operator.length_hint(indices))
        for index in indices:
            if is_abandoned():
                raise AbandonedError
            if self._rows is not None:
                self._rows.begin_sample()
            yield index

    def _collated(self, samples: list[Any]) -> Any:
        """Returns the batch of the one item of `samples`, which it takes out: a list, or a sample without batching."""
        begin = time.perf_counter()
        try:
            return self._code.collate_fn(samples.pop()) if self._rows is None else self._rows.collate(samples)
        except StopIteration as error:
            raise silent_end("collate_fn") from error
        finally:
            self._plan.counters.add({"stage_seconds": {"collate": time.perf_counter() - begin}})


def silent_end(what: str) -> RuntimeError:
    return RuntimeError(f"{what} raised StopIteration, which would end the epoch silently")
