"""Epochs: delivered batches, their order, the end, and errors."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
import torch.utils.data
from both_loaders import Threads, assert_same, kind_of, labels_of, on_both, outcome, steps_of
from image_folders import save_jpeg
from samplers import BATCH_SAMPLERS, SAMPLERS, Counting
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload


def label_steps(loader: Any, error_form: Any = type) -> list[Any]:
    return steps_of(loader, lambda batch: batch[1].tolist(), error_form)


def epochs(kind: Any, dataset: Any, num_epochs: int = 2, **arguments: Any) -> list[Any]:
    torch.manual_seed(3)
    loader = kind(dataset, **arguments)
    return [outcome(lambda: len(loader)), *(outcome(lambda: label_steps(loader)) for _ in range(num_epochs))]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_give_torchs_batches_and_lengths(dataset: Any, num_workers: int, name: str) -> None:
    def run(kind: Any) -> list[Any]:
        sampler = SAMPLERS[name](dataset)
        return epochs(kind, dataset, batch_size=4, sampler=sampler, num_workers=num_workers)

    assert_same(run)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", BATCH_SAMPLERS)
def test_batch_samplers_give_torchs_batches_and_lengths(dataset: Any, num_workers: int, name: str) -> None:
    def run(kind: Any) -> list[Any]:
        return epochs(kind, dataset, batch_sampler=BATCH_SAMPLERS[name](dataset), num_workers=num_workers)

    assert_same(run)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 4, 11, 50])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_and_lengths_equal_torchs(
    dataset: Any, num_workers: int, batch_size: int, drop_last: bool, shuffle: bool
) -> None:
    arguments = {"batch_size": batch_size, "drop_last": drop_last, "shuffle": shuffle, "num_workers": num_workers}
    assert_same(lambda kind: epochs(kind, dataset, **arguments))


class Raising:
    """A sampler that fails after some keys."""

    def __iter__(self) -> Iterator[int]:
        yield from range(9)
        raise ZeroDivisionError("in the sampler")


BAD_BATCHES: dict[str, Any] = {
    "too large": [[0, 1], [2], [3, 99], [4], [5], [6], [7], [8], [9]],
    "too small": [[0, 1], [-99], [3], [4], [5], [6], [7], [8], [9]],
    "more than 64 bits": [[0], [2**70], [1]],
    "text": [[0, 1], ["two"], [3], [4], [5], [6], [7], [8], [9]],
    "pairs": [[(0, 1)], [1]],
    "none": [[0], [None], [1]],
    "floats": [[0], [1.0], [2]],
    "no list": [[0], 1, [2]],
    "empty": [[0], [], [2]],
    "first and last": [[99], [1], [99]],
}


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("name", BAD_BATCHES)
def test_bad_keys_cost_their_own_batch_and_no_other(threaded: Any, num_workers: int, name: str) -> None:
    def run(kind: Any) -> list[Any]:
        return label_steps(kind(threaded, batch_sampler=BAD_BATCHES[name], num_workers=num_workers), kind_of)

    assert {TypeError, IndexError} & {step for step in assert_same(run) if isinstance(step, type)}


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("prefetch_factor", [1, 2, 9])
def test_a_failing_sampler_fails_at_the_same_step(dataset: Any, num_workers: int, prefetch_factor: int) -> None:
    more = {"prefetch_factor": prefetch_factor} if num_workers else {}
    assert_same(
        lambda kind: outcome(lambda: label_steps(kind(dataset, sampler=Raising(), num_workers=num_workers, **more)))
    )


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("bad", [99, "text", 5])
def test_an_iterator_that_raised_goes_with_its_last_name(
    threaded: Any, tmp_path: Path, num_workers: int, bad: Any
) -> None:
    threaded.samples[5] = (str(tmp_path / "absent.jpg"), 5)
    gc.collect()
    gc.disable()
    try:
        for steps in (0, 1):
            iterator = iter(fastload.DataLoader(threaded, batch_sampler=[[bad], [bad], [1]], num_workers=num_workers))
            for _ in range(steps):
                assert outcome(iterator.__next__)[0] == "raised"
            observer = weakref.ref(iterator)
            del iterator
            assert observer() is None, f"after {steps} errors"
    finally:
        gc.enable()


@pytest.mark.parametrize(("num_workers", "is_persistent"), [(0, False), (2, False), (2, True)])
def test_the_end_stays_the_end(dataset: Any, num_workers: int, is_persistent: bool) -> None:
    arguments = {"num_workers": num_workers, "persistent_workers": is_persistent}
    iterator = iter(fastload.DataLoader(dataset, batch_size=6, **arguments))
    assert len(iterator) == 2
    assert len(list(iterator)) == 2
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    assert iter(iterator) is iterator


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_persistent_iterators_begin_again_in_the_middle(dataset: Any, shuffle: bool, steps: int) -> None:
    def run(kind: Any) -> Any:
        torch.manual_seed(2)
        loader = kind(dataset, batch_size=4, shuffle=shuffle, num_workers=2, persistent_workers=True)
        iterator = iter(loader)
        for _ in range(steps):
            next(iterator)
        second = iter(loader)
        return second is iterator, labels_of(second), labels_of(loader), iter(loader) is iterator

    assert_same(run)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("sampler", [None, [3, -1, 3], list(torch.tensor([2, 0])), [np.int64(4)], [99, 1], ["two", 1]])
def test_without_batches_the_samples_come_as_default_convert_leaves_them(
    dataset: Any, num_workers: int, sampler: Any
) -> None:
    def form(sample: Any) -> Any:
        image, label = sample
        return type(sample), type(image), image.dtype, image.shape, float(image.sum()), label

    def run(kind: Any) -> list[Any]:
        return steps_of(kind(dataset, batch_size=None, sampler=sampler, num_workers=num_workers), form, kind_of)

    mine = assert_same(run)
    assert len(mine) == (len(dataset) if sampler is None else len(sampler))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_native_batches_come_in_order_also_where_that_is_not_asked_for(images: Any, num_workers: int) -> None:
    loader = fastload.DataLoader(images, batch_size=2, num_workers=num_workers, in_order=False)
    assert loader.in_order is False
    assert labels_of(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_without_order_every_batch_comes_once(dataset: Any, num_workers: int) -> None:
    loader = fastload.DataLoader(dataset, batch_size=2, num_workers=num_workers, in_order=False)
    assert sorted(labels_of(loader)) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("prefetch_factor", [1, 3])
def test_no_more_batches_are_asked_for_ahead_than_torch_asks(
    dataset: Any, num_workers: int, prefetch_factor: int
) -> None:
    def run(kind: Any) -> list[int]:
        sampler = Counting(list(range(11)))
        loader = kind(dataset, batch_size=1, sampler=sampler, num_workers=num_workers, prefetch_factor=prefetch_factor)
        iterator = iter(loader)
        asked = [len(sampler.log)]
        for _ in range(4):
            next(iterator)
            asked.append(len(sampler.log))
        return asked

    mine = assert_same(run)
    # One entry more than keys: the request for the sampler's iterator. torch's BatchSampler makes it late.
    assert mine == [1 + min(11, num_workers * prefetch_factor + taken) for taken in range(5)]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_an_empty_dataset_gives_no_batches(threaded: Any, num_workers: int, drop_last: bool) -> None:
    threaded.samples = []
    arguments = {"batch_size": 2, "num_workers": num_workers, "drop_last": drop_last}
    theirs, mine = on_both(lambda kind: epochs(kind, threaded, **arguments))
    assert mine == theirs == [("returned", 0), ("returned", []), ("returned", [])]


def test_an_empty_dataset_cannot_be_shuffled_where_torch_refuses_it(threaded: Any) -> None:
    threaded.samples = []
    assert_same(lambda kind: outcome(lambda: labels_of(kind(threaded, shuffle=True))))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_set_epoch_of_a_distributed_sampler_is_followed(dataset: Any, num_workers: int) -> None:
    def run(kind: Any) -> Any:
        sampler = torch.utils.data.DistributedSampler(dataset, num_replicas=2, rank=0, seed=1)
        loader = kind(dataset, batch_size=2, sampler=sampler, num_workers=num_workers)
        found = []
        for epoch in (0, 1, 0):
            sampler.set_epoch(epoch)
            found.append(labels_of(loader))
        return found

    mine = assert_same(run)
    assert mine[0] == mine[2] != mine[1]


def iterator_that_timed_out(loader: Any) -> Any:
    for _ in range(10):  # on a busy machine this thread may sleep until a batch is there
        iterator = iter(loader)
        try:
            next(iterator)
        except RuntimeError as error:
            assert str(error) == "DataLoader timed out after 0.002 seconds"  # noqa: PT017 - others were none
            return iterator
    return pytest.fail("no batch took 2 ms")


@pytest.mark.parametrize("python_part", [[], [torch.neg]])
def test_a_timeout_is_torchs_error_and_the_batch_comes_later(tmp_path: Path, python_part: list[Any]) -> None:
    save_jpeg(tmp_path / "large" / "0.jpg", 1, 1200, 1200)
    dataset = ImageFolder(str(tmp_path), transforms.Compose([*recipes.evaluation(64, 56).transforms, *python_part]))
    dataset.samples = dataset.samples * 40
    expected = recipes.bytes_of(torch.utils.data.DataLoader(dataset, batch_size=20))
    loader = fastload.DataLoader(dataset, batch_size=20, num_workers=1, timeout=0.002)
    iterator = iterator_that_timed_out(loader)
    found = [step for step in steps_of(iterator, form=list, limit=1000) if step is not RuntimeError]
    assert recipes.bytes_of(found) == expected


@pytest.mark.parametrize("changes", [(0, 2, 0), (2, 0, 1), (1, 3, 2)])
def test_num_workers_may_change_between_epochs(threaded: Any, changes: tuple[int, ...]) -> None:
    loader = Threads(threaded, batch_size=4, num_workers=changes[0])
    expected = recipes.bytes_of(loader)
    for num_workers in changes:
        loader.num_workers = num_workers
        by = {0: "in the calling thread", 1: "by one thread"}.get(num_workers, f"by {num_workers} threads")
        assert loader.explain().splitlines()[0].endswith(by)
        iterator = iter(loader)
        if num_workers > 0:
            assert loader.stats().batches_in_flight == min(3, 2 * num_workers)
        assert recipes.bytes_of(iterator) == expected


@pytest.mark.filterwarnings("ignore:.*_MultiProcessingDataLoaderIter.__del__:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("name", "value"), [("num_workers", -1), ("prefetch_factor", 0), ("prefetch_factor", -2)])
def test_settings_that_became_wrong_are_refused_at_iter_as_torch_does(threaded: Any, name: str, value: int) -> None:
    def run(kind: Any) -> Any:
        loader = kind(threaded, num_workers=1)
        setattr(loader, name, value)
        return outcome(lambda: iter(loader))

    theirs, mine = on_both(run)
    assert mine == theirs == ("raised", AssertionError)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_key_of_any_kind_reaches_a_dataset_that_takes_it(num_workers: int) -> None:
    dataset = {("a", 1): 10, "b": 20, 2.5: 30}

    def run(kind: Any) -> Any:
        batches = kind(dataset, batch_sampler=[[("a", 1), "b"], [2.5]], num_workers=num_workers)
        return [batch.tolist() for batch in batches]

    theirs, mine = on_both(run)
    assert mine == theirs == [[10, 20], [30]]
