"""Randomness: the same draws at the same times as torch's loader; user code beside it sees the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from both_loaders import assert_same
from samplers import Counting
from torch.utils.data import BatchSampler, RandomSampler, Sampler


class States:
    """Records the state of both generators each time it is called."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self.generator = generator
        self.found: list[tuple[str, int, int]] = []

    def __call__(self, moment: str) -> None:
        given = 0 if self.generator is None else hash(bytes(self.generator.get_state().numpy()))
        self.found.append((moment, hash(bytes(torch.get_rng_state().numpy())), given))


def states_of_two_epochs(kind: Any, dataset: Any, is_given: bool, is_sampler_given: bool, **arguments: Any) -> Any:
    torch.manual_seed(8)
    generator = torch.Generator().manual_seed(6) if is_given else None
    note = States(generator)
    if is_sampler_given:
        arguments["sampler"] = RandomSampler(dataset, replacement=True, num_samples=70, generator=generator)
    loader = kind(dataset, batch_size=3, generator=generator, **arguments)
    note("constructed")
    for _ in range(2):
        iterator = iter(loader)
        note("iter")
        for _ in iterator:
            note("next")
        note("end")
    next(iter(loader))
    note("dropped")
    next(iter(loader))
    note("dropped again")
    return note.found


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.parametrize("order", ["sequential", "shuffled", "with replacement"])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_generators_are_where_torch_leaves_them_after_every_step(
    dataset: Any, num_workers: int, is_given: bool, order: str, is_persistent: bool
) -> None:
    if is_persistent and num_workers == 0:
        pytest.skip("torch refuses it")
    arguments: dict[str, Any] = {"num_workers": num_workers, "persistent_workers": is_persistent}
    if order == "shuffled":
        arguments["shuffle"] = True
    mine = assert_same(
        lambda kind: states_of_two_epochs(kind, dataset, is_given, order == "with replacement", **arguments)
    )
    assert len({state for _, state, _ in mine}) > 1 or is_given


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("place", ["sampler", "batch_sampler", "inside BatchSampler"])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_samplers_are_asked_as_often_and_as_early_as_torch_asks(
    dataset: Any, num_workers: int, place: str, is_persistent: bool
) -> None:
    if is_persistent and num_workers == 0:
        pytest.skip("torch refuses it")

    def run(kind: Any) -> Any:
        torch.manual_seed(4)
        counting = Counting([[0], [1, 2], [3], [4], [5], [6], [7]] if place == "batch_sampler" else list(range(11)))
        arguments = {
            "sampler": {"sampler": counting, "batch_size": 2},
            "batch_sampler": {"batch_sampler": counting},
            "inside BatchSampler": {"batch_sampler": BatchSampler(counting, 2, True)},
        }[place]
        loader = kind(dataset, num_workers=num_workers, persistent_workers=is_persistent, **arguments)
        note = States(None)
        for _ in range(3):
            counting.log.append("epoch")
            iterator = iter(loader)
            note("iter")
            for _ in iterator:
                counting.log.append("next")
                note("next")
        return counting.log, note.found

    assert_same(run)


class _CountedByIterating(Sampler[list[int]]):
    def __iter__(self) -> Iterator[list[int]]:
        yield from torch.randperm(12).view(4, 3).tolist()

    def __len__(self) -> int:
        return sum(1 for _ in self)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_sampler_that_draws_to_count_is_not_counted_where_torch_does_not(
    num_workers: int, is_persistent: bool
) -> None:
    if is_persistent and num_workers == 0:
        pytest.skip("torch refuses it")

    def numbers(kind: Any) -> Any:
        torch.manual_seed(8)
        arguments = {"num_workers": num_workers, "persistent_workers": is_persistent}
        loader = kind(range(12), batch_sampler=_CountedByIterating(), **arguments)
        found = [next(iter(loader)).tolist() for _ in range(3)]
        return [*found, *(batch.tolist() for batch in loader), torch.rand(1).item()]

    assert_same(numbers)
