"""Any map-style data set: every byte, draw and error as from torch's workers."""

from __future__ import annotations

import random
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from both_loaders import Threads, assert_same, on_both, steps_of
from torch.utils.data import Dataset, Subset
from user_datasets import (
    MAP_DATASETS,
    NUM_SAMPLES,
    Drawing,
    Numbered,
    as_they_are,
    flat,
    seeded_epochs,
)

import fastload
from fastload._iteration.python import _worker_group


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
@pytest.mark.parametrize("name", MAP_DATASETS)
def test_three_epochs_are_torchs_to_the_byte(name: str, num_workers: int) -> None:
    make, arguments = MAP_DATASETS[name]

    def run(kind: Any) -> Any:
        return seeded_epochs(kind(make(), **{"batch_size": 4, **arguments}, num_workers=num_workers))

    mine = assert_same(run)
    assert mine[0], "there are batches"


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_a_bad_index_into_a_subset_of_a_subset_is_found_before_anything_is_drawn(num_workers: int) -> None:
    """torch's outer Subset looks up all indices of a batch before the inner one loads a sample."""

    def run(kind: Any) -> Any:
        torch.manual_seed(3)
        dataset = Subset(Subset(Drawing(), range(20)), range(10))
        batches = [[0, 1], [2, 3], [4, 5, 99], [6, 7, 8], [9, 1], [5, 6], [2, -99], [1, 2]]
        return steps_of(kind(dataset, batch_sampler=batches, num_workers=num_workers)), torch.rand(1).item()

    mine = assert_same(run)
    assert mine[0].count(IndexError) == 2


@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_rng_sample_gives_the_same_samples_for_any_number_of_threads(num_workers: int) -> None:
    def run(workers: int, **arguments: Any) -> Any:
        dataset = Drawing()
        loader = fastload.DataLoader(dataset, batch_size=4, num_workers=workers, rng="sample", seed=4, **arguments)
        return [flat(batch) for batch in loader]

    assert run(num_workers) == run(0)
    by_index = {}
    for shuffle in (False, True):
        loader = fastload.DataLoader(Drawing(), 1, shuffle, num_workers=num_workers, rng="sample", seed=4)
        by_index[shuffle] = {int(batch[-1]): flat(batch) for batch in loader}
    assert by_index[True] == by_index[False]
    assert len({str(batch[1][0]) for batch in by_index[True].values()}) == NUM_SAMPLES, "samples draw each for itself"


