"""Data sets with __getitem__ that report their position resume there, in each worker's own copy."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any

import pytest
import resumed_runs
import torch
from both_loaders import Threads
from python_runs import drawn
from stream_runs import STOPS, StreamCase, resume_stream, run_stream
from torch.utils.data import Dataset

import fastload


class Remembers(Dataset[Any]):
    """A sample depends on its worker's earlier ones; its state is live."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __len__(self) -> int:
        return 25

    def __getitem__(self, index: int) -> Any:
        self.seen.append(index)
        if index % 11 == 5:
            raise KeyError(index)
        numbers = torch.tensor([len(self.seen), sum(self.seen[-5:])], dtype=torch.float64)
        return torch.cat([drawn(), numbers]), index

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def remembering(num_workers: int, persistent_workers: bool, every: int, rng: str, sampler: str) -> Any:
    dataset = Remembers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fastload.DataLoader(
            dataset,
            num_workers=num_workers,
            persistent_workers=persistent_workers,
            snapshot_every_n_steps=every,
            rng=rng,
            **resumed_runs.SAMPLERS[sampler](dataset),
        )


MAP_AXES: tuple[tuple[Any, ...], ...] = (
    (1, 2, 3),
    (False, True),
    (1, 2, 5, 0),
    ("torch", "sample"),
    ("sequential", "random", "random with generator", "own batches", "draws when asked", "stateful"),
    STOPS,
)


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_a_data_set_that_tells_goes_on(num_workers: int, part: int) -> None:
    product = [case for case in itertools.product(*MAP_AXES) if case[0] == num_workers]
    for *settings, stop in random.Random(num_workers).sample(product, 40)[part::5]:
        assert_remembered(settings, stop)


def assert_remembered(settings: list[Any], stop: Any) -> None:
    def make() -> Any:
        return remembering(*settings)

    case = StreamCase(stop=stop)
    stopped = run_stream(make(), case)
    found = resume_stream(make(), stopped)
    assert found == stopped.rest, (settings, stop)


def test_without_workers_a_data_set_that_tells_goes_on() -> None:
    for sampler, stop in itertools.product(("sequential", "random", "own batches"), STOPS):
        assert_remembered([0, False, 1, "torch", sampler], stop)


def test_a_data_sets_state_is_requested_after_the_batches_at_which_a_saved_state_starts() -> None:
    numbers: list[int] = []

    class Noted(Remembers):
        def __getitem__(self, index: int) -> Any:
            self.seen.append(index)
            return index

        def state_dict(self) -> dict[str, Any]:
            numbers.append(len(self.seen))
            return super().state_dict()

    loader = Threads(Noted(), batch_size=1, num_workers=1, snapshot_every_n_steps=10)
    list(loader)
    assert numbers == [0, 10, 20]
    loader = Threads(Noted(), batch_size=1, num_workers=1, snapshot_every_n_steps=10)
    iterator = iter(loader)
    for _ in range(13):
        next(iterator)
    state = loader.state_dict()
    assert (state["_snapshot"]["_snapshot_step"], state["_steps_since_snapshot"]) == (10, 3)
    assert state["_snapshot"]["_worker_snapshots"]["worker_0"]["dataset_state"] == {"seen": list(range(10))}
