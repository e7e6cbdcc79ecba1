"""Epochs of persistent iterators: the first batches of the next one are under way when one ends, where that is safe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from torchvision.datasets import ImageFolder

import fastload


def make_loader(folder: Path, transform: Any, **arguments: Any) -> fastload.DataLoader:
    return fastload.DataLoader(
        ImageFolder(str(folder), transform),
        **{"batch_size": 2, "num_workers": 2, "persistent_workers": True} | arguments,
    )


def test_evaluation_begins_its_next_epoch_when_one_ends(clean_folder: Path) -> None:
    loader = make_loader(clean_folder, recipes.evaluation(48))
    expected = recipes.bytes_of(torch.utils.data.DataLoader(loader.dataset, batch_size=2))
    for epoch in range(3):
        assert recipes.bytes_of(loader) == expected
        stats = loader.stats()
        assert stats.batches_delivered == (epoch + 1) * len(expected)
        assert stats.batches_in_flight == 4  # prefetch_factor 2 for each thread


def test_an_epoch_that_has_ended_stays_ended(clean_folder: Path) -> None:
    iterator = iter(make_loader(clean_folder, recipes.evaluation(48)))
    batches = len(list(iterator))
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    assert batches == len(iterator)


@pytest.mark.parametrize(
    ("transform", "arguments"),
    [
        (recipes.training(48), {}),
        (recipes.evaluation(48), {"shuffle": True}),
        (recipes.evaluation(48), {"persistent_workers": False}),
        (recipes.evaluation(48), {"persistent_workers": False, "num_workers": 0}),
    ],
)
def test_nothing_begins_that_draws_or_may_not_be_wanted(
    clean_folder: Path, transform: Any, arguments: dict[str, Any]
) -> None:
    loader = make_loader(clean_folder, transform, **arguments)
    iterator = iter(loader)
    for _ in iterator:
        pass
    assert loader.stats().batches_in_flight == 0


def test_an_epoch_that_was_begun_is_dropped_where_the_sampler_has_changed(clean_folder: Path) -> None:
    loader = make_loader(clean_folder, recipes.evaluation(48))
    first = recipes.bytes_of(loader)
    loader.batch_sampler.batch_size = 3
    assert (
        recipes.bytes_of(loader) == recipes.bytes_of(torch.utils.data.DataLoader(loader.dataset, batch_size=3)) != first
    )


def test_closing_drops_the_epoch_that_was_begun(clean_folder: Path) -> None:
    loader = make_loader(clean_folder, recipes.evaluation(48))
    first = recipes.bytes_of(loader)
    loader.close()
    assert recipes.bytes_of(loader) == first
