"""Which samples may stand in for others, and which one does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
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
    """Leaves the giving to its base."""

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
