"""Epochs in blocks: the order against one that is made list by list, and the part that each node gets."""

from __future__ import annotations

import hashlib
import json
import random
import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fastload import ShardedSampler

DIVISORS = {1: [1], 2: [1, 2], 4: [1, 2, 4], 6: [1, 2, 3, 6], 12: [1, 2, 3, 4, 6, 12]}


def ranks_of(num_nodes: int, per_node: int, length: int, **arguments: Any) -> list[ShardedSampler]:
    num_ranks = num_nodes * per_node
    return [
        ShardedSampler(length, num_replicas=num_ranks, rank=rank, nodes=num_nodes, **arguments)
        for rank in range(num_ranks)
    ]


def line_of(length: int, epoch: int = 0, **arguments: Any) -> list[int]:
    """Returns the whole epoch, as one rank gets it."""
    (sampler,) = ranks_of(1, 1, length, **arguments)
    sampler.set_epoch(epoch)
    return list(sampler)


def raw(count: int, what: bytes, *numbers: int) -> list[int]:
    """Returns the 64-bit numbers by which a permutation sorts, and the numbers after them."""
    name = b"".join(number.to_bytes(8, "little") for number in numbers)
    key = int.from_bytes(hashlib.blake2b(name, digest_size=16, person=what).digest(), "little")
    return [int(number) for number in np.random.Philox(key=key).random_raw(count)]


def sorted_by(items: list[Any], keys: list[int]) -> list[Any]:
    return [item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: pair[0])]