class Holding(Numbered):
    """Draws from a generator of each kind that a data set may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [
            random.Random(1),
            np.random.RandomState(2),
            *(np.random.Generator(kind(3)) for kind in (np.random.PCG64, np.random.MT19937, np.random.Philox)),
        ]
        self.torch, self.bits = torch.Generator().manual_seed(4), np.random.SFC64(5)

    def sample(self, index: int) -> Any:
        drawn = [generator.random() for generator in self.held]  # type: ignore[attr-defined]
        return *drawn, torch.rand((), generator=self.torch), float(self.bits.random_raw() % 2**20)


@pytest.mark.parametrize(("num_workers", "workers"), [(1, "threads"), (1, "processes"), (3, "processes")])
def test_rng_sample_seeds_the_generators_that_a_data_set_holds(num_workers: int, workers: Any) -> None:
    def run(**arguments: Any) -> list[Any]:
        loader = fastload.DataLoader(Holding(), batch_size=4, rng="sample", seed=4, **arguments)
        return [[flat(batch) for batch in loader] for _ in range(2)]

    assert run(num_workers=num_workers, workers=workers) == run()


class Raising(Numbered):
    """Some samples raise."""

    def __init__(self, error: Callable[[], BaseException], bad: tuple[int, ...] = (5, 6, 14)) -> None:
        super().__init__()
        self.error = error
        self.bad = bad

    def sample(self, index: int) -> Any:
        if index in self.bad:
            raise self.error()
        return torch.rand(1), index


class OneText(Exception):
    pass


@pytest.mark.parametrize("num_workers", [1, 2])
def test_an_error_has_the_original_as_its_cause_with_the_users_frames(num_workers: int) -> None:
    with pytest.raises(ValueError, match=r"^Caught ValueError in DataLoader worker thread \d\.\nOriginal Tr") as raised:
        list(Threads(Raising(lambda: ValueError("bad value")), batch_size=4, num_workers=num_workers))
    cause = raised.value.__cause__
    assert isinstance(cause, ValueError)
    assert cause.args == ("bad value",)
    names = []
    traceback = cause.__traceback__
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names[-2:] == ["__getitem__", "sample"]
    assert "raise self.error()" in str(raised.value)


def test_attributes_of_the_users_error_are_kept() -> None:
    def make() -> OneText:
        error = OneText("own")
        error.detail = {"path": "a"}  # type: ignore[attr-defined]
        return error

    with pytest.raises(OneText) as raised:
        list(fastload.DataLoader(Raising(make), batch_size=4, num_workers=2))
    assert raised.value.detail == {"path": "a"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("where", ["dataset", "sample lists", "collate_fn", "without batches"])
def test_stop_iteration_does_not_end_an_epoch_without_a_word(num_workers: int, where: str) -> None:
    """In torch it does: this is one of the cases in which the same behaviour would lose samples."""

    class Lists(Raising):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    def collate(samples: list[Any]) -> Any:
        raise StopIteration

    dataset = (Lists if where == "sample lists" else Raising)(StopIteration, () if where == "collate_fn" else (5,))
    arguments: dict[str, Any] = {"collate_fn": collate} if where == "collate_fn" else {}
    batch_size = None if where == "without batches" else 4
    theirs, mine = on_both(lambda kind: steps_of(kind(dataset, batch_size, num_workers=num_workers, **arguments)))
    assert len(theirs) < len(mine) == (NUM_SAMPLES if batch_size is None else 6), "all others come"
    named = {
        "dataset": r"dataset\[5\]",
        "sample lists": r"dataset.__getitems__\(\[4, 5, 6, 7\]\)",
        "collate_fn": "collate_fn",
        "without batches": r"dataset\[5\]",
    }[where]
    assert mine.count(RuntimeError) == (6 if where == "collate_fn" else 1)
    with pytest.raises(RuntimeError, match=f"{named} raised StopIteration, which would end the epoch"):
        list(fastload.DataLoader(dataset, batch_size, num_workers=num_workers, **arguments))


# ---- how the threads share the work --------------------------------------------------------------------------------


class Watching(Numbered):
    """Records which thread loads which sample, and how many are in it at once.

    `num_together` threads, each of which loads as many samples, wait for each other in every one.
    """

    def __init__(self, length: int = 64, seconds: float = 0.004, num_together: int = 1) -> None:
        super().__init__(length)
        self.seconds = seconds
        self.together = threading.Barrier(num_together)
        self.threads: dict[int, int] = {}
        self.now = self.most = 0
        self._lock = threading.Lock()

    def sample(self, index: int) -> int:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.together.wait(60)
        time.sleep(self.seconds)
        with self._lock:
            self.now -= 1
            self.threads[index] = threading.get_ident()
        return index


@pytest.mark.parametrize("is_subset", [False, True])
def test_a_batch_is_made_by_one_thread_as_in_torch(is_subset: bool) -> None:
    watching = Watching(num_together=4)
    dataset = Subset(watching, range(64)) if is_subset else watching
    list(Threads(dataset, batch_size=8, num_workers=4))
    of_batches = [{watching.threads[index] for index in range(first, first + 8)} for first in range(0, 64, 8)]
    assert all(len(threads) == 1 for threads in of_batches)
    assert of_batches[:4] == of_batches[4:]
    assert watching.most == 4


class Column(Dataset[Any]):
    values = torch.arange(10)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]

    __getitems__ = __getitem__


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_batch_sampler_may_give_what_has_no_length(num_workers: int) -> None:
    slices = [slice(0, 4), slice(4, 8), slice(8, 10)]

    def run(kind: Any) -> Any:
        loader = kind(Column(), batch_sampler=slices, collate_fn=as_they_are, num_workers=num_workers)
        return [batch.tolist() for batch in loader]

    theirs, mine = on_both(run)
    assert mine == theirs == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_timeout_counts_from_the_batch_that_came_last_as_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """That batch need not be the next one. A clock that only the samples move replaces the real one."""
    now = [0.0]
    may_end = threading.Event()

    class SlowFirst(Numbered):
        def sample(self, index: int) -> int:
            if index == 0:
                assert may_end.wait(60)
            elif index in (1, 3):  # the other worker's whole prefetch
                now[0] += 50
            if index == 3:
                threading.Timer(0.2, may_end.set).start()
            return index

    monkeypatch.setattr(_worker_group, "time", types.SimpleNamespace(monotonic=lambda: now[0]), raising=False)
    loader = Threads(SlowFirst(), num_workers=2, timeout=60)
    assert [int(batch) for batch in loader] == list(range(NUM_SAMPLES))


def test_stats_count_every_sample_by_the_time_its_batch_is_there() -> None:
    for num_workers in (0, 1, 3):
        loader = fastload.DataLoader(Numbered(), batch_size=4, num_workers=num_workers)
        for number, _ in enumerate(loader, start=1):
            assert loader.stats().samples_python >= min(4 * number, NUM_SAMPLES)
            assert loader.stats().batches_delivered == number
        stats = loader.stats()
        assert stats.samples_python == stats.samples == NUM_SAMPLES
        assert set(stats.stage_seconds) >= {"dataset", "collate"}
