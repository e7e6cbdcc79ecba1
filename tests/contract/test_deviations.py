"""Deliberate differences between threads and torch's worker processes: the two side by side."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
import torch.utils.data
from both_loaders import TORCH_AND_THREADS, Threads, assert_same, negated, on_both, outcome, steps_of
from PIL import Image, ImageFile
from torch.utils.data import get_worker_info
from torchvision import transforms
from torchvision.datasets import ImageFolder
from user_datasets import Numbered


class Remembering(Numbered):
    """Keeps the indices that it was asked for."""

    def __init__(self) -> None:
        super().__init__(6)
        self.asked: list[int] = []

    def sample(self, index: int) -> int:
        self.asked.append(index)
        return index


def asked_of_the_programs(kind: Any, **arguments: Any) -> Any:
    dataset = Remembering()
    batches = [batch.tolist() for batch in kind(dataset, batch_size=2, num_workers=2, **arguments)]
    return batches, sorted(dataset.asked)


def test_what_the_dataset_keeps_is_its_workers_own() -> None:
    theirs, mine = on_both(asked_of_the_programs)
    assert mine == theirs
    assert theirs[1] == [], "a copy has kept it"


def test_what_the_dataset_keeps_stays_with_threads() -> None:
    batches, asked = asked_of_the_programs(Threads)
    assert batches == asked_of_the_programs(torch.utils.data.DataLoader)[0]
    assert asked == list(range(6))


def test_what_the_dataset_and_collate_fn_share_is_one_object_in_a_worker() -> None:
    def run(kind: Any) -> Any:
        dataset = Remembering()
        collate_fn = lambda samples: (samples, len(dataset.asked))  # noqa: E731
        return list(kind(dataset, batch_size=2, num_workers=2, collate_fn=collate_fn))

    assert assert_same(run) == [([0, 1], 2), ([2, 3], 2), ([4, 5], 4)]


class Epochs(Numbered):
    epoch = -1

    def sample(self, index: int) -> int:
        return self.epoch


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_workers_have_what_the_program_has_changed_before_they_start(persistent_workers: bool) -> None:
    def run(kind: Any) -> list[Any]:
        dataset, found = Epochs(4), []
        loader = kind(dataset, num_workers=2, persistent_workers=persistent_workers)
        for dataset.epoch in range(3):
            found.append([int(batch) for batch in loader])
        return found

    assert assert_same(run) == [[0 if persistent_workers else epoch] * 4 for epoch in range(3)]


def test_samples_that_are_not_collated_are_the_data_sets_own_memory_in_threads() -> None:
    """A worker process sends copies."""

    def run(kind: Any) -> Any:
        dataset = [np.zeros(2) for _ in range(4)]
        loader = kind(dataset, batch_size=None, num_workers=2, persistent_workers=True)
        for sample in loader:
            sample += 1
        return [sample.tolist() for sample in loader], [sample.tolist() for sample in dataset]

    theirs, mine = on_both(run, TORCH_AND_THREADS)
    assert theirs == ([[0, 0]] * 4, [[0, 0]] * 4)
    assert mine == ([[1, 1]] * 4, [[1, 1]] * 4)


@pytest.mark.parametrize("has_python_part", [False, True])
def test_a_transform_that_is_changed_in_an_epoch_without_workers_counts_from_the_next_one(
    folder: Path, has_python_part: bool
) -> None:
    """With workers torch does the same."""

    def steps(size: int) -> Any:
        return transforms.Compose([*recipes.evaluation(48, size).transforms, *[negated] * has_python_part])

    def run(kind: Any, num_workers: int) -> list[list[int]]:
        dataset = ImageFolder(str(folder), steps(32))
        loader, sizes = kind(dataset, batch_size=4, num_workers=num_workers), []
        for _ in range(2):
            iterator = iter(loader)
            found = [next(iterator)[0].shape[-1]]
            dataset.transform = steps(24)
            sizes.append(found + [images.shape[-1] for images, _ in iterator])
        return sizes

    theirs, mine = on_both(lambda kind: run(kind, 0))
    assert theirs == [[32, 24, 24], [24, 24, 24]]
    assert mine == run(torch.utils.data.DataLoader, 1) == [[32, 32, 32], [24, 24, 24]]


# Name -> (a function that sets it to a value, a function that returns it).
SETTINGS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any], Any]] = {
    "default dtype": (torch.set_default_dtype, torch.get_default_dtype, torch.float64),
    "environment": (lambda value: os.environ.update(FASTLOAD_TEST=value), lambda: os.environ["FASTLOAD_TEST"], "new"),
    "pixels": (lambda value: setattr(Image, "MAX_IMAGE_PIXELS", value), lambda: Image.MAX_IMAGE_PIXELS, 1234),
    "truncated": (
        lambda value: setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", value),
        lambda: ImageFile.LOAD_TRUNCATED_IMAGES,
        True,
    ),
    "warnings": (
        lambda value: warnings.simplefilter(value, ResourceWarning),
        lambda: next(entry[0] for entry in warnings.filters if entry[2] is ResourceWarning),
        "error",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_the_process_hold_for_all_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process has its own settings."""
    set_to, get, value = SETTINGS[name]
    monkeypatch.setenv("FASTLOAD_TEST", "old")

    def init(worker_id: int) -> None:
        set_to(value)

    with warnings.catch_warnings():
        warnings.simplefilter("default", ResourceWarning)
        before = get()
        try:
            list(torch.utils.data.DataLoader(Numbered(2), num_workers=1, worker_init_fn=init))
            assert get() == before
            list(Threads(Numbered(2), num_workers=1, worker_init_fn=init))
            assert get() == value
        finally:
            set_to(before)


