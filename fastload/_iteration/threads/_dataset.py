"""Batches of any dataset of the user's, map-style or iterable, made as torch's fetchers make them."""

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
    """How all threads of an iteration ask a dataset.

    Attributes:
        is_batched: Whether the sampler gives lists.
        drop_last: Of an iterable dataset's last batches.
        counters: To add to.
        lock: Held while the dataset is asked, where one thread at a time may.
        make_guard: Of what loads the samples of a thread where bad ones are replaced or left out.
        cache: What is kept of images that native code decodes; None: nothing.
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
    """What one thread makes its batches with."""
    if isinstance(code.dataset, IterableDataset):
        return IterableFetcher(plan, stream, worker_id or 0, code)
    return MapFetcher(plan, stream, code)


class _Tally:
    """Samples and seconds of one thread, added to the counters now and then."""

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
    """What the two have in common: how the data set is asked where it stands."""

    def __init__(self, plan: DatasetPlan, stream: RandomStream, code: UserCode) -> None:
        self._plan = plan
        self._stream = stream
        self._code = code
        self._tally = _Tally(plan.counters)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Held while code of the data set runs."""
        with self._plan.lock or NO_LOCK, self._stream.mode():
            yield

    def load_dataset(self, state: Any, field: str) -> None:
        """See BatchFetcher."""
        with self._asking():
            loaded(self._code.dataset, state, f"{field}dataset_state")


class MapFetcher(_DatasetFetcher):
    """Batches of a dataset with ``__getitem__``, in one thread."""

    is_of_stream = False

    def __init__(self, plan: DatasetPlan, stream: RandomStream, code: UserCode) -> None:
        super().__init__(plan, stream, code)
        self.is_stateful = is_stateful(code.dataset)
        # A dataset with __getitems__ is asked for the samples of a batch all at once. torch's own Subset only passes
        # that on, so it counts as what is in it.
        self._takes_whole_batches = bool(getattr(innermost(code.dataset), "__getitems__", None))
        self._array = ArrayDataset(code.dataset) if holds_array(code.dataset) else None
        self._guard = None if plan.make_guard is None else plan.make_guard()
        # Nobody else may have the list of samples.
        self._rows = None if self._takes_whole_batches else _rows_for(plan, code)
        self._number: int | None = None  # that of the draw at hand, where draws have one

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:
        """See BatchFetcher."""

    def user_state(self) -> UserState:
        """See BatchFetcher."""
        try:
            with self._asking():
                return UserState(asked(self._code.dataset, "dataset_state"))
        except StateError as error:
            return UserState(problem=error)

    def load_iterator(self, user: UserState, field: str) -> None:
        """See BatchFetcher."""

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """See BatchFetcher. StopIteration of the dataset, which would end the epoch, is a RuntimeError."""
        try:
            samples = [self._samples(indices, key, is_abandoned)]
        finally:
            self._flush()
        self._stream.begin_batch(key, self._names(indices))
        return _collated(self._plan, self._code, self._stream, samples, self._rows)

    def take_account(self) -> Account | None:
        """See BatchFetcher."""
        return None if self._guard is None else self._guard.take()

    def _flush(self) -> None:
        """Adds what was counted since to the counters."""
        self._tally.flush()

    def _names(self, indices: Any) -> Any:
        """Of the samples of the batch at hand, for rng="sample"."""
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
        """With others in the place of bad samples. A dataset's ``__getitems__`` is not asked: it fails as a whole."""
        load = functools.partial(self._load, self._code.dataset, key=key)
        if self._plan.is_batched:
            return guard.batch(self._numbered(indices, key, is_abandoned), load)
        self._number = key.number(0)
        return guard.one(indices, load)

    def _numbered(self, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Iterator[Any]:
        """As wanted(). What stands in for a sample has its number."""
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
        """As _load() does for each; for a batch of small samples that costs more than they do."""
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
    """Raises what a Subset of a Subset raises for a bad index: the outer one looks all of a batch up first."""
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
        self._problem: BaseException | None = None  # that the data set has raised in the place of an iterator
        self._rows = _rows_for(plan, code)

    def take_account(self) -> None:
        """See BatchFetcher. A stream's samples are neither replaced nor left out."""

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """See BatchFetcher; of `indices` only the number counts."""
        self.check_begun()
        if epoch != self._epoch:
            self.begin(key, epoch)
        try:
            samples = [self._samples(indices, is_abandoned)]
        finally:
            self._tally.flush()
        return _collated(self._plan, self._code, self._stream, samples, self._rows)

    def begin(self, key: RandomKey, epoch: int) -> None:
        """Asks the dataset for an iterator; fetch() does so where that has not been done for `epoch`."""
        self._stream.begin_sample(key, self._worker_id)
        try:
            with self._plan.lock or NO_LOCK, self._stream.mode():
                self._items = iter(self._code.dataset)
        except StopIteration as error:
            raise _silent_end("iter(dataset)") from error
        self._epoch = epoch
        self._has_ended = False

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:
        """See BatchFetcher."""
        self._epoch = self._problem = None
        try:
            self.begin(key, epoch)
        except BaseException as error:  # noqa: BLE001 - who asks for the first batch gets it
            self._problem = error

    def check_begun(self) -> None:
        """Raises, once, what the data set has raised in the place of an iterator."""
        problem, self._problem = self._problem, None
        try:
            if problem is not None:
                raise problem
        finally:
            del problem  # its traceback has this frame

    @property
    def is_stateful(self) -> bool:
        """See BatchFetcher."""
        return is_stateful(self._code.dataset) or is_stateful(self._items)

    def user_state(self) -> UserState:
        """See BatchFetcher. A data set that is its own iterator is asked once."""
        dataset, items = self._code.dataset, self._items
        try:
            with self._asking():
                of_dataset = None if items is dataset else asked(dataset, "dataset_state")
                return UserState(of_dataset, asked(items, "fetcher_state.dataset_iter_state"), self._has_ended)
        except StateError as error:
            return UserState(problem=error)

    def load_iterator(self, user: UserState, field: str) -> None:
        """See BatchFetcher."""
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
    """The indices of a batch, each when its sample is begun.

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
    """Those of the thread's worker, where the samples of a batch are one list of ours that default_collate gets."""
    is_ours = plan.is_batched and plan.make_guard is None and code.collate_fn is default_collate
    return rows_of_thread() if is_ours else None


def _collated(
    plan: DatasetPlan, code: UserCode, stream: RandomStream, samples: list[Any], rows: BatchRows | None
) -> Any:
    """The batch of what `samples` has one of: a list, or a sample where there are no batches; it is taken out."""
    begin = time.perf_counter()
    try:
        with stream.mode():
            return code.collate_fn(samples.pop()) if rows is None else rows.collate(samples)
    except StopIteration as error:
        raise _silent_end("collate_fn") from error
    finally:
        plan.counters.add({"stage_seconds": {"collate": time.perf_counter() - begin}})


def _silent_end(what: str) -> RuntimeError:
    return RuntimeError(f"{what} raised StopIteration, which would end the epoch without a word")
