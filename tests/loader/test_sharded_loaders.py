"""Loaders whose samples a ShardedSampler shards: native, torch's bytes, and resumed by other ranks."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from torch.utils.data import BatchSampler, DistributedSampler
from torchvision.datasets import ImageFolder

import fastload
from fastload import ShardedSampler


@pytest.fixture(scope="module")
def dataset(clean_folder: Path) -> ImageFolder:
    return recipes.numbered_images(clean_folder, recipes.training(32))


def dealt(dataset: Any, num_replicas: int, rank: int, **arguments: Any) -> fastload.DataLoader[Any]:
    sampler = ShardedSampler(dataset, num_replicas=num_replicas, rank=rank, seed=5)
    return fastload.DataLoader(dataset, sampler=sampler, **arguments)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_batches_are_native_and_those_of_torchs_loader_and_sampler(dataset: ImageFolder, num_workers: int) -> None:
    found = []
    for kind in (torch.utils.data.DataLoader, fastload.DataLoader):
        torch.manual_seed(1)
        is_mine = kind is fastload.DataLoader
        sampler: Any = (
            ShardedSampler(dataset, num_replicas=3, rank=1, seed=5)
            if is_mine
            else DistributedSampler(dataset, 3, 1, seed=5)
        )
        loader: Any = kind(dataset, batch_size=3, sampler=sampler, num_workers=num_workers)
        epochs = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            epochs.append(recipes.samples_of(loader))
        found.append(epochs)
    assert found[0] == found[1]
    assert found[1][0] != found[1][1]
    assert loader.stats().samples_native == loader.stats().samples == 16


@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("arguments", [{}, {"weights": range(22)}, {"infinite": True}, {"shuffle": False}])
def test_every_kind_of_dealing_is_native(dataset: ImageFolder, arguments: dict[str, Any], rng: Any) -> None:
    sampler = ShardedSampler(dataset, num_replicas=3, rank=1, **arguments)
    loader = fastload.DataLoader(dataset, batch_size=3, sampler=sampler, num_workers=2, rng=rng, steps=2)
    expected = list(itertools.islice(ShardedSampler(dataset, num_replicas=3, rank=1, **arguments), 6))
    assert [index for index, _ in recipes.samples_of(loader)] == expected
    assert loader.stats().samples_python == 0
    explanation = loader.explain()
    assert explanation.is_native
    assert "BatchSampler over ShardedSampler, rank 1 of 3" in explanation


def test_a_batch_sampler_over_it_is_native_and_named(dataset: ImageFolder) -> None:
    batch_sampler = BatchSampler(ShardedSampler(dataset, num_replicas=2, rank=0, seed=5), 4, True)
    loader = fastload.DataLoader(dataset, batch_sampler=batch_sampler, num_workers=1)
    assert "BatchSampler over ShardedSampler, rank 0 of 2" in loader.explain()
    expected = list(ShardedSampler(dataset, num_replicas=2, rank=0, seed=5))[:8]
    assert [index for index, _ in recipes.samples_of(loader)] == expected
    assert [loader.real_in(step) for step in range(len(loader))] == [4, 4]


@pytest.mark.parametrize(("before", "after"), [(4, 2), (4, 3), (4, 8), (2, 1)])
def test_other_ranks_go_on_with_the_same_images(dataset: ImageFolder, before: int, after: int) -> None:
    """Runs the ranks one after another in one process."""
    arguments: dict[str, Any] = {"rng": "sample", "seed": 3, "num_workers": 2}

    def ranks(num_replicas: int, state: dict[str, int] | None) -> list[list[tuple[int, bytes]]]:
        found = []
        for rank in range(num_replicas):
            loader = dealt(dataset, num_replicas, rank, batch_size=max(1, 8 // num_replicas), **arguments)
            loader.set_epoch(1)
            if state is None:
                loader.sampler.set_epoch(1)
            else:
                loader.sampler.load_state_dict(state)
            found.append(recipes.samples_of(loader)[: loader.sampler.num_real])
        return found

    def in_turn(lists: list[list[Any]]) -> list[Any]:
        steps = range(max(map(len, lists)))
        return [of_rank[step] for step in steps for of_rank in lists if step < len(of_rank)]

    whole = in_turn(ranks(before, None))
    assert sorted(index for index, _ in whole) == list(range(22))
    stopped = dealt(dataset, before, 0).sampler
    stopped.set_epoch(1)
    assert in_turn(ranks(after, stopped.state_at(1, 8 // before))) == whole[8:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_repeats_are_known_batch_by_batch(dataset: ImageFolder, num_workers: int) -> None:
    seen = []
    for rank in range(5):
        loader = dealt(dataset, 5, rank, batch_size=2, num_workers=num_workers)
        for step, (_, labels) in enumerate(loader):
            seen += labels[: loader.real_in(step)].tolist()
    assert sorted(seen) == list(range(22))


def test_without_batches_a_step_is_a_sample(dataset: ImageFolder) -> None:
    loader = dealt(dataset, 5, 4, batch_size=None)
    assert [loader.real_in(step) for step in range(5)] == [1, 1, 1, 1, 0]
    with pytest.raises(ValueError, match="step 5 with batch_size=1 on 5 ranks is no batch"):
        loader.real_in(5)


def test_repeats_of_other_samplers_are_not_known(dataset: ImageFolder) -> None:
    loader = fastload.DataLoader(dataset, batch_size=2, shuffle=True)
    with pytest.raises(TypeError, match="this loader's sampler is a RandomSampler: pass sampler="):
        loader.real_in(0)


def test_a_data_set_of_the_users_own_is_dealt_out_to_threads() -> None:
    loader = dealt(list(range(100, 120)), 3, 2, batch_size=2, num_workers=2)
    expected = [100 + index for index in DistributedSampler(range(20), 3, 2, seed=5)]  # type: ignore[arg-type]
    assert torch.cat(list(loader)).tolist() == expected
