"""Iterable data sets in threads: each thread is one of torch's workers, with its own iterator."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils.data
from both_loaders import Threads, assert_same, on_both, outcome, steps_of
from torch.utils.data import IterableDataset
from user_datasets import ITERABLE_DATASETS, Numbered, Stream, WithLength, flat, seeded_epochs

import fastload


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
@pytest.mark.parametrize("arguments", [{"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None}])
@pytest.mark.parametrize("name", ITERABLE_DATASETS)
def test_three_epochs_are_torchs_to_the_byte(name: str, arguments: dict[str, Any], num_workers: int) -> None:
    assert_same(lambda kind: seeded_epochs(kind(ITERABLE_DATASETS[name](), num_workers=num_workers, **arguments)))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_more_items_than_its_length_warn_in_torchs_words(batch_size: int | None, num_workers: int) -> None:
    class TooLong(WithLength):
        def __len__(self) -> int:
            return 5

    def run(kind: Any) -> Any:
        loader = kind(TooLong(), batch_size=batch_size, num_workers=num_workers)
        lengths = len(loader), len(kind(TooLong(), 2, drop_last=True))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            items = [flat(item) for item in loader]
        texts = [str(warning.message) for warning in caught if "reported to be" in str(warning.message)]
        return lengths, len(items), [text.split(" at 0x")[0] for text in texts]

    assert assert_same(run)[2]


class Failing(IterableDataset[Any]):
    """Raises in the middle; a generator has ended after that."""

    def __iter__(self) -> Iterator[int]:
        yield from range(5)
        raise ZeroDivisionError("in the stream")


class FailingToBegin(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        raise ZeroDivisionError("at the start")


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_an_error_in_the_stream_is_torchs_and_its_stream_ends(num_workers: int) -> None:
    mine = assert_same(lambda kind: steps_of(kind(Failing(), batch_size=2, num_workers=num_workers)))
    assert ZeroDivisionError in mine


@pytest.mark.parametrize("num_workers", [1, 2])
def test_an_error_of_iter_itself_comes_with_the_first_batch(num_workers: int) -> None:
    iterator = iter(Threads(FailingToBegin(), num_workers=num_workers))
    with pytest.raises(ZeroDivisionError, match=r"^Caught ZeroDivisionError in DataLoader worker thread 0\."):
        next(iterator)


class ItsOwnIterator(IterableDataset[int]):
    """``__iter__`` returns the data set itself, like a reader of a socket or a queue."""

    def __init__(self, length: int = 40) -> None:
        self.length = length
        self.position = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.position >= self.length:
            raise StopIteration
        self.position += 1
        return self.position - 1


def epochs_of(kind: Any, dataset: Any, **arguments: Any) -> Any:
    """Returns the batches of two epochs, and the data set's attributes afterwards."""
    loader = kind(dataset, batch_size=4, **arguments)
    return [[batch.tolist() for batch in loader] for _ in range(2)], {
        name: value for name, value in vars(dataset).items() if isinstance(value, int)
    }


class BeginningAnew(ItsOwnIterator):
    """``__iter__`` returns the data set itself, at its beginning."""

    def __iter__(self) -> Iterator[int]:
        self.position = 0
        return self


@pytest.mark.parametrize("make", [ItsOwnIterator, BeginningAnew])
@pytest.mark.parametrize(
    "arguments", [{"num_workers": 1}, {"num_workers": 3}, {"num_workers": 2, "persistent_workers": True}]
)
def test_a_dataset_that_is_its_own_iterator_is_each_workers_own(make: Any, arguments: dict[str, Any]) -> None:
    mine = assert_same(lambda kind: epochs_of(kind, make(), **arguments))
    assert sum(map(len, mine[0][0])) == 40 * arguments["num_workers"], "each worker gives every item"


def test_with_num_streams_a_dataset_is_run_once() -> None:
    loader = fastload.DataLoader(ItsOwnIterator(), batch_size=4, num_workers=3, num_streams=1)
    assert [batch.tolist() for batch in loader] == [[*range(first, first + 4)] for first in range(0, 40, 4)]


