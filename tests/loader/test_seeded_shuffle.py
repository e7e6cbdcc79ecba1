"""``shuffle=True`` with ``rng="sample"`` and a seed: the order of an epoch is a function of the seed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler, RandomSampler

import fastload

LENGTH = 11


def loader_of(dataset: Any = None, **arguments: Any) -> Any:
    data = list(range(LENGTH)) if dataset is None else dataset
    return fastload.DataLoader(data, 4, **{"shuffle": True, "rng": "sample", "seed": 5, **arguments})


def order(loader: Any) -> list[int]:
    return [index for batch in loader for index in batch.tolist()]


def expected(epoch: int, seed: int = 5, length: int = LENGTH) -> list[int]:
    sampler = DistributedSampler(range(length), num_replicas=1, rank=0, seed=seed)  # type: ignore[arg-type]
    sampler.set_epoch(epoch)
    return list(sampler)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_it_is_that_of_a_distributed_sampler_of_one_rank(num_workers: int, persistent: bool) -> None:
    torch.manual_seed(1)
    loader = loader_of(num_workers=num_workers, persistent_workers=persistent and num_workers > 0)
    assert [order(loader) for _ in range(3)] == [expected(epoch) for epoch in range(3)]
    loader.set_epoch(7)
    assert order(loader) == expected(7)
    assert loader.epoch == loader.sampler.epoch + 1 == 8


def test_without_a_seed_it_is_torchs() -> None:
    torch.manual_seed(1)
    loader = loader_of(seed=None)
    assert type(loader.sampler) is RandomSampler
    torch.manual_seed(1)
    torchs = torch.utils.data.DataLoader(list(range(LENGTH)), 4, shuffle=True)
    assert order(loader_of(seed=None)) != order(torchs)
    torch.manual_seed(1)
    found = order(loader)
    torch.manual_seed(1)
    assert found == order(torchs)


@pytest.mark.parametrize("sampler", ["shuffle", "distributed"])
def test_the_later_epoch_of_sampler_and_loader_counts(sampler: str) -> None:
    data = list(range(LENGTH))
    own = DistributedSampler(data, num_replicas=1, rank=0, seed=5) if sampler == "distributed" else None
    loader = loader_of(data, shuffle=own is None, sampler=own)
    loader.sampler.set_epoch(4)  # as frameworks do
    assert order(loader) == expected(4)
    assert loader.epoch == 5
    loader.set_epoch(9)
    assert order(loader) == expected(9 if own is None else 4)
    assert loader.epoch == 10


def test_it_is_a_random_sampler_that_follows_the_data_set() -> None:
    data = list(range(LENGTH))
    loader = loader_of(data)
    assert isinstance(loader.sampler, RandomSampler)
    assert not isinstance(loader.sampler, DistributedSampler)
    assert len(loader) == 3
    order(loader)
    data += [LENGTH, LENGTH + 1]
    assert len(loader) == 4
    assert order(loader) == expected(1, length=LENGTH + 2)


@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**63 + 3, 2**64 - 1])
def test_every_seed_of_a_loader_gives_an_order(seed: int) -> None:
    assert order(loader_of(seed=seed)) == expected(0, seed % 2**63)


def test_a_copy_has_epochs_of_its_own() -> None:
    sampler = loader_of().sampler
    sampler.set_epoch(3)
    copied = copy.copy(sampler)
    copied.set_epoch(8)
    assert (sampler.epoch, copied.epoch) == (3, 8)
    assert (list(sampler), list(copied)) == (expected(3), expected(8))


def test_looking_at_a_loader_leaves_its_epoch() -> None:
    loader = loader_of()
    assert fastload.benchmark(loader, 0.05, warmup_seconds=0).batches > 3
    assert loader.epoch == 0
    assert order(loader) == expected(0)