def test_the_current_process_of_a_worker_is_the_programs() -> None:
    class Naming(Numbered):
        def sample(self, index: int) -> str:
            return multiprocessing.current_process().name

    def run(kind: Any) -> Any:
        return list(kind(Naming(1), batch_size=None, num_workers=1))

    theirs, mine = on_both(run, TORCH_AND_THREADS)
    assert mine == [multiprocessing.current_process().name] != theirs


def test_native_batches_cannot_be_resized_in_place_without_workers_either(folder: Path) -> None:
    def run(kind: Any, num_workers: int) -> Any:
        loader = kind(ImageFolder(str(folder), recipes.evaluation(40, 32)), batch_size=4, num_workers=num_workers)
        return outcome(lambda: next(iter(loader))[0].resize_(400, 3, 32, 32).shape[0])

    assert on_both(lambda kind: run(kind, 0)) == (("returned", 400), ("raised", RuntimeError))
    assert on_both(lambda kind: run(kind, 1)) == (("raised", RuntimeError), ("raised", RuntimeError))


def test_an_error_of_worker_init_fn_is_told_with_every_batch() -> None:
    """torch reports it once, and then that one of its variables has no value."""

    def init(worker_id: int) -> None:
        raise ZeroDivisionError("init")

    def run(kind: Any) -> list[Any]:
        return steps_of(kind(Numbered(4), num_workers=1, worker_init_fn=init), limit=3)

    theirs, mine = on_both(run)
    assert theirs[0] is mine[0] is ZeroDivisionError
    assert theirs[1:] == [UnboundLocalError] * 2
    assert mine[1:] == [ZeroDivisionError] * 2


class WaitingAtFirst(Numbered):
    """Sample 0 waits until it may end; sample `ended_by` ends the wait, if there is one."""

    def __init__(self, length: int, ended_by: int | None = None) -> None:
        super().__init__(length)
        self.may_end, self.ended_by = multiprocessing.Event(), ended_by

    def sample(self, index: int) -> int:
        assert index or self.may_end.wait(60)
        if index == self.ended_by:
            self.may_end.set()
        return index


@pytest.mark.skipif("in_order" not in inspect.signature(torch.utils.data.DataLoader).parameters, reason="torch < 2.6")
@pytest.mark.parametrize("in_order", [False, True])
def test_order_is_given_up_as_in_torch_and_only_where_that_is_asked_for(in_order: bool) -> None:
    def run(kind: Any) -> list[int]:
        dataset = WaitingAtFirst(12, ended_by=3 if in_order else None)
        iterator = iter(kind(dataset, num_workers=2, in_order=in_order))
        first = int(next(iterator))
        dataset.may_end.set()
        return [first, *map(int, iterator)]

    theirs, mine = on_both(run)
    assert sorted(mine) == sorted(theirs) == list(range(12))
    assert (mine[0] == 0) == (theirs[0] == 0) == in_order


@pytest.mark.parametrize("timeout", [0.15, 1])
def test_a_timeout_has_torchs_words_and_costs_no_batch(timeout: float) -> None:
    def run(kind: Any) -> Any:
        dataset = WaitingAtFirst(3)
        iterator = iter(kind(dataset, num_workers=1, timeout=timeout))
        with pytest.raises(RuntimeError) as caught:
            next(iterator)
        dataset.may_end.set()
        return str(caught.value), iterator

    (theirs, _), (mine, iterator) = on_both(run)
    assert mine == theirs == f"DataLoader timed out after {timeout} seconds"
    iterator._timeout = 60
    assert [int(batch) for batch in iterator] == [0, 1, 2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_collate_functions_run_in_the_worker_once_for_each_batch(num_workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        info = get_worker_info()
        return -1 if info is None else info.id, len(samples), threading.current_thread() is threading.main_thread()

    def run(kind: Any) -> Any:
        return list(kind(Numbered(9), 2, collate_fn=collate, num_workers=num_workers))

    theirs, mine = on_both(run, TORCH_AND_THREADS)
    assert [batch[:2] for batch in mine] == [batch[:2] for batch in theirs]
    assert {batch[2] for batch in mine} == {num_workers == 0}


UNPICKLABLE: dict[str, Callable[[], Any]] = {
    "a lambda": lambda: [lambda: 1],
    "a lock": lambda: [threading.Lock()],
    "a generator": lambda: [(number for number in range(3))],
}


@pytest.mark.parametrize("name", UNPICKLABLE)
def test_batches_need_not_be_pickled(name: str) -> None:
    """torch's workers cannot send such a batch, and the consumer waits forever."""

    def made(index: int) -> Any:
        return UNPICKLABLE[name]()

    class Unpicklable(Numbered):
        sample = staticmethod(made)  # type: ignore[assignment]

    arguments: dict[str, Any] = {"collate_fn": list, "num_workers": 1, "timeout": 0.6}
    with pytest.raises(RuntimeError, match="timed out"):
        list(torch.utils.data.DataLoader(Unpicklable(2), **arguments))
    assert len(list(Threads(Unpicklable(2), **arguments))) == 2
    assert len(list(torch.utils.data.DataLoader(Unpicklable(2), collate_fn=list))) == 2, "as without workers"
