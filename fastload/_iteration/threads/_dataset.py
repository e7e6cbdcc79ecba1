"""Batches of any user dataset, map-style or iterable, made as torch's fetchers make them."""

from __future__ import annotations

import contextlib
import functools
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import IterableDataset, Subset, default_collate

from fastload import _native
from fastload._errors import StateError
from fastload._images._array_dataset import ArrayDataset, holds_array, innermost
from fastload._images._batch_rows import BatchRows, rows_of_thread
from fastload._iteration.threads._counters import ThreadCounters
from fastload._iteration.threads._fetcher import BatchFetcher, EndOfStreamError
from fastload._iteration.threads._task import AbandonedError
from fastload._quarantine._failure import Account
from fastload._quarantine._guard import SampleGuard
from fastload._resume._user_state import UserState, asked, is_stateful, loaded
from fastload._workers._random_stream import RandomKey, RandomStream
from fastload._workers._worker_objects import UserCode

NO_LOCK = contextlib.nullcontext()


@dataclass(frozen=True)
class DatasetPlan:
    """The way in which all threads of an iteration ask a dataset.

    Attributes:
        is_batched: Whether the sampler gives lists.
        drop_last: Whether incomplete last batches of an iterable dataset are dropped.
        counters: The counters to add to.
        lock: Held while the dataset is asked; None: several threads may ask it at once.
        make_guard: Makes a thread's guard, which replaces bad samples or leaves them out; None: a bad sample raises.
        cache: Cache of images that native code decodes; None: none is kept.
    """

    is_batched: bool
    drop_last: bool
    counters: ThreadCounters
    lock: contextlib.AbstractContextManager[Any] | None = None
    make_guard: Callable[[], SampleGuard] | None = None
    cache: _native.DecodeCache | None = None


def make_dataset_fetcher(
    plan: DatasetPlan, stream: RandomStream, worker_id: int | None, code: UserCode
) -> BatchFetcher:
    """Returns the fetcher that makes the batches of one thread."""
    if isinstance(code.dataset, IterableDataset):
        return IterableFetcher(plan, stream, worker_id or 0, code)
    return MapFetcher(plan, stream, code)


class _Tally:
    """Samples and seconds of one thread, added to the counters once per batch."""

    def __init__(self, counters: ThreadCounters) -> None:
        self._counters = counters
        self._num_samples = 0
        self._seconds = 0.0

    def add(self, num_samples: int, begin: float) -> None:
        self._num_samples += num_samples
        self._seconds += time.perf_counter() - begin

    def flush(self) -> None:
        if self._num_samples or self._seconds:
            self._counters.add({"samples_python": self._num_samples, "stage_seconds": {"dataset": self._seconds}})
        self._num_samples, self._seconds = 0, 0.0


