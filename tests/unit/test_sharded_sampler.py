"""fastload.ShardedSampler as an object: its arguments, its state, and what a loader takes from it."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from itertools import islice
from typing import Any
from unittest import mock

import pytest
import torch
from index_batches import lower
from torch.utils.data import BatchSampler, DistributedSampler

from fastload import ShardedSampler
from fastload.samplers import _own_batches
from fastload.samplers._sampled import Sampled, begin_pass


def sampler_of(length: Any = 20, **arguments: Any) -> ShardedSampler:
    return ShardedSampler(length, **{"num_replicas": 3, "rank": 1, **arguments})


def lowered(sampler: Any, batch_size: int = 4, *, drop_last: bool = False) -> list[list[int]]:
    batches = lower(BatchSampler(sampler, batch_size, drop_last))
    assert batches.is_own
    return [batch.tolist() for batch in islice(batches, 30)]


CASES: dict[str, dict[str, Any]] = {
    "shuffled": {},
    "in order": {"shuffle": False},
    "cut": {"drop_last": True},
    "by weights": {"weights": range(20), "num_samples": 50},
    "without an end": {"infinite": True},
}


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)
def test_a_loader_takes_its_batches_as_arrays(arguments: dict[str, Any], drop_last: bool) -> None:
    batches = lowered(sampler_of(**arguments), drop_last=drop_last)
    theirs = iter(BatchSampler(sampler_of(**arguments), 4, drop_last))
    assert batches == [batch for batch, _ in zip(theirs, range(30), strict=False)]
    assert batches


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)
def test_the_state_counts_what_a_loader_takes(arguments: dict[str, Any], drop_last: bool) -> None:
    sampler = sampler_of(**arguments)
    sampler.load_state_dict(sampler.state_at(2, 1))
    batches = lower(BatchSampler(sampler, 2, drop_last))
    assert sampler.state_dict() == sampler.state_at(0, 2)
    steps = [sampler.state_dict() == sampler.state_at(step + 1, 2) for step, _ in enumerate(islice(batches, 5))]
    assert len(steps) > 1
    assert all(steps)


def test_an_interrupt_between_a_batch_and_its_count_costs_neither() -> None:
    sampler = sampler_of()
    batches = begin_pass(BatchSampler(sampler, 2, False))
    assert isinstance(batches, _own_batches.OwnBatches)
    given: list[Any] = []
    interrupted = property(mock.Mock(side_effect=KeyboardInterrupt))
    with mock.patch.object(_own_batches.OwnBatches, "num_given", interrupted), pytest.raises(KeyboardInterrupt):
        batches.give(given)
    assert sampler.state_dict() == sampler.state_at(0, 2)
    batches.give(given)
    assert sampler.state_dict() == sampler.state_at(2, 2)
    assert [index for batch in given for index in batch] == list(sampler_of())[:4]


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)
def test_a_loader_begins_where_the_state_says_and_then_anew(arguments: dict[str, Any]) -> None:
    expected = lowered(sampler_of(**arguments))
    sampler = sampler_of(**arguments)
    sampler.load_state_dict(sampler.state_at(1, 4))
    assert lowered(sampler)[:3] == expected[1:4]
    assert lowered(sampler) == expected


def test_a_class_that_derives_from_it_is_asked_itself() -> None:
    class Backwards(ShardedSampler):
        def __iter__(self) -> Any:
            return reversed(list(super().__iter__()))

    batches = begin_pass(BatchSampler(Backwards(4, num_replicas=1, rank=0), 4, False))
    assert isinstance(batches, Sampled)


def test_a_large_epoch_keeps_the_ranks_own_part_alone() -> None:
    sampler = sampler_of(10**6, num_replicas=1000)
    piece = sampler._shards.piece(sampler._begun(), 0, 10)
    assert piece.base is None
    assert piece.nbytes == 8 * 1000


def test_it_is_torchs_sampler_for_frameworks() -> None:
    sampler = sampler_of([5] * 20, drop_last=True, seed=4)
    assert isinstance(sampler, DistributedSampler)
    shown = {
        name: getattr(sampler, name) for name in ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last")
    }
    assert shown == {"dataset": [5] * 20, "num_replicas": 3, "rank": 1, "shuffle": True, "seed": 4, "drop_last": True}
    assert (sampler.epoch, sampler.num_samples, sampler.total_size, len(sampler)) == (0, 6, 18, 6)


def test_ranks_come_from_the_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((ValueError, RuntimeError), match="process group"):
        ShardedSampler(20)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    sampler = ShardedSampler(20)
    assert (sampler.num_replicas, sampler.rank) == (4, 3)


def test_its_repr_shows_its_arguments() -> None:
    assert repr(sampler_of()) == "<fastload.ShardedSampler: rank 1 of 3, epochs of 20, seed=0>"
    texts = [repr(sampler_of(**arguments)) for arguments in CASES.values()]
    assert [text.partition("seed=0")[2] for text in texts] == [
        *(">", ", in order>", ", drop_last>", ", with weights>", ", infinite>")
    ]


def test_the_state_counts_what_was_taken() -> None:
    sampler = sampler_of()
    assert sampler.state_dict() == {"epoch": 0, "position": 0, "length": 20, "seed": 0}
    iterator = iter(sampler)
    assert sampler.state_dict()["position"] == 0
    taken = [next(iterator) for _ in range(5)]
    state = sampler.state_dict()
    assert state == {"epoch": 0, "position": 15, "length": 20, "seed": 0}
    other = sampler_of()
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert [*taken, *other] == list(sampler_of())
    assert other.state_dict()["position"] == 20
    other.set_epoch(1)
    assert other.state_dict() == {"epoch": 1, "position": 0, "length": 20, "seed": 0}


def test_a_second_stop_in_one_epoch_is_counted_from_its_beginning() -> None:
    sampler = sampler_of()
    sampler.load_state_dict(sampler.state_at(2, 1))
    iterator = iter(sampler)
    next(iterator)
    assert sampler.state_dict()["position"] == 9
    assert sampler.state_at(1, 2)["position"] == 12
    sampler.load_state_dict(sampler.state_dict())
    assert list(sampler) == list(sampler_of())[3:]


def test_the_state_is_new_each_time_and_plain() -> None:
    sampler = sampler_of()
    state = sampler.state_dict()
    state["position"] = 7
    assert sampler.state_dict()["position"] == 0
    assert json.loads(json.dumps(sampler.state_dict())) == sampler.state_dict()


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])
def test_a_copy_goes_on_where_the_sampler_would(clone: Any) -> None:
    sampler = sampler_of(weights=range(20))
    sampler.load_state_dict(sampler.state_at(3, 1))
    rest = list(sampler_of(weights=range(20)))[3:]
    assert [list(clone(sampler)), list(sampler)] == [rest, rest]


def test_an_interrupt_at_the_start_of_an_iteration_does_not_lose_the_position() -> None:
    sampler = sampler_of()
    sampler.load_state_dict(sampler.state_at(2, 1))
    begun: list[Any] = []
    assert sampler._begin(begun) == sampler._begin(begun)
    assert begun == [(0, 6)]
    assert sampler._begin([])[1].begun == (0, 0)


def test_the_epoch_of_a_state_stays_until_its_rest_has_begun() -> None:
    sampler = sampler_of()
    sampler.load_state_dict({"epoch": 2, "position": 6, "length": 20, "seed": 0})
    with pytest.warns(UserWarning, match=r"set_epoch\(0\) is ignored: the loaded state is of epoch 2"):
        sampler.set_epoch(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.set_epoch(2)
    whole = sampler_of()
    whole.set_epoch(2)
    assert list(sampler) == list(whole)[2:]
    sampler.set_epoch(0)
    assert list(sampler) == list(sampler_of())


def test_the_epoch_after_a_finished_one_is_followed() -> None:
    sampler, whole = sampler_of(), sampler_of()
    sampler.load_state_dict({"epoch": 2, "position": 20, "length": 20, "seed": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.set_epoch(3)
    whole.set_epoch(3)
    assert list(sampler) == list(whole)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"epoch": -1}, ValueError, "epoch of the state must be from 0 to"),
        ({"epoch": 2**63}, ValueError, "epoch of the state must be from 0 to"),
        ({"epoch": "1"}, TypeError, "epoch of the state must be an int, got '1' of type str"),
        ({"epoch": True}, TypeError, "epoch of the state must be an int, got True"),
        ({"position": 21}, ValueError, "position of the state must be from 0 to 20, got 21"),
        ({"position": 1.5}, TypeError, "position of the state must be an int, got 1.5 of type float"),
        ({"length": 21}, ValueError, "length of the state is 21, and this sampler's is 20"),
        ({"seed": 3}, ValueError, "seed of the state is 3, and this sampler's is 0"),
    ],
)
def test_a_state_of_something_else_changes_nothing(change: dict[str, Any], error: Any, text: str) -> None:
    sampler = sampler_of()
    with pytest.raises(error, match=text):
        sampler.load_state_dict({"epoch": 1, "position": 3, "length": 20, "seed": 0, **change})
    assert sampler.state_dict() == {"epoch": 0, "position": 0, "length": 20, "seed": 0}
    assert list(sampler) == list(sampler_of())


def test_something_that_is_not_a_state_is_refused() -> None:
    with pytest.raises(TypeError, match="the state of a sampler must be a dict, got list"):
        sampler_of().load_state_dict([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the state has no 'position'"):
        sampler_of().load_state_dict({"epoch": 0})


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"length": -1}, ValueError, "dataset_or_length must be from 0 to"),
        ({"length": 2.5}, TypeError, "dataset_or_length must be a data set with a length or an int, got float"),
        ({"num_replicas": 0}, ValueError, "num_replicas must be from 1 to"),
        ({"rank": -1}, ValueError, "rank must be from 0 to"),
        ({"rank": 3}, ValueError, "rank 3"),
        ({"shuffle": 1}, TypeError, "shuffle must be True or False, got 1"),
        ({"seed": -1}, ValueError, "seed must be from 0 to"),
        ({"seed": 2**63}, ValueError, "seed must be from 0 to"),
        ({"seed": 0.5}, TypeError, "seed must be an int, got 0.5 of type float"),
        ({"num_samples": 5}, ValueError, "num_samples=5 needs weights"),
        ({"weights": [1] * 20, "num_samples": 0}, ValueError, "num_samples must be from 1 to"),
        ({"weights": [1] * 19}, ValueError, r"one number for each of 20 samples, got shape \(19,\)"),
        ({"weights": [1] * 19 + [-2]}, ValueError, "finite and not negative, got -2.0 for sample 19"),
        ({"weights": [float("nan")] * 20}, ValueError, "finite and not negative, got nan for sample 0"),
        ({"weights": [0] * 20}, ValueError, "positive, finite sum, got 0.0 of 20 samples"),
        ({"weights": [1e308] * 20}, ValueError, "positive, finite sum, got inf of 20 samples"),
        ({"weights": [1] * 20, "shuffle": False}, ValueError, "shuffle=False makes no sense with weights"),
        ({"infinite": True, "drop_last": True}, ValueError, "drop_last=True makes no sense with infinite=True"),
        ({"infinite": True, "length": 0}, ValueError, "infinite=True needs at least one sample"),
    ],
)
def test_invalid_arguments_are_named(arguments: dict[str, Any], error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        sampler_of(**arguments)


@pytest.mark.parametrize("epoch", [-1, 2**63, 0.5, None])
def test_an_invalid_epoch_is_named(epoch: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="epoch must be"):
        sampler_of().set_epoch(epoch)


def test_an_infinite_sampler_has_no_length() -> None:
    sampler = sampler_of(infinite=True)
    for ask in (len, lambda sampler: sampler.num_real):
        with pytest.raises(TypeError, match="infinite=True has no length"):
            ask(sampler)
    assert sampler.real_in(1000, 4) == 4
    with pytest.raises(ValueError, match="position of the state must be from 0 to 19"):
        sampler.load_state_dict({"epoch": 0, "position": 20, "length": 20, "seed": 0})


def test_a_data_set_whose_length_has_changed_is_noticed() -> None:
    data = [0] * 5
    sampler = sampler_of(data)
    data.append(0)
    with pytest.raises(ValueError, match="the data set has 6 samples, and had 5 when this sampler was made"):
        list(sampler)


@pytest.mark.parametrize("num_replicas", [1, 2, 3, 7])
def test_real_samples_are_known_batch_by_batch(num_replicas: int) -> None:
    for length in range(1, 25):
        for batch_size in (1, 2, 5):
            found = []
            for rank in range(num_replicas):
                sampler = sampler_of(length, num_replicas=num_replicas, rank=rank)
                for step, batch in enumerate(BatchSampler(sampler, batch_size, False)):
                    found += batch[: sampler.real_in(step, batch_size)]
            assert sorted(found) == list(range(length))


def test_steps_are_counted_in_the_epoch_after_a_state_too() -> None:
    whole, rest = sampler_of(), sampler_of()
    rest.load_state_dict(whole.state_at(2, 2))
    assert [rest.real_in(step, 2) for step in (2, 3)] == [whole.real_in(step, 2) for step in (2, 3)] == [2, 1]
    for step, batch_size in ((1, 2), (4, 2), (0, 5)):
        with pytest.raises(ValueError, match=f"step {step} with batch_size={batch_size} on 3 ranks is no batch"):
            rest.real_in(step, batch_size)
