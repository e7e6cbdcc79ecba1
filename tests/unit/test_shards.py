"""Sharding of samples: torch's DistributedSampler is the oracle for epochs, arithmetic for their rests."""

from __future__ import annotations

import random
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from philox import philox
from scipy import stats
from torch.utils.data import DistributedSampler

from fastload import ShardedSampler

RANKS = range(1, 10)
EPOCHS = 5


def ranks_of(num_replicas: int, length: int, **arguments: Any) -> list[ShardedSampler]:
    return [ShardedSampler(length, num_replicas=num_replicas, rank=rank, **arguments) for rank in range(num_replicas)]


def resumed(state: dict[str, int], num_replicas: int, length: int, **arguments: Any) -> list[ShardedSampler]:
    """Returns the ranks of another world, all with that state."""
    ranks = ranks_of(num_replicas, length, **arguments)
    for rank in ranks:
        rank.load_state_dict(state)
    return ranks


def real(sampler: ShardedSampler) -> list[int]:
    """Returns its samples without the repeats."""
    return list(sampler)[: sampler.num_real]


def in_turn(lists: list[list[int]]) -> list[int]:
    """Returns the samples in the order in which they were dealt: one of each rank, in turns."""
    longest = max(map(len, lists))
    return [of_rank[step] for step in range(longest) for of_rank in lists if step < len(of_rank)]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("num_replicas", RANKS)
def test_lists_are_those_of_a_distributed_sampler(num_replicas: int, drop_last: bool) -> None:
    for length in range(51):
        for rank in range(num_replicas):
            mine = ShardedSampler(length, num_replicas=num_replicas, rank=rank, seed=length, drop_last=drop_last)
            data: Any = range(length)
            theirs = DistributedSampler(data, num_replicas, rank, seed=length, drop_last=drop_last)
            assert (len(mine), mine.num_samples, mine.total_size) == (
                len(theirs),
                theirs.num_samples,
                theirs.total_size,
            )
            for epoch in range(EPOCHS):
                mine.set_epoch(epoch)
                theirs.set_epoch(epoch)
                assert list(mine) == list(theirs)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("length", [0, 1, 7, 9000])
def test_lists_in_order_are_those_of_a_distributed_sampler(length: int, drop_last: bool) -> None:
    for rank in range(3):
        data: Any = range(length)
        theirs = DistributedSampler(data, 3, rank, shuffle=False, drop_last=drop_last)
        mine = ShardedSampler(data, num_replicas=3, rank=rank, shuffle=False, drop_last=drop_last)
        assert list(mine) == list(theirs)