def test_threads_may_take_turns_with_the_iterator_that_they_share() -> None:
    class Locking(ItsOwnIterator):
        lock = threading.Lock()

        def __next__(self) -> int:
            with self.lock:
                return super().__next__()

    loader = Threads(Locking(), batch_size=4, num_workers=3)
    assert sorted(int(item) for batch in loader for item in batch) == list(range(40)), "each item once"


class Range(IterableDataset[int]):
    """A stream that does not know of workers."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end))


def take_part(worker_id: int) -> None:
    """Leaves its worker a part of the Range, as a worker_init_fn."""
    info = torch.utils.data.get_worker_info()
    assert info is not None
    assert info.id == worker_id
    dataset: Any = info.dataset
    length = (dataset.end - dataset.start) // info.num_workers
    dataset.start += info.id * length
    dataset.end = dataset.start + length


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_an_init_function_may_leave_each_worker_its_part(num_workers: int, persistent: bool) -> None:
    def run(kind: Any) -> Any:
        dataset = Range(0, 16)
        arguments = {"num_workers": num_workers, "persistent_workers": persistent, "worker_init_fn": take_part}
        loader = kind(dataset, batch_size=3, **arguments)
        return [[batch.tolist() for batch in loader] for _ in range(2)], dataset.start, dataset.end

    mine = assert_same(run)
    assert sorted(number for batch in mine[0][1] for number in batch) == list(range(16))


def test_a_stream_that_is_left_early_ends_in_the_thread_that_has_run_it() -> None:
    """An sqlite connection, for example, must be closed in the thread that opened it."""
    threads: list[tuple[int, int]] = []
    begun, ended = threading.Semaphore(0), threading.Semaphore(0)

    class Opening(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            opened = threading.get_ident()
            begun.release()
            try:
                yield from range(1000)
            finally:
                threads.append((opened, threading.get_ident()))
                ended.release()

    iterator = iter(Threads(Opening(), num_workers=2))
    for _ in range(2):
        assert begun.acquire(timeout=20)
    assert next(iterator).tolist() == [0]
    gc.disable()  # otherwise it may come before the thread does
    try:
        del iterator
        for _ in range(2):
            assert ended.acquire(timeout=20)
    finally:
        gc.enable()
    assert [opened == closed for opened, closed in threads] == [True, True]


@pytest.mark.parametrize("num_streams", [1, 2, 3])
def test_num_streams_is_torch_with_as_many_workers(num_streams: int) -> None:
    torch.manual_seed(3)
    expected = [flat(batch) for batch in torch.utils.data.DataLoader(Stream(), batch_size=4, num_workers=num_streams)]
    torch.manual_seed(3)
    loader = fastload.DataLoader(Stream(), batch_size=4, num_workers=3, num_streams=num_streams)
    assert [flat(batch) for batch in loader] == expected


def test_num_streams_of_a_map_dataset_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="num_streams=2 needs an IterableDataset, but Numbered is not one"):
        fastload.DataLoader(Numbered(), num_streams=2)


class DrawingToBegin(IterableDataset[Any]):
    """``__iter__`` is not a generator: it draws, or fails, at once."""

    def __init__(self, is_bad: bool = False) -> None:
        self.is_bad = is_bad

    def __iter__(self) -> Iterator[Any]:
        first = torch.rand(1)
        if self.is_bad:
            raise ZeroDivisionError("at the start")
        return iter([first, torch.rand(1)])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_dataset_is_asked_for_its_iterator_when_torch_asks(num_workers: int) -> None:
    def run(kind: Any) -> Any:
        torch.manual_seed(3)
        iterator = iter(kind(DrawingToBegin(), batch_size=None, num_workers=num_workers))
        between = torch.rand(1)
        return flat(between), [flat(item) for item in iterator], torch.rand(1).item()

    assert_same(run)
    begun = on_both(lambda kind: outcome(lambda: iter(kind(DrawingToBegin(is_bad=True), num_workers=num_workers)))[0])
    assert begun[0] == begun[1] == ("raised" if num_workers == 0 else "returned")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_stop_iteration_of_iter_itself_is_no_silent_end(num_workers: int) -> None:
    class Stopping(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            raise StopIteration

    with pytest.raises(RuntimeError, match=r"iter\(dataset\) raised StopIteration, which would end the epoch"):
        list(fastload.DataLoader(Stopping(), num_workers=num_workers))
