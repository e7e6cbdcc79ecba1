"""steps=: epochs with the requested number of batches."""

from __future__ import annotations

import gc
import itertools
import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from both_loaders import steps_of
from torchvision.datasets import ImageFolder

import fastload


class Numbers(torch.utils.data.IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._count))


@pytest.fixture(scope="module")
def images(clean_folder: Path) -> ImageFolder:
    return ImageFolder(str(clean_folder), recipes.training(32))


def loader_of(dataset: Any, **arguments: Any) -> fastload.DataLoader[Any]:
    shuffle = None if isinstance(dataset, Numbers) else True
    generator = torch.Generator().manual_seed(2)
    return fastload.DataLoader(dataset, batch_size=4, shuffle=shuffle, generator=generator, **arguments)


WAYS: dict[str, dict[str, Any]] = {
    "in this thread": {},
    "threads": {"num_workers": 2, "workers": "threads"},
    "persistent threads": {"num_workers": 2, "workers": "threads", "persistent_workers": True},
    "processes": {"num_workers": 1, "workers": "processes", "multiprocessing_context": "fork"},
}


@pytest.mark.parametrize("steps", [1, 5, 6, 7, 14])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_epoch_is_cut_or_goes_on_with_the_next_one(way: dict[str, Any], steps: int) -> None:
    """Compares with a program that starts the loader's epochs in succession, and stops after that many batches."""

    def batches(loader: Any) -> list[Any]:
        epochs = itertools.chain.from_iterable(iter(loader) for _ in itertools.count())
        return [batch.tolist() for batch in itertools.islice(epochs, steps)]

    data = list(range(22))
    expected = batches(loader_of(data, **way))
    loader = loader_of(data, steps=steps, **way)
    assert len(loader) == len(iter(loader)) == steps
    assert [batch.tolist() for batch in loader_of(data, steps=steps, **way)] == expected
    assert len(list(loader)) == steps
    if steps == 6:
        assert expected == [batch.tolist() for batch in loader_of(data, **way)]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_streams_of_unequal_length_give_equally_many_batches(num_workers: int) -> None:
    for count in (9, 16, 40):
        assert len(list(loader_of(Numbers(count), num_workers=num_workers, steps=7))) == 7


@pytest.mark.parametrize("num_workers", [0, 2])
def test_native_batches_are_counted_and_reported(images: ImageFolder, num_workers: int) -> None:
    loader = loader_of(images, num_workers=num_workers, steps=8)
    iterator = iter(loader)
    labels = [labels.tolist() for _, labels in iterator]
    assert list(map(len, labels)) == [4, 4, 4, 4, 4, 2, 4, 4]
    assert [images.targets[report.index] for report in iterator.batch_report()] == labels[-1]
    assert next(iterator, None) is None
    assert loader.explain().is_native


def test_a_failed_batch_is_not_counted() -> None:
    class Failing(list[int]):
        def __getitem__(self, index: Any) -> Any:
            if index == 5:
                raise ValueError("sample 5")
            return index

    loader = fastload.DataLoader(Failing(range(12)), batch_size=4, num_workers=1, steps=4)
    assert steps_of(loader, torch.Tensor.tolist) == [[0, 1, 2, 3], ValueError, [8, 9, 10, 11]] * 2


class Interrupt(BaseException):
    """An exception like a signal handler's."""


def test_an_interrupt_costs_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastload._loader import _steps

    iterator = iter(fastload.DataLoader(list(range(12)), batch_size=4, num_workers=1, steps=5))
    real_append, found = _steps.append_result, []

    def interrupted(kept: list[Any], function: Any, *arguments: Any) -> None:
        real_append(kept, function, *arguments)
        raise Interrupt

    for number in range(5):
        if number % 2:
            monkeypatch.setattr(_steps, "append_result", interrupted)
            with pytest.raises(Interrupt):
                next(iterator)
            monkeypatch.setattr(_steps, "append_result", real_append)
        found.append(next(iterator).tolist())
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [0, 1, 2, 3], [4, 5, 6, 7]]
    assert next(iterator, None) is None


def test_a_loader_that_gives_nothing_says_so() -> None:
    loader = fastload.DataLoader(Numbers(0), batch_size=4, steps=3)
    with pytest.raises(RuntimeError, match=r"steps=3 cannot be reached: an epoch .* gave no batch, and 3 are missing"):
        list(loader)


def test_the_rest_of_an_epoch_may_be_empty() -> None:
    sampler = fastload.ShardedSampler(8, num_replicas=1, rank=0, shuffle=False)
    sampler.load_state_dict({"epoch": 0, "position": 8, "length": 8, "seed": 0})
    loader = fastload.DataLoader(list(range(8)), batch_size=4, sampler=sampler, steps=2)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_steps_are_shown_set_and_pickled() -> None:
    loader = fastload.DataLoader(list(range(8)), batch_size=4, steps=3)
    assert (loader.steps, len(pickle.loads(pickle.dumps(loader)))) == (3, 3)
    assert repr(loader) == "<fastload.DataLoader: list of 8 samples, batch_size=4, no workers, steps=3>"
    loader.steps = None
    assert len(list(loader)) == len(loader) == 2


@pytest.mark.parametrize("num_workers", [0, 1])
def test_neither_loader_nor_iterator_waits_for_the_collector(num_workers: int) -> None:
    gc.disable()
    try:
        loader = fastload.DataLoader(list(range(8)), batch_size=4, num_workers=num_workers, steps=3)
        iterator = iter(loader)
        next(iterator)
        left = [weakref.ref(loader), weakref.ref(iterator)]
        del loader, iterator
        assert [reference() for reference in left] == [None, None]
    finally:
        gc.enable()


def test_an_iterator_without_such_an_attribute_says_so() -> None:
    iterator = iter(fastload.DataLoader([0], steps=1))
    assert not hasattr(iterator, "no_such_thing")
