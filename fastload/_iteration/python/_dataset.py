"""The two kinds of fetchers: of map-style and of iterable data sets."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import IterableDataset, Subset

from fastload._images._array_dataset import ArrayDataset, holds_array, innermost
from fastload._iteration.python._fetcher import BatchFetcher, EndOfStreamError, FetchPlan, silent_end
from fastload._quarantine._failure import Account
from fastload._resume._user_state import UserState, asked, is_stateful, loaded
from fastload._workers._data_pipes import seed_graph
from fastload._workers._random_stream import RandomKey, RandomStream
from fastload._workers._user_code import UserCode


def make_fetcher(plan: FetchPlan, stream: RandomStream, code: UserCode, worker_id: int = 0) -> BatchFetcher:
    """Returns the fetcher that makes the batches of one worker."""
    if isinstance(code.dataset, IterableDataset):
        return IterableFetcher(plan, stream, code, worker_id)
    return MapFetcher(plan, stream, code)


class MapFetcher(BatchFetcher):
    """Batches of a dataset with ``__getitem__``, or of the samples that fastload makes instead."""

    is_of_stream = False

    def __init__(self, plan: FetchPlan, stream: RandomStream, code: UserCode) -> None:
        super().__init__(plan, stream, code)
        self._is_stateful = is_stateful(code.dataset)
        self._dataset = code.dataset if code.samples is None else code.samples
        # A dataset with __getitems__ is asked for all samples of a batch at once. torch's Subset only passes the call
        # on, so the dataset inside it decides.
        self._takes_whole_batches = bool(getattr(innermost(self._dataset), "__getitems__", None))
        self._array = ArrayDataset(code.dataset) if holds_array(code.dataset) else None
        self._guard = None if plan.make_guard is None else plan.make_guard()
        if self._takes_whole_batches:
            self._rows = None  # the dataset may keep the list of samples
        self._number: int | None = None  # the number of the current draw, if draws are numbered

    @property
    def is_stateful(self) -> bool:
        return self._is_stateful

    def _states(self) -> UserState:
        return UserState(asked(self._code.dataset, "dataset_state"))

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """Makes a batch; a StopIteration of the dataset, which would end the epoch, becomes a RuntimeError."""
        begin = time.perf_counter()
        try:
            samples = [self._samples(indices, key, is_abandoned)]
        finally:
            self._add_counts(begin)
        self._stream.begin_batch(key, indices)
        return self._collated(samples)

    def take_account(self) -> Account | None:
        return None if self._guard is None else self._guard.take()

    def _add_counts(self, begin: float) -> None:
        if self._code.samples is None:
            super()._add_counts(begin)
        else:
            self._plan.counters.add(self._code.samples.take_counters())

    def _samples(self, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Any:
        guard = self._guard
        load = functools.partial(self._load, self._dataset, key=key)
        if not self._plan.is_batched:
            self._number = key.number(0)
            return load(indices) if guard is None else guard.one(indices, load)
        if self._takes_whole_batches and guard is None:  # a guard asks for each sample: __getitems__ fails as a whole
            return self._load_all(indices, key)
        find_in_subsets(self._code.dataset, indices)
        if guard is not None:
            return guard.batch(self._numbered(indices, key, is_abandoned), load)
        dataset = self._dataset if self._array is None else self._array.natively()
        if self._stream.begins_with_sample:
            return [self._load(dataset, index, key) for index in self._numbered(indices, key, is_abandoned)]
        return self._load_each(dataset, indices, is_abandoned)

    def _numbered(self, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Iterator[Any]:
        """Yields from _wanted() and sets the number of each draw; a sample's replacement has the sample's number."""
        for position, index in enumerate(self._wanted(indices, is_abandoned)):
            self._number = key.number(position)
            yield index

    def _load(self, dataset: Any, index: Any, key: RandomKey) -> Any:
        self._stream.begin_sample(key, index, self._number)
        try:
            sample = dataset[index]
        except StopIteration as error:
            raise silent_end(f"dataset[{index!r}]") from error
        self._num_loaded += 1
        return sample

    def _load_each(self, dataset: Any, indices: Any, is_abandoned: Callable[[], bool]) -> list[Any]:
        """Loads a batch's samples without a call for each, which costs more than a small sample."""
        samples, index = [], None
        try:
            for index in self._wanted(indices, is_abandoned):
                samples.append(dataset[index])
        except StopIteration as error:
            raise silent_end(f"dataset[{index!r}]") from error
        finally:
            self._num_loaded += len(samples)
        return samples

    def _load_all(self, indices: Any, key: RandomKey) -> Any:
        self._stream.begin_batch(key, indices)
        try:
            samples = self._dataset.__getitems__(indices)
        except StopIteration as error:
            raise silent_end(f"dataset.__getitems__({indices!r})") from error
        self._num_loaded += operator.length_hint(indices)  # a slice has none
        return samples