class _DatasetFetcher:
    """Base class of the two fetchers: loads the data set's state."""

    def __init__(self, plan: DatasetPlan, stream: RandomStream, code: UserCode) -> None:
        self._plan = plan
        self._stream = stream
        self._code = code
        self._tally = _Tally(plan.counters)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Holds the lock and sets the random stream while code of the data set runs."""
        with self._plan.lock or NO_LOCK, self._stream.mode():
            yield

    def load_dataset(self, state: Any, field: str) -> None:
        with self._asking():
            loaded(self._code.dataset, state, f"{field}dataset_state")


class MapFetcher(_DatasetFetcher):
    """Batches of a dataset with ``__getitem__``, in one thread."""

    is_of_stream = False

    def __init__(self, plan: DatasetPlan, stream: RandomStream, code: UserCode) -> None:
        super().__init__(plan, stream, code)
        self.is_stateful = is_stateful(code.dataset)
        # A dataset with __getitems__ is asked for all samples of a batch at once. torch's Subset only passes the call
        # on, so the dataset inside it decides.
        self._takes_whole_batches = bool(getattr(innermost(code.dataset), "__getitems__", None))
        self._array = ArrayDataset(code.dataset) if holds_array(code.dataset) else None
        self._guard = None if plan.make_guard is None else plan.make_guard()
        # No other code may hold the list of samples.
        self._rows = None if self._takes_whole_batches else _rows_for(plan, code)
        self._number: int | None = None  # the number of the current draw, if draws are numbered

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:
        """Does nothing: a map-style dataset has no iterator."""

    def user_state(self) -> UserState:
        try:
            with self._asking():
                return UserState(asked(self._code.dataset, "dataset_state"))
        except StateError as error:
            return UserState(problem=error)

    def load_iterator(self, user: UserState, field: str) -> None:
        """Does nothing: a map-style dataset has no iterator."""

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """Makes a batch; a StopIteration of the dataset, which would end the epoch, becomes a RuntimeError."""
        try:
            samples = [self._samples(indices, key, is_abandoned)]
        finally:
            self._flush()
        self._stream.begin_batch(key, self._names(indices))
        return _collated(self._plan, self._code, self._stream, samples, self._rows)

    def take_account(self) -> Account | None:
        return None if self._guard is None else self._guard.take()

    def _flush(self) -> None:
        """Adds the counts since the last call to the counters."""
        self._tally.flush()

    def _names(self, indices: Any) -> Any:
        """Returns the names of the batch's samples, for rng="sample"."""
        return indices

    def _samples(self, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Any:
        if self._guard is not None:
            return self._load_guarded(self._guard, indices, key, is_abandoned)
        if not self._plan.is_batched:
            self._number = key.number(0)
            return self._load(self._code.dataset, indices, key)
        if self._takes_whole_batches:
            return self._load_all(indices, key)
        find_in_subsets(self._code.dataset, indices)
        dataset = self._code.dataset if self._array is None else self._array.natively()
        if self._plan.lock is not None or self._stream.begins_with_sample:
            return [self._load(dataset, index, key) for index in self._numbered(indices, key, is_abandoned)]
        return self._load_each(dataset, indices, is_abandoned)

    def _load_guarded(self, guard: SampleGuard, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Any:
        """Loads samples with bad ones replaced or left out.

        It does not call a dataset's ``__getitems__``, which fails as a whole.
        """
        load = functools.partial(self._load, self._code.dataset, key=key)
        if self._plan.is_batched:
            return guard.batch(self._numbered(indices, key, is_abandoned), load)
        self._number = key.number(0)
        return guard.one(indices, load)

    def _numbered(self, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Iterator[Any]:
        """Yields from wanted() and sets the number of each draw; a sample's replacement has the sample's number."""
        for position, index in enumerate(wanted(indices, is_abandoned, self._rows)):
            self._number = key.number(position)
            yield index

    def _load(self, dataset: Any, index: Any, key: RandomKey) -> Any:
        self._stream.begin_sample(key, index, self._number)
        begin = time.perf_counter()
        try:
            with self._plan.lock or NO_LOCK, self._stream.mode():
                sample = dataset[index]
        except StopIteration as error:
            raise _silent_end(f"dataset[{index!r}]") from error
        self._tally.add(1, begin)
        return sample

    def _load_each(self, dataset: Any, indices: Any, is_abandoned: Callable[[], bool]) -> list[Any]:
        """Loads a batch's samples with one stream mode and one timer, as each costs more than a small sample."""
        samples, index = [], None
        begin = time.perf_counter()
        try:
            with self._stream.mode():
                for index in wanted(indices, is_abandoned, self._rows):
                    samples.append(dataset[index])
        except StopIteration as error:
            raise _silent_end(f"dataset[{index!r}]") from error
        finally:
            self._tally.add(len(samples), begin)
        return samples

    def _load_all(self, indices: Any, key: RandomKey) -> Any:
        self._stream.begin_batch(key, indices)
        begin = time.perf_counter()
        try:
            with self._plan.lock or NO_LOCK, self._stream.mode():
                samples = self._code.dataset.__getitems__(indices)
        except StopIteration as error:
            raise _silent_end(f"dataset.__getitems__({indices!r})") from error
        self._tally.add(operator.length_hint(indices), begin)  # a slice has none
        return samples


def find_in_subsets(dataset: Any, indices: Any) -> None:
    """Raises the error of a Subset of a Subset for a bad index: the outer one looks up the whole batch first."""
    while type(dataset) is Subset and type(dataset.dataset) is Subset:
        indices = [dataset.indices[index] for index in indices]
        dataset = dataset.dataset


class IterableFetcher(_DatasetFetcher):
    """Batches of one worker's part of an iterable dataset."""

    is_of_stream = True

    def __init__(self, plan: DatasetPlan, stream: RandomStream, worker_id: int, code: UserCode) -> None:
        super().__init__(plan, stream, code)
        self._worker_id = worker_id
        self._epoch: int | None = None
        self._items: Iterator[Any] = iter(())
        self._has_ended = False
        self._problem: BaseException | None = None  # raised by the data set when it was asked for an iterator
        self._rows = _rows_for(plan, code)

    def take_account(self) -> None:
        """Returns None: a stream's samples are neither replaced nor left out."""

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """Makes a batch of as many samples as `indices` has; their values are not used."""
        self.check_begun()
        if epoch != self._epoch:
            self.begin(key, epoch)
        try:
            samples = [self._samples(indices, is_abandoned)]
        finally:
            self._tally.flush()
        return _collated(self._plan, self._code, self._stream, samples, self._rows)

    def begin(self, key: RandomKey, epoch: int) -> None:
        """Asks the dataset for an iterator; fetch() calls this if the iterator of `epoch` is still missing."""
        self._stream.begin_sample(key, self._worker_id)
        try:
            with self._plan.lock or NO_LOCK, self._stream.mode():
                self._items = iter(self._code.dataset)
        except StopIteration as error:
            raise _silent_end("iter(dataset)") from error
        self._epoch = epoch
        self._has_ended = False

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:
        self._epoch = self._problem = None
        try:
            self.begin(key, epoch)
        except BaseException as error:  # noqa: BLE001 - raised by check_begun() with the first batch
            self._problem = error

    def check_begun(self) -> None:
        """Raises, once, the error that the data set raised when it was asked for an iterator."""
        problem, self._problem = self._problem, None
        try:
            if problem is not None:
                raise problem
        finally:
            del problem  # its traceback has this frame

    @property
    def is_stateful(self) -> bool:
        return is_stateful(self._code.dataset) or is_stateful(self._items)

    def user_state(self) -> UserState:
        """Returns the states of the data set and its iterator; asks once if both are the same object."""
        dataset, items = self._code.dataset, self._items
        try:
            with self._asking():
                of_dataset = None if items is dataset else asked(dataset, "dataset_state")
                return UserState(of_dataset, asked(items, "fetcher_state.dataset_iter_state"), self._has_ended)
        except StateError as error:
            return UserState(problem=error)

    def load_iterator(self, user: UserState, field: str) -> None:
        if self._problem is None:
            with self._asking():
                loaded(self._items, user.iterator, f"{field}fetcher_state.dataset_iter_state")
        self._has_ended = user.has_ended

    def _samples(self, indices: Any, is_abandoned: Callable[[], bool]) -> Any:
        if self._has_ended:
            raise EndOfStreamError
        if not self._plan.is_batched:
            return self._next()
        samples: list[Any] = []
        for _ in wanted(indices, is_abandoned, self._rows):
            try:
                samples.append(self._next())
            except EndOfStreamError:
                break
        if not samples or (self._plan.drop_last and len(samples) < len(indices)):
            raise EndOfStreamError
        return samples

    def _next(self) -> Any:
        begin = time.perf_counter()
        try:
            with self._plan.lock or NO_LOCK, self._stream.mode():
                item = next(self._items)
        except StopIteration:
            self._has_ended = True
            raise EndOfStreamError from None
        self._tally.add(1, begin)
        return item


def wanted(indices: Any, is_abandoned: Callable[[], bool], rows: BatchRows | None = None) -> Iterator[Any]:
    """Yields each index of a batch when its sample is begun.

    Raises:
        AbandonedError: The batch is not wanted any more.
    """
    if rows is not None:
        rows.begin_batch(operator.length_hint(indices))
    for index in indices:
        if is_abandoned():
            raise AbandonedError
        if rows is not None:
            rows.begin_sample()
        yield index


def _rows_for(plan: DatasetPlan, code: UserCode) -> BatchRows | None:
    """Returns the rows of the thread's worker if default_collate gets the samples in a list that fastload made."""
    is_ours = plan.is_batched and plan.make_guard is None and code.collate_fn is default_collate
    return rows_of_thread() if is_ours else None


def _collated(
    plan: DatasetPlan, code: UserCode, stream: RandomStream, samples: list[Any], rows: BatchRows | None
) -> Any:
    """Returns the batch of the single item of `samples`, which it takes out: a list, or a sample without batching."""
    begin = time.perf_counter()
    try:
        with stream.mode():
            return code.collate_fn(samples.pop()) if rows is None else rows.collate(samples)
    except StopIteration as error:
        raise _silent_end("collate_fn") from error
    finally:
        plan.counters.add({"stage_seconds": {"collate": time.perf_counter() - begin}})


def _silent_end(what: str) -> RuntimeError:
    return RuntimeError(f"{what} raised StopIteration, which would end the epoch silently")
