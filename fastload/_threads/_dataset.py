"""Batches of any dataset of the user's, map-style or iterable, made as torch's fetchers make them."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import IterableDataset, Subset

from fastload._threads._counters import ThreadCounters
from fastload._threads._fetcher import BatchFetcher, EndOfStreamError
from fastload._threads._own_dataset import attributes
from fastload._threads._random_stream import RandomKey, RandomStream
from fastload._threads._task import AbandonedError

NO_LOCK = contextlib.nullcontext()


@dataclass(frozen=True)
class DatasetPlan:
    """What all threads of an iteration share.

    Attributes:
        dataset: The user's.
        collate_fn: Called with the list of samples, or with one sample where there are no batches.
        is_batched: Whether the sampler gives lists.
        drop_last: Of an iterable dataset's last batches.
        counters: To add to.
        lock: Held while the dataset is asked, where one thread at a time may.
        streams: The iterators of an iterable dataset.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    is_batched: bool
    drop_last: bool
    counters: ThreadCounters
    lock: contextlib.AbstractContextManager[Any] | None = None
    streams: SharedStreams = field(default_factory=lambda: SharedStreams())

    @functools.cached_property
    def takes_whole_batches(self) -> bool:
        """Whether the dataset is asked for the samples of a batch all at once.

        torch's own Subset only passes that on, so it counts as what is in it.
        """
        return bool(getattr(innermost(self.dataset), "__getitems__", None))

    def find_in_subsets(self, indices: Any) -> None:
        """Raises what a Subset of a Subset raises for a bad index: the outer one looks all of a batch up first."""
        dataset = self.dataset
        while type(dataset) is Subset and type(dataset.dataset) is Subset:
            indices = [dataset.indices[index] for index in indices]
            dataset = dataset.dataset

    @property
    def can_load_one_by_one(self) -> bool:
        """Whether the samples of a batch are asked for one by one, in any order."""
        return self.is_batched and not isinstance(self.dataset, IterableDataset) and not self.takes_whole_batches


def innermost(dataset: Any) -> Any:
    """What is in torch's own Subsets, of which there may be several around each other."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return dataset


def make_dataset_fetcher(plan: DatasetPlan, stream: RandomStream, worker_id: int | None) -> BatchFetcher:
    """What one thread makes its batches with."""
    if isinstance(plan.dataset, IterableDataset):
        return IterableFetcher(plan, stream, worker_id or 0)
    return MapFetcher(plan, stream)


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


class MapFetcher:
    """Batches of a dataset with ``__getitem__``, in one thread."""

    def __init__(self, plan: DatasetPlan, stream: RandomStream) -> None:
        self._plan = plan
        self._stream = stream
        self._tally = _Tally(plan.counters)

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """See BatchFetcher. StopIteration of the dataset, which would end the epoch, is a RuntimeError."""
        try:
            samples = self._samples(indices, key, is_abandoned)
        finally:
            self.flush()
        return self.collate(samples, indices, key)

    def load(self, index: Any, key: RandomKey) -> Any:
        """See SampleFetcher."""
        self._stream.begin_sample(key, index)
        begin = time.perf_counter()
        try:
            with self._plan.lock or NO_LOCK, self._stream.mode():
                sample = self._plan.dataset[index]
        except StopIteration as error:
            raise _silent_end(f"dataset[{index!r}]") from error
        self._tally.add(1, begin)
        return sample

    def collate(self, samples: Any, indices: Any, key: RandomKey) -> Any:
        """See SampleFetcher."""
        self._stream.begin_batch(key, indices)
        return _collated(self._plan, self._stream, samples)

    def flush(self) -> None:
        """Adds what was counted since to the counters."""
        self._tally.flush()

    def _samples(self, indices: Any, key: RandomKey, is_abandoned: Callable[[], bool]) -> Any:
        if not self._plan.is_batched:
            return self.load(indices, key)
        if self._plan.takes_whole_batches:
            return self._load_all(indices, key)
        self._plan.find_in_subsets(indices)
        if self._plan.lock is not None or self._stream.begins_with_sample:
            return [self.load(index, key) for index in wanted(indices, is_abandoned)]
        return self._load_each(indices, is_abandoned)

    def _load_each(self, indices: Any, is_abandoned: Callable[[], bool]) -> list[Any]:
        """As load() does for each; for a batch of small samples that costs more than they do."""
        dataset, samples, index = self._plan.dataset, [], None
        begin = time.perf_counter()
        try:
            with self._stream.mode():
                for index in wanted(indices, is_abandoned):
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
                samples = self._plan.dataset.__getitems__(indices)
        except StopIteration as error:
            raise _silent_end(f"dataset.__getitems__({indices!r})") from error
        self._tally.add(operator.length_hint(indices), begin)  # a slice has none
        return samples


class IterableFetcher:
    """Batches of one worker's part of an iterable dataset."""

    def __init__(self, plan: DatasetPlan, stream: RandomStream, worker_id: int) -> None:
        self._plan = plan
        self._stream = stream
        self._worker_id = worker_id
        self._tally = _Tally(plan.counters)
        self._epoch: int | None = None
        self._items = SharedIterator(iter(()), -1)
        self._has_ended = False
        self._has_begun = False  # with an item

    def fetch(self, indices: Any, key: RandomKey, epoch: int, is_abandoned: Callable[[], bool]) -> Any:
        """See BatchFetcher; of `indices` only the number counts."""
        if epoch != self._epoch:
            self.begin(key, epoch)
        try:
            samples = self._samples(indices, is_abandoned)
        finally:
            self._tally.flush()
        return _collated(self._plan, self._stream, samples)

    def begin(self, key: RandomKey, epoch: int) -> None:
        """Asks the dataset for an iterator; fetch() does so where that has not been done for `epoch`."""
        self._stream.begin_sample(key, self._worker_id)
        try:
            with self._plan.lock or NO_LOCK, self._stream.mode():
                self._items = self._plan.streams.open(self._plan.dataset, epoch)
        except StopIteration as error:
            raise _silent_end("iter(dataset)") from error
        self._epoch = epoch
        self._has_ended = self._has_begun = False

    def _samples(self, indices: Any, is_abandoned: Callable[[], bool]) -> Any:
        if self._has_ended:
            raise EndOfStreamError
        if not self._plan.is_batched:
            return self._next()
        samples: list[Any] = []
        for _ in indices:
            if is_abandoned():
                raise AbandonedError
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
            with self._plan.lock or NO_LOCK, self._items.lock, self._stream.mode():
                item = next(self._items.iterator)
        except StopIteration:
            self._has_ended = True
            raise EndOfStreamError from None
        finally:
            if not self._has_begun:
                self._has_begun = True
                self._plan.streams.look_for_own_attributes(self._plan.dataset, self._items.epoch)
        self._tally.add(1, begin)
        return item