def find_in_subsets(dataset: Any, indices: Any) -> None:
    """Raises the error of a Subset of a Subset for a bad index: the outer one looks up the whole batch first."""
    while type(dataset) is Subset and type(dataset.dataset) is Subset:
        indices = [dataset.indices[index] for index in indices]
        dataset = dataset.dataset


class IterableFetcher(BatchFetcher):
    """Batches of one worker's part of an iterable dataset."""

    is_of_stream = True

    def __init__(self, plan: FetchPlan, stream: RandomStream, code: UserCode, worker_id: int) -> None:
        super().__init__(plan, stream, code)
        self._worker_id = worker_id
        self._epoch: int | None = None
        self._items: Iterator[Any] = iter(())
        self._has_ended = False
        self._problems: list[BaseException] = []  # at most one, which the data set raised when asked for an iterator

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """Makes a batch of as many samples as `indices` has; their values are not used."""
        self.check_begun()
        if epoch != self._epoch:
            self.begin(key, epoch)
        begin = time.perf_counter()
        try:
            samples = [self._samples(indices, is_abandoned)]
        finally:
            self._add_counts(begin)
        return self._collated(samples)

    def begin(self, key: RandomKey, epoch: int) -> None:
        """Asks the dataset for an iterator; fetch() calls this if the iterator of `epoch` is still missing."""
        seed_graph(self._code.dataset, key.graph_seed)
        self._stream.begin_sample(key, self._worker_id)
        try:
            self._items = iter(self._code.dataset)
        except StopIteration as error:
            raise silent_end("iter(dataset)") from error
        self._epoch = epoch
        self._has_ended = False

    def begin_epoch(self, key: RandomKey, epoch: int) -> None:
        self._epoch, self._problems = None, []
        try:
            self.begin(key, epoch)
        except BaseException as error:  # noqa: BLE001 - raised by check_begun() with the first batch
            self._problems = [error]

    def check_begun(self) -> None:
        """Raises, once, the error that the data set raised when it was asked for an iterator."""
        if self._problems:
            raise self._problems.pop()

    @property
    def is_stateful(self) -> bool:
        return is_stateful(self._code.dataset) or is_stateful(self._items)

    def _states(self) -> UserState:
        """Asks once if the data set is its own iterator."""
        dataset, items = self._code.dataset, self._items
        of_dataset = None if items is dataset else asked(dataset, "dataset_state")
        return UserState(of_dataset, asked(items, "fetcher_state.dataset_iter_state"), self._has_ended)

    def load_iterator(self, user: UserState, field: str) -> None:
        if not self._problems:
            loaded(self._items, user.iterator, f"{field}fetcher_state.dataset_iter_state")
        self._has_ended = user.has_ended

    def _samples(self, indices: Any, is_abandoned: Callable[[], bool]) -> Any:
        if self._has_ended:
            raise EndOfStreamError
        if not self._plan.is_batched:
            return self._next()
        samples: list[Any] = []
        for _ in self._wanted(indices, is_abandoned):
            try:
                samples.append(self._next())
            except EndOfStreamError:
                break
        if not samples or (self._plan.drop_last and len(samples) < len(indices)):
            raise EndOfStreamError
        return samples

    def _next(self) -> Any:
        try:
            item = next(self._items)
        except StopIteration:
            self._has_ended = True
            raise EndOfStreamError from None
        self._num_loaded += 1
        return item