def plain_line(
    length: int, epoch: int, block_size: int, window_blocks: int, canonical_nodes: int, shuffle: bool, seed: int
) -> list[int]:
    """Returns the order that the documentation describes, made one sample after another."""
    blocks = [list(range(length))[first : first + block_size] for first in range(0, length, block_size)]
    if shuffle:
        blocks = sorted_by(blocks, raw(len(blocks), b"line", seed))
    line = [(number, sample) for number, block in enumerate(blocks) for sample in block]
    sizes = [length // canonical_nodes + (group < length % canonical_nodes) for group in range(canonical_nodes)]
    groups = []
    for group, size in enumerate(sizes):
        part, line = line[:size], line[size:]
        pieces = [[sample for number, sample in part if number == block] for block in dict(part)]
        if shuffle:
            keys = raw(len(pieces) + size, b"epoch", seed, epoch, group)
            pieces = sorted_by(pieces, keys[: len(pieces)])
            bits = ((len(pieces) - 1) // window_blocks).bit_length()
            keys = [key >> bits for key in keys[len(pieces) :]]
            windows = [pieces[first : first + window_blocks] for first in range(0, len(pieces), window_blocks)]
            pieces = []
            for window in windows:
                samples = [sample for piece in window for sample in piece]
                pieces.append(sorted_by(samples, keys[: len(samples)]))
                keys = keys[len(samples) :]
        groups.append([sample for piece in pieces for sample in piece])
    return [groups[place % canonical_nodes][place // canonical_nodes] for place in range(length)]


@pytest.mark.parametrize("seed", range(10))
def test_an_epoch_is_the_one_that_the_documentation_describes(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        groups = draw.choice(list(DIVISORS))
        arguments: dict[str, Any] = {
            "block_size": draw.choice([1, 2, 3, 5, 8, 100]),
            "window_blocks": draw.choice([1, 2, 3, 100]),
            "canonical_nodes": groups,
            "shuffle": draw.random() < 0.9,
            "seed": draw.choice([0, 1, 2**63 - 1]),
        }
        length, epoch = draw.randint(groups, 90), draw.choice([0, 1, 5, 2**40])
        assert line_of(length, epoch, **arguments) == plain_line(length, epoch, **arguments)


def test_the_order_is_pinned() -> None:
    expected = [10, 15, 17, 8, 22, 18, 3, 21, 7, 11, 12, 16, 9, 20, 5, 2, 13, 19, 0, 14, 6, 1, 4]
    assert line_of(23, 2, block_size=4, window_blocks=2, canonical_nodes=3, seed=5) == expected


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("groups", DIVISORS)
def test_a_node_gets_the_same_samples_in_every_epoch_and_each_sample_comes_once(groups: int, shuffle: bool) -> None:
    for length in (groups, groups + 1, 29, 48, 61):
        arguments = {"block_size": 5, "window_blocks": 2, "canonical_nodes": groups, "seed": 3, "shuffle": shuffle}
        for num_nodes in DIVISORS[groups]:
            for per_node in (1, 2, 3):
                ranks = ranks_of(num_nodes, per_node, length, **arguments)
                parts: list[set[int]] = [set() for _ in range(num_nodes)]
                for epoch in range(3):
                    lists = []
                    for rank in ranks:
                        rank.set_epoch(epoch)
                        lists.append(list(rank))
                        assert len(lists[-1]) == len(rank) == rank.num_samples == -(-length // len(ranks))
                        parts[rank.node] |= set(lists[-1])
                    real = [each[: rank.num_real] for each, rank in zip(lists, ranks, strict=True)]
                    assert Counter(sample for each in real for sample in each) == Counter(range(length))
                assert sum(map(len, parts)) == length == len(set.union(*parts))


@pytest.mark.parametrize("groups", [1, 4, 12])
def test_any_number_of_nodes_gets_the_same_global_batches_from_any_place_on(groups: int) -> None:
    draw = random.Random(groups)
    arguments = {"block_size": 3, "window_blocks": 2, "canonical_nodes": groups, "seed": 1}
    for length in (groups + 5, 48, 77):
        for epoch in (0, 3):
            line = line_of(length, epoch, **arguments)
            for position in {0, 1, draw.randint(0, length), length - 1, length}:
                state = {"epoch": epoch, "position": position, "length": length, "seed": 1, **settings(arguments)}
                for num_nodes in DIVISORS[groups]:
                    for per_node in (1, 2):
                        assert_goes_on(line[position:], ranks_of(num_nodes, per_node, length, **arguments), state)


def settings(arguments: dict[str, Any]) -> dict[str, int]:
    return {name: arguments[name] for name in ("block_size", "window_blocks", "canonical_nodes")}


def assert_goes_on(rest: list[int], ranks: list[ShardedSampler], state: dict[str, int]) -> None:
    """Asserts that each round of the ranks is a run of places; the last one is filled from the node's own part."""
    lists = []
    for rank in ranks:
        rank.load_state_dict(state)
        lists.append(list(rank))
    assert len(set(map(len, lists))) == 1
    rounds = list(zip(*lists, strict=True))
    for number, samples in enumerate(rounds[:-1]):
        assert set(samples) == set(rest[number * len(ranks) :][: len(ranks)])
    real = [each[: rank.num_real] for each, rank in zip(lists, ranks, strict=True)]
    assert Counter(sample for each in real for sample in each) == Counter(rest)
    own: dict[int, set[int]] = {}
    for rank in ranks:
        rank.set_epoch(state["epoch"] + 1)
        own.setdefault(rank.node, set()).update(rank)
    for rank, each in zip(ranks, lists, strict=True):
        assert set(each) <= own[rank.node]


def test_a_run_that_is_stopped_goes_on_with_other_nodes() -> None:
    """4 ranks on 2 nodes, then 2, 3 and 8 ranks."""
    arguments = {"block_size": 4, "canonical_nodes": 24, "seed": 2}
    line = line_of(100, 1, **arguments)
    ranks = ranks_of(2, 2, 100, **arguments)
    iterators = []
    for rank in ranks:
        rank.set_epoch(1)
        iterators.append(iter(rank))
    taken = {next(iterator) for iterator in iterators for _ in range(6)}
    assert taken == set(line[:24])
    state = json.loads(json.dumps(ranks[3].state_dict()))
    assert state == ranks[0].state_at(3, 2) == ranks[1].state_dict()
    assert state["position"] == 24
    for num_nodes, per_node in ((1, 2), (2, 1), (3, 1), (8, 1), (4, 2), (2, 4)):
        assert_goes_on(line[24:], ranks_of(num_nodes, per_node, 100, **arguments), state)


def test_a_last_round_is_filled_from_the_beginning_of_the_nodes_own_part() -> None:
    """Two of four parts of 30 samples have one less; and 60 ranks need more than 13 samples."""
    lists = [list(rank) for rank in ranks_of(4, 1, 30, block_size=4, canonical_nodes=4)]
    assert [len(set(each)) for each in lists] == [8, 8, 7, 7]
    assert [each[-1] == each[0] for each in lists] == [False, False, True, True]
    ranks = ranks_of(4, 15, 13, block_size=4, canonical_nodes=4)
    lists = [list(rank) for rank in ranks]
    of_node = [[sample for rank, (sample,) in zip(ranks, lists, strict=True) if rank.node == node] for node in range(4)]
    line = line_of(13, block_size=4, canonical_nodes=4)
    assert of_node == [(line[node::4] * 15)[:15] for node in range(4)]
    assert [rank.num_real for rank in ranks] == [int(rank.rank % 15 < len(line[rank.node :: 4])) for rank in ranks]


@pytest.mark.parametrize("length", [24, 25, 31])
def test_an_incomplete_last_round_is_left_out(length: int) -> None:
    arguments = {"block_size": 4, "canonical_nodes": 4, "drop_last": True}
    line = line_of(length, **arguments)
    lists = [list(rank) for rank in ranks_of(2, 3, length, **arguments)]
    assert {len(each) for each in lists} == {length // 6}
    assert {sample for each in lists for sample in each} == set(line[: length // 6 * 6])


def test_few_blocks_are_read_at_a_time() -> None:
    """Between the first and the last sample of a block come no more blocks than a window has."""
    for epoch in range(3):
        line = line_of(1000, epoch, block_size=10, window_blocks=4, canonical_nodes=2)
        for group in range(2):
            blocks = [sample // 10 for sample in line[group::2]]
            for block in set(blocks):
                first, last = blocks.index(block), len(blocks) - 1 - blocks[::-1].index(block)
                assert len(set(blocks[first : last + 1])) <= 4
            assert blocks != sorted(blocks, key=blocks.index), "the samples of a window are mixed"


def test_every_sample_is_equally_likely_at_every_place_of_its_part() -> None:
    places = np.zeros((12, 12))
    for epoch in range(4000):
        (sampler,) = ranks_of(1, 1, 12, block_size=2, window_blocks=2, canonical_nodes=1, seed=9)
        sampler.set_epoch(epoch)
        for place, sample in enumerate(sampler):
            places[sample, place] += 1
    # The sums of rows and columns are fixed: 11 * 11 degrees of freedom, and the terms are 12/11 too small.
    statistic = ((places - 4000 / 12) ** 2 / (4000 / 12)).sum() * 11 / 12
    assert stats.chi2.sf(statistic, 11 * 11) > 0.01


def test_a_rank_takes_the_memory_of_its_own_part() -> None:
    length = 2**20
    sampler = ShardedSampler(length, num_replicas=64, rank=5, nodes=64, block_size=1000)
    tracemalloc.start()
    try:
        indices = np.fromiter(iter(sampler), np.int64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(indices) == length // 64
    assert peak < 10 * 8 * length // 64 < 2 * length


# ---- the nodes -------------------------------------------------------------------------------------------------------


def test_torchrun_says_which_ranks_share_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    told = [ShardedSampler(99, num_replicas=8, rank=rank, block_size=5) for rank in range(8)]
    assert [sampler.node for sampler in told] == [0] * 4 + [1] * 4
    given = ranks_of(2, 4, 99, block_size=5)
    assert [list(sampler) for sampler in told] == [list(sampler) for sampler in given]


def sampler_of(length: int = 90, **arguments: Any) -> ShardedSampler:
    return ShardedSampler(length, **{"num_replicas": 6, "rank": 1, "block_size": 4, "nodes": 2, **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"block_size": 0}, ValueError, "block_size must be from 1 to"),
        ({"block_size": 2.5}, TypeError, "block_size must be an int, got 2.5 of type float"),
        ({"window_blocks": 0}, ValueError, "window_blocks must be from 1 to"),
        ({"canonical_nodes": 0}, ValueError, "canonical_nodes must be from 1 to"),
        ({"nodes": 0}, ValueError, "nodes must be from 1 to"),
        ({"nodes": "2"}, TypeError, "nodes must be an int, got '2'"),
        ({"nodes": 4}, ValueError, "nodes=4 cannot have equally many of 6 ranks: pass a divisor"),
        (
            {"nodes": 3},
            ValueError,
            "3 nodes cannot .*canonical_nodes=64: take 1 or 2 or 4 or 8 or 16 or 32 or 64 nodes; or .* multiple of 3",
        ),
        ({"canonical_nodes": 36, "nodes": 6, "length": 36}, None, ""),
        (
            {"length": 63},
            ValueError,
            "canonical_nodes=64 needs as many samples, and there are 63: pass .* from 1 to 63",
        ),
        ({"length": 0}, ValueError, "canonical_nodes=64 needs as many samples, and there are 0: pass no block_size"),
        ({"weights": [1] * 90}, ValueError, "block_size=4 makes no sense with weights"),
        ({"infinite": True}, ValueError, "block_size=4 makes no sense with infinite=True"),
        ({"block_size": None}, ValueError, "nodes=2 needs block_size"),
        ({"block_size": None, "nodes": None, "window_blocks": 4}, ValueError, "window_blocks=4 needs block_size"),
        ({"block_size": None, "nodes": None, "canonical_nodes": 4}, ValueError, "canonical_nodes=4 needs block_size"),
        ({"nodes": None}, ValueError, "LOCAL_WORLD_SIZE, which torchrun sets, is not there: pass nodes=.* 6 ranks"),
        ({"nodes": None, "num_replicas": 1, "rank": 0}, None, ""),
    ],
)
def test_invalid_blocks_are_named(
    arguments: dict[str, Any], error: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if error is None:
        assert len(list(sampler_of(**arguments))) > 0
        return
    with pytest.raises(error, match=text):
        sampler_of(**arguments)


def test_ranks_that_torchrun_did_not_start_here_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(
        ValueError, match="6 ranks are not equally many on each node with LOCAL_WORLD_SIZE=4: pass nodes="
    ):
        sampler_of(nodes=None)


# ---- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"block_size": 5}, "block_size of the state is 4, and this sampler's is 5"),
        ({"window_blocks": 3}, "window_blocks of the state is 8, and this sampler's is 3"),
        ({"canonical_nodes": 32}, "canonical_nodes of the state is 64, and this sampler's is 32"),
        ({"block_size": None, "nodes": None}, "block_size of the state is 4, and this sampler's is None"),
    ],
)
def test_a_state_of_other_blocks_is_refused(other: dict[str, Any], text: str) -> None:
    state = sampler_of().state_at(2, 3)
    assert state == {
        "epoch": 0,
        "position": 36,
        "length": 90,
        "seed": 0,
        "block_size": 4,
        "window_blocks": 8,
        "canonical_nodes": 64,
    }
    sampler = sampler_of(**other)
    with pytest.raises(ValueError, match=text):
        sampler.load_state_dict(state)
    with pytest.raises(ValueError, match="of the state is"):
        sampler_of().load_state_dict(sampler.state_dict())
    assert sampler.state_dict()["position"] == 0


def test_repr_shows_the_arguments() -> None:
    assert repr(sampler_of(rank=5)) == (
        "<fastload.ShardedSampler: rank 5 of 6, epochs of 90, seed=0, block_size=4, window_blocks=8, "
        "canonical_nodes=64, node 1 of 2>"
    )