class SharedIterator:
    """What ``iter(dataset)`` gave in an epoch, and what one thread at a time holds while it is asked."""

    def __init__(self, iterator: Iterator[Any], epoch: int, lock: threading.Lock | None = None) -> None:
        self.iterator = iterator
        self.epoch = epoch
        self.lock = lock or threading.Lock()


class SharedStreams:
    """The iterators that a dataset gives to the threads of an epoch. Thread-safe.

    A worker process has a copy of the dataset and an iterator of its own. A dataset whose ``__iter__`` returns one and
    the same object each time cannot give that to threads: they take turns with it, so that each item comes once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The threads hold them, so that an iterator ends in the thread that has used it.
        self._given: list[weakref.ref[SharedIterator]] = []
        self._watched: _Watched | None = None
        self._has_warned = False

    def open(self, dataset: Any, epoch: int) -> SharedIterator:
        """A thread's iterator of `dataset`."""
        with self._lock:
            given = [one for reference in self._given if (one := reference()) is not None]
            of_epoch = [one for one in given if one.epoch == epoch]
            if self._watched is None or self._watched.epoch < epoch:
                self._watched = _Watched(dataset, epoch, attributes(dataset))
            # Where the dataset is its own iterator, to ask it for one again may begin it anew.
            shared = next((one for one in of_epoch if one.iterator is dataset), None)
            iterator = dataset if shared is not None else iter(dataset)
            shared = next((one for one in of_epoch if one.iterator is iterator), None)
            if shared is not None:
                self._warn(_one_iterator_text(dataset))
                return shared
            lock = next((one.lock for one in given if one.iterator is iterator), None)  # of an epoch that was left
            opened = SharedIterator(iterator, epoch, lock)
            self._given = [*map(weakref.ref, given), weakref.ref(opened)]
            self._watched.num_streams += self._watched.is_of(dataset, epoch)
            return opened

    def look_for_own_attributes(self, dataset: Any, epoch: int) -> None:
        """Warns, once, if threads have set attributes of a dataset that they share: see Note [own attributes]."""
        watched = self._watched
        if self._has_warned or watched is None or not watched.is_of(dataset, epoch) or watched.num_streams < 2:
            return
        now = attributes(dataset)
        changed = [name for name in now if name not in watched.before or now[name] != watched.before[name]]
        if changed:
            self._warn(_own_attribute_text(dataset, changed[0]))

    def _warn(self, text: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(text, stacklevel=2)


@dataclass
class _Watched:
    """The first dataset that was opened in an epoch; the others are workers' own copies.

    Attributes:
        before: Its attributes then.
        num_streams: How many iterators it has given to threads.
    """

    dataset: Any
    epoch: int
    before: dict[str, Any]
    num_streams: int = 0

    def is_of(self, dataset: Any, epoch: int) -> bool:
        return self.dataset is dataset and self.epoch == epoch


def _one_iterator_text(dataset: Any) -> str:
    return (
        f"{type(dataset).__qualname__}.__iter__ returns the same iterator each time, so the threads share it and "
        "each item comes once. Each worker process would have a copy of the dataset and yield every item. Return a "
        "new iterator, for example by writing __iter__ as a generator, or give num_streams=1 to say that it is one "
        "stream."
    )


def _own_attribute_text(dataset: Any, name: str) -> str:
    return (
        f"{type(dataset).__qualname__} sets its attribute {name!r} while it is iterated over. Threads share the "
        "dataset, where each worker process has a copy, so that one may read what another has set, and items may come "
        "twice or not at all. Keep it in local variables of __iter__, set it in worker_init_fn on "
        "get_worker_info().dataset, which is each worker's own there, or give num_streams=1 to have one stream."
    )


def wanted(indices: Any, is_abandoned: Callable[[], bool]) -> Iterator[Any]:
    for index in indices:
        if is_abandoned():
            raise AbandonedError
        yield index


def _collated(plan: DatasetPlan, stream: RandomStream, samples: Any) -> Any:
    begin = time.perf_counter()
    try:
        with stream.mode():
            return plan.collate_fn(samples)
    except StopIteration as error:
        raise _silent_end("collate_fn") from error
    finally:
        plan.counters.add({"stage_seconds": {"collate": time.perf_counter() - begin}})


def _silent_end(what: str) -> RuntimeError:
    return RuntimeError(f"{what} raised StopIteration, which would end the epoch without a word")