@pytest.mark.parametrize("num_replicas", RANKS)
def test_all_ranks_take_equally_many_steps_and_each_sample_comes_once_without_the_repeats(num_replicas: int) -> None:
    for length in range(1, 51):
        ranks = ranks_of(num_replicas, length)
        assert len({len(list(rank)) for rank in ranks}) == 1
        assert sorted(chain(*map(real, ranks))) == list(range(length))
        cut = [list(rank) for rank in ranks_of(num_replicas, length, drop_last=True)]
        assert {len(of_rank) for of_rank in cut} == {length // num_replicas}
        assert len(set(chain(*cut))) == length // num_replicas * num_replicas


@pytest.mark.parametrize("seed", range(8))
def test_any_other_ranks_go_on_with_exactly_what_is_left(seed: int) -> None:
    """Three worlds in succession, each with its own ranks, batch size and steps."""
    draw = random.Random(seed)
    for _ in range(500):
        length, epoch = draw.randint(1, 50), draw.randint(0, 5)
        line = torch.randperm(length, generator=torch.Generator().manual_seed(7 + epoch)).tolist()
        state = {"epoch": epoch, "position": 0, "length": length, "seed": 7}
        for _ in range(3):
            ranks = resumed(state, draw.choice(RANKS), length, seed=7)
            lists, reals = [list(rank) for rank in ranks], [rank.num_real for rank in ranks]
            assert len({len(of_rank) for of_rank in lists}) == 1
            rest = in_turn([of_rank[:count] for of_rank, count in zip(lists, reals, strict=True)])
            assert rest == line[state["position"] :]
            padding = in_turn(lists)[len(rest) :]
            assert padding == (line * len(ranks))[: len(padding)]
            batch_size = draw.randint(1, 4)
            num_batches = draw.randint(0, -(-len(lists[0]) // batch_size))
            (state, *others) = [rank.state_at(num_batches, batch_size) for rank in ranks]
            assert all(other == state for other in others)
            assert state["position"] == line_position(len(line), len(rest), num_batches * batch_size * len(ranks))


def line_position(length: int, num_left: int, num_dealt: int) -> int:
    return min(length, length - num_left + num_dealt)


@pytest.mark.parametrize("seed", range(4))
def test_the_same_global_batch_goes_on_with_the_same_batches(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        length, global_batch = draw.randint(1, 50), draw.choice([4, 6, 8, 12])
        worlds = [count for count in RANKS if global_batch % count == 0]

        def batches(ranks: list[ShardedSampler], size: int = global_batch) -> list[set[int]]:
            line = in_turn([real(rank) for rank in ranks])
            return [set(line[first : first + size]) for first in range(0, len(line), size)]

        before, after = draw.choice(worlds), draw.choice(worlds)
        whole = batches(ranks_of(before, length))
        step = draw.randint(0, len(whole))
        state = ranks_of(before, length)[0].state_at(step, global_batch // before)
        assert batches(resumed(state, after, length)) == whole[step:]


@pytest.mark.parametrize("length", [3, 8, 10])
def test_a_rest_too_small_for_all_ranks_is_cut_again(length: int) -> None:
    state = ranks_of(4, length, drop_last=True)[0].state_at(1, 1)
    lists = [list(rank) for rank in resumed(state, 3, length, drop_last=True)]
    assert {len(of_rank) for of_rank in lists} == {max(0, length - 4) // 3}


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_finished_epoch_stays_finished_in_every_world(drop_last: bool) -> None:
    for length in range(1, 30):
        ranks = ranks_of(4, length, drop_last=drop_last)
        state = ranks[0].state_at(len(ranks[0]) // 2 + 1, 2)
        assert state["position"] == length
        for num_replicas in RANKS:
            assert [list(rank) for rank in resumed(state, num_replicas, length, drop_last=drop_last)] == (
                [[]] * num_replicas
            )


# ---- weights ---------------------------------------------------------------------------------------------------------


WEIGHTS = [0.0, 1.0, 0.25, 3.0, 0.0, 0.5, 2.0, 0.0]


def line_of_draws(count: int, **arguments: Any) -> list[int]:
    """Returns draws 0, 1, 2 ... of an epoch, as one rank gets them."""
    return list(ShardedSampler(8, num_replicas=1, rank=0, weights=WEIGHTS, num_samples=count, **arguments))


def test_draws_by_weights_have_their_odds() -> None:
    counts = np.bincount(line_of_draws(10**6, seed=3), minlength=8)
    odds = np.array(WEIGHTS) / sum(WEIGHTS)
    assert counts[odds == 0].sum() == 0
    assert stats.chisquare(counts[odds > 0], 10**6 * odds[odds > 0]).pvalue > 0.01


@pytest.mark.parametrize("num_replicas", RANKS)
def test_a_draw_is_the_same_whichever_rank_takes_it_and_however_it_is_reached(num_replicas: int) -> None:
    arguments: dict[str, Any] = {"weights": WEIGHTS, "num_samples": 9001}
    line = line_of_draws(9001 + num_replicas)
    ranks = ranks_of(num_replicas, 8, **arguments)
    lists = [list(rank) for rank in ranks]
    assert in_turn(lists) == line[: ranks[0].total_size]  # further draws fill the last round
    assert sum(rank.num_real for rank in ranks) == 9001
    state = ranks[0].state_at(100, 3)
    assert in_turn([real(rank) for rank in resumed(state, 5, 8, **arguments)]) == line[300 * num_replicas : 9001]


def test_draws_by_weights_differ_in_each_epoch_and_seed() -> None:
    sampler = ShardedSampler(8, num_replicas=1, rank=0, weights=torch.tensor(WEIGHTS), num_samples=50)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first != line_of_draws(50, seed=1)
    assert line_of_draws(50) == first


def test_draws_by_weights_are_those_of_the_documented_counter() -> None:
    seed, epoch = 2**40 + 5, 2**33 + 2
    key = philox([epoch & 0xFFFFFFFF, epoch >> 32, 0, 0x464C5731], [seed & 0xFFFFFFFF, seed >> 32])[:2]
    expected = []
    for number in range(200):
        low, high, *_ = philox([number, 0, 0, 0], key)
        draw = ((high << 32 | low) >> 11) * 2.0**-53
        expected.append(next(i for i, total in enumerate(np.cumsum(WEIGHTS)) if total > draw * sum(WEIGHTS)))
    sampler = ShardedSampler(8, num_replicas=1, rank=0, weights=WEIGHTS, num_samples=200, seed=seed)
    sampler.set_epoch(epoch)
    assert list(sampler) == expected


# ---- epochs without an end -------------------------------------------------------------------------------------------


def first_of(sampler: ShardedSampler, count: int) -> list[int]:
    return [index for index, _ in zip(sampler, range(count), strict=False)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("num_replicas", RANKS)
def test_infinite_epochs_follow_each_other_without_padding_or_cut(num_replicas: int, shuffle: bool) -> None:
    for length in (1, 2, 7, 20):
        data: Any = range(length)
        one = DistributedSampler(data, 1, 0, shuffle, seed=2)
        line: list[int] = []
        for epoch in range(num_replicas * 40 // length + 1):
            one.set_epoch(epoch)
            line += one
        ranks = ranks_of(num_replicas, length, shuffle=shuffle, seed=2, infinite=True)
        lists = [first_of(rank, 40) for rank in ranks]
        assert in_turn(lists) == line[: 40 * num_replicas]
        state = ranks[0].state_at(5, 3)
        epochs, position = divmod(15 * num_replicas, length)
        assert state == {"epoch": epochs, "position": position, "length": length, "seed": 2}
        others = resumed(state, 2, length, shuffle=shuffle, seed=2, infinite=True)
        rest = in_turn([first_of(rank, 10) for rank in others])
        assert rest[:20] == line[15 * num_replicas :][:20]
