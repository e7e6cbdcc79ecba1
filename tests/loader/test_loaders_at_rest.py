"""Memory and threads that native loaders keep between epochs in a program with many loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from child_loader import num_native_threads, wait_for
from made_samples import in_threads
from torch.utils.data import Sampler, Subset
from torchvision.datasets import ImageFolder

import fastload
from fastload._loader._state import MOST_AT_REST

NUM_LOADERS = MOST_AT_REST + 3
MakeLoaders = Callable[..., list[Any]]


@pytest.fixture
def make_loaders(clean_folder: Path) -> MakeLoaders:
    """Makes loaders of parts of one data set, like clients of federated learning."""
    dataset = ImageFolder(str(clean_folder), recipes.training(48))

    def make(
        count: int = NUM_LOADERS, kind: Any = fastload.DataLoader, num_workers: int = 2, **arguments: Any
    ) -> list[Any]:
        parts = [Subset(dataset, range(number, number + 8)) for number in range(count)]
        return [kind(part, batch_size=4, num_workers=num_workers, **arguments) for part in parts]

    return make


def with_memory(loaders: list[Any]) -> list[int]:
    """Returns the numbers of loaders that keep memory."""
    return [number for number, loader in enumerate(loaders) if loader.stats().bytes_held > 0]


def test_only_the_most_recently_used_loaders_keep_threads_and_memory(make_loaders: MakeLoaders) -> None:
    loaders, before = make_loaders(), num_native_threads()
    for loader in loaders:
        list(loader)
    assert with_memory(loaders) == list(range(NUM_LOADERS - MOST_AT_REST, NUM_LOADERS))
    assert wait_for(lambda: num_native_threads() - before <= 2 * MOST_AT_REST)  # the others are told to end
    list(loaders[-2])  # one of those that keep memory
    list(loaders[0])
    assert with_memory(loaders) == [0, *range(NUM_LOADERS - MOST_AT_REST + 1, NUM_LOADERS)]


def test_epochs_in_turn_are_torchs_and_what_was_counted_stays(make_loaders: MakeLoaders) -> None:
    epochs = []
    for kind in (torch.utils.data.DataLoader, fastload.DataLoader):
        torch.manual_seed(5)
        loaders = make_loaders(kind=kind, num_workers=0, shuffle=True)
        epochs.append([[images for images, _ in loader] for _ in range(3) for loader in loaders])
    assert all(torch.equal(torch.cat(theirs), torch.cat(ours)) for theirs, ours in zip(*epochs, strict=True))
    for loader in loaders:
        stats = loader.stats()
        assert (stats.samples_native, stats.batches_delivered) == (24, 6)
        assert stats.stage_seconds["decode"] > 0
        assert stats.bytes_read > 0


@pytest.mark.parametrize("persistent", [False, True])
def test_a_loader_in_use_keeps_its_threads_and_memory(make_loaders: MakeLoaders, persistent: bool) -> None:
    torch.manual_seed(7)
    expected = [images for images, _ in make_loaders(1)[0]]
    first, *others = make_loaders(persistent_workers=persistent)
    torch.manual_seed(7)
    iterator = iter(first)
    found = [next(iterator)[0]]
    for loader in others:
        list(loader)  # more than may keep memory
    found += [images for images, _ in iterator]
    assert all(map(torch.equal, expected, found))
    assert first.stats().bytes_held > 0
    with pytest.raises(StopIteration):
        next(iterator)
    assert (with_memory(others) == list(range(NUM_LOADERS - 1))) == persistent  # each has its iterator


def test_a_sampler_may_iterate_other_loaders_while_its_own_begins(make_loaders: MakeLoaders) -> None:
    first, *others = make_loaders()

    class Reading(Sampler[int]):
        def __len__(self) -> int:
            return 8

        def __iter__(self) -> Iterator[int]:
            for loader in others:
                list(loader)
            return iter(range(8))

    reading = fastload.DataLoader(first.dataset, batch_size=4, num_workers=2, sampler=Reading())
    for _ in range(3):
        assert [len(images) for images, _ in reading] == [4, 4]


def test_threads_may_begin_epochs_of_many_loaders_at_once(make_loaders: MakeLoaders) -> None:
    loaders, counts = make_loaders(3 * MOST_AT_REST), []

    def read(number: int) -> None:
        for _ in range(4):
            counts.extend(sum(len(images) for images, _ in loader) for loader in loaders[number::3])

    in_threads(3, read)
    assert counts == [8] * (4 * len(loaders))
    assert sum(loader.stats().samples_native for loader in loaders) == sum(counts)


def test_a_closed_loader_goes_on_counting(make_loaders: MakeLoaders) -> None:
    (loader,) = make_loaders(1)
    for epochs in range(1, 3):
        list(loader)
        loader.close()
        assert loader.stats().samples_native == 8 * epochs
