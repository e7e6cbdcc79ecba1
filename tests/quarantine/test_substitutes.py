"""The samples that may replace others, and the choice among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_folders import make_bad_folder
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torchvision import transforms

import fastload
from fastload._quarantine._substitutes import MAX_ATTEMPTS, candidates_of, choices

DATASET = TensorDataset(torch.arange(10))


def test_the_choice_is_that_of_the_documented_hash() -> None:
    import hashlib

    digest = hashlib.blake2b(b"1000 7 1", digest_size=8).digest()
    assert fastload.substitute(7, 1, 1000) == int.from_bytes(digest, "little") % 1000
    assert fastload.substitute(7, 1, range(0, 2000, 2)) == 2 * fastload.substitute(7, 1, 1000)


def test_every_candidate_stands_in_about_as_often() -> None:
    chosen = Counter(fastload.substitute(index, 1, 10) for index in range(10_000))
    assert set(chosen) == set(range(10))
    assert all(850 < count < 1150 for count in chosen.values()), chosen  # five standard deviations


def test_no_sample_is_tried_twice_nor_the_bad_one_itself() -> None:
    for index in range(50):
        tried = list(choices(index, 20))
        assert index not in tried
        assert len(tried) == len(set(tried)) <= MAX_ATTEMPTS


@pytest.mark.parametrize(
    ("arguments", "text"), [((1, 1, 0), "no candidates"), ((1, 1, []), "no cand"), ((1, 0, 5), "1,")]
)
def test_a_choice_among_none_is_refused(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fastload.substitute(*arguments)


class _OwnOrder(RandomSampler):
    """Inherits all methods that give indices."""

    note = "mine"


class _Odd(Sampler[int]):
    def __iter__(self) -> Any:
        return iter([1, 3, 5])

    def __len__(self) -> int:
        return 3


class _OddRandom(RandomSampler):
    def __iter__(self) -> Any:
        return iter([1, 3, 5])


WEIGHTS = torch.tensor([0.0, 1, 0, 2, 0, 0, 3, 0, 0, 0])
KNOWN: list[tuple[Any, int | Sequence[int]]] = [
    (SequentialSampler(DATASET), 10),
    (RandomSampler(DATASET), 10),
    (_OwnOrder(DATASET), 10),
    (DistributedSampler(DATASET, num_replicas=3, rank=1), 10),
    (fastload.ShardedSampler(DATASET, num_replicas=3, rank=1), 10),
    (fastload.ShardedSampler(DATASET, num_replicas=2, rank=0, weights=WEIGHTS), [1, 3, 6]),
    (SubsetRandomSampler([7, 2, 2, 9]), [2, 7, 9]),
    (WeightedRandomSampler(WEIGHTS, 20), [1, 3, 6]),
]


@pytest.mark.parametrize(("sampler", "expected"), KNOWN)
@pytest.mark.parametrize("is_batched", [True, False])
def test_what_torchs_samplers_can_give_may_stand_in(sampler: Any, expected: Any, is_batched: bool) -> None:
    loader = fastload.DataLoader(DATASET, 2 if is_batched else None, sampler=sampler)
    assert candidates_of(loader, None) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"sampler": _Odd()},
        {"sampler": _OddRandom(DATASET)},
        {"batch_sampler": [[1, 2], [3]]},
        {"batch_sampler": BatchSampler(_Odd(), 2, drop_last=False)},
    ],
)
def test_of_another_sampler_one_has_to_name_them(arguments: Any) -> None:
    loader = fastload.DataLoader(DATASET, on_error="replace", **arguments)
    with pytest.raises(ValueError, match="substitutes="):
        iter(loader)
    assert candidates_of(loader, [5, 1, 1]) == [1, 5]
    assert candidates_of(loader, "all") == 10


@pytest.mark.parametrize("named", [[3, 10], [-1, 3]])
def test_named_ones_must_be_in_the_data_set(named: list[int]) -> None:
    loader = fastload.DataLoader(DATASET, on_error="replace", substitutes=named)
    with pytest.raises(ValueError, match=r"substitutes must lie in \[0, 10\), got (10|-1)"):
        iter(loader)


def test_in_blocks_a_sample_of_the_same_group_stands_in() -> None:
    """A node that has only its own part of the files must find the substitute there."""
    dataset = TensorDataset(torch.arange(1003))
    samplers = [
        fastload.ShardedSampler(
            1003, num_replicas=4, rank=rank, seed=5, block_size=10, canonical_nodes=4, nodes=4, window_blocks=2
        )
        for rank in range(4)
    ]
    found = [
        candidates_of(fastload.DataLoader(dataset, sampler=sampler, on_error="replace"), None) for sampler in samplers
    ]
    assert all(candidates == found[0] for candidates in found)
    # The repeats that fill up the last round belong to the rank's own group, too.
    parts = [set(sampler) for sampler in samplers]
    assert set().union(*parts) == set(range(1003))
    for index in range(1003):
        (part,) = [part for part in parts if index in part]
        tried = list(choices(index, found[0]))
        assert len(tried) > 10
        assert set(tried) <= part


def test_a_batch_in_blocks_is_loaded_with_samples_of_its_own_group(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path, 40, [(index, "missing") for index in range(3, 40, 7)])
    folder.transform = transforms.Compose([transforms.RandomResizedCrop(24), transforms.ToTensor()])
    folder.samples = [(path, index) for index, (path, _) in enumerate(folder.samples)]
    for rank in range(2):
        sampler = fastload.ShardedSampler(
            40, num_replicas=2, rank=rank, seed=1, block_size=4, canonical_nodes=2, nodes=2, window_blocks=2
        )
        loader = fastload.DataLoader(
            folder, 4, sampler=sampler, num_workers=1, on_error="replace", max_errors=1, rng="sample", seed=1
        )
        labels = [labels.tolist() for _, labels in loader]
        assert {index for batch in labels for index in batch} <= set(sampler) - set(range(3, 40, 7))
        assert [labels.tolist() for _, labels in loader.at(epoch=0, step=2)] == labels[2:]
