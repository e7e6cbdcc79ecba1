"""set_epoch() after iter() and before the first batch, as frameworks call it: the iteration has that epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recipes
from python_runs import AddDraws, Draws
from resumed_runs import NUM_IMAGES, batch_of, seed_program
from torch.utils.data import DistributedSampler
from torchvision.datasets import ImageFolder

import fastload

BATCH_SIZE = 4
DATASETS: dict[str, Callable[[Path], Any]] = {
    "native": lambda folder: ImageFolder(str(folder), recipes.training(32)),
    "native, no draws": lambda folder: ImageFolder(str(folder), recipes.evaluation(40, 32)),
    "tail": lambda folder: ImageFolder(str(folder), recipes.transforms.Compose([recipes.training(24), AddDraws()])),
    "python": lambda _: Draws(),
}


class DerivedSampler(fastload.ShardedSampler):
    """A sampler whose indices a loader requests one by one."""


def sharded() -> Any:
    return fastload.ShardedSampler(NUM_IMAGES, num_replicas=2, rank=1, seed=3)


def derived() -> Any:
    return DerivedSampler(NUM_IMAGES, num_replicas=2, rank=1, seed=3)


def weighted() -> Any:
    return fastload.ShardedSampler(NUM_IMAGES, num_replicas=2, rank=1, seed=3, weights=range(NUM_IMAGES))


SAMPLERS = {"sharded": sharded, "derived": derived, "weighted": weighted}


def loader_of(dataset: Any, sampler: Any, num_workers: int, rng: str = "sample", **arguments: Any) -> Any:
    arguments = {"rng": rng, "seed": 7 if rng == "sample" else None, **arguments}
    if num_workers == 0:
        arguments["persistent_workers"] = False
    return fastload.DataLoader(dataset, BATCH_SIZE, sampler=sampler, num_workers=num_workers, **arguments)


def taken(iterator: Any) -> list[Any]:
    return [batch_of(*batch) for batch in iterator]


@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_an_epoch_set_after_iter_applies_to_the_iteration(
    dataset: str, sampler: str, num_workers: int, persistent: bool, rng: str, folder: Path
) -> None:
    def epochs(*, is_late: bool) -> tuple[list[Any], int]:
        """Returns a run that begins with epoch 4, goes on with 5, and leaves out 6."""
        seed_program(5)
        loader = loader_of(
            DATASETS[dataset](folder), SAMPLERS[sampler](), num_workers, rng, persistent_workers=persistent
        )
        found = []
        for epoch in (4, 5, 7):
            iterator = iter(loader) if is_late else None
            loader.sampler.set_epoch(epoch)
            iterator = iterator or iter(loader)
            found.append(taken(iterator))
        return found, loader.epoch

    expected = epochs(is_late=False)
    assert expected[1] == (8 if rng == "sample" else 3)
    assert epochs(is_late=True) == expected


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("order", ["in order", "shuffle", "sharded", "distributed"])
@pytest.mark.parametrize("dataset", DATASETS)
def test_the_loaders_own_set_epoch_counts_as_well(dataset: str, order: str, num_workers: int, folder: Path) -> None:
    def make() -> Any:
        arguments: dict[str, Any] = {"shuffle": True} if order == "shuffle" else {}
        if order in ("sharded", "distributed"):
            arguments["sampler"] = (
                sharded() if order == "sharded" else DistributedSampler(range(NUM_IMAGES), 2, 1, seed=3)  # type: ignore[arg-type]
            )
        return fastload.DataLoader(
            DATASETS[dataset](folder), BATCH_SIZE, num_workers=num_workers, rng="sample", seed=7, **arguments
        )

    def epochs(loader: Any, *, is_late: bool) -> list[Any]:
        found = []
        for epoch in (3, 1):
            iterator = iter(loader) if is_late else None
            loader.set_epoch(epoch)
            iterator = iterator or iter(loader)
            found.append(taken(iterator))
            assert loader.epoch == epoch + 1
        return found

    loader = make()
    expected = epochs(make(), is_late=False)
    assert epochs(loader, is_late=True) == expected
    if dataset != "python":
        assert expected[0] != expected[1] or dataset == "native, no draws"


@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("dataset", ["native", "python"])
def test_an_epoch_set_after_the_first_batch_applies_to_the_next_one(
    dataset: str, num_workers: int, rng: str, folder: Path
) -> None:
    def run(*, sets: bool) -> tuple[list[Any], list[Any]]:
        seed_program(5)
        loader = loader_of(DATASETS[dataset](folder), sharded(), num_workers, rng)
        iterator = iter(loader)
        first = [batch_of(*next(iterator))]
        if sets:
            loader.sampler.set_epoch(2)
            if rng == "sample":
                loader.set_epoch(2)
        first += taken(iterator)
        loader.sampler.set_epoch(2)
        return first, taken(loader)

    assert run(sets=True) == run(sets=False)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("dataset", ["native", "tail", "python"])
def test_a_state_after_iter_has_the_epoch_that_was_set(dataset: str, num_workers: int, folder: Path) -> None:
    def make() -> Any:
        return loader_of(DATASETS[dataset](folder), sharded(), num_workers)

    loader = make()
    iterator = iter(loader)
    loader.sampler.set_epoch(3)
    state = loader.state_dict()
    assert (state["fastload"]["epoch"], state["fastload"]["sampler"]["state"]["epoch"]) == (3, 3)
    loader.sampler.set_epoch(4)  # once more
    expected = taken(iterator)
    for given, epoch in ((state, 3), (loader.state_dict(), 5)):
        again = make()
        again.load_state_dict(given)
        other = make()
        other.sampler.set_epoch(epoch)
        if epoch == 5:
            again.sampler.set_epoch(epoch)
        assert taken(again) == taken(other) != expected


@pytest.mark.filterwarnings("ignore:set_epoch")  # without workers the sampler has not begun yet, and says so
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("dataset", ["native", "python"])
def test_the_epoch_of_a_state_that_was_loaded_stays(dataset: str, num_workers: int, folder: Path) -> None:
    loader = loader_of(DATASETS[dataset](folder), sharded(), num_workers)
    loader.sampler.set_epoch(2)
    iterator = iter(loader)
    next(iterator)
    state, rest = loader.state_dict(), taken(iterator)
    again = loader_of(DATASETS[dataset](folder), sharded(), num_workers)
    again.load_state_dict(state)
    iterator = iter(again)
    again.sampler.set_epoch(6)
    again.set_epoch(6)
    assert taken(iterator) == rest
    again.sampler.set_epoch(6)
    other = loader_of(DATASETS[dataset](folder), sharded(), num_workers)
    other.sampler.set_epoch(6)
    assert taken(again) == taken(other)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_two_iterations_that_are_begun_at_once_keep_their_epochs(num_workers: int, folder: Path) -> None:
    loader = fastload.DataLoader(
        DATASETS["native"](folder), BATCH_SIZE, shuffle=True, num_workers=num_workers, rng="sample", seed=7
    )
    one_after_the_other = [taken(loader) for _ in range(2)]
    loader.set_epoch(0)
    first, second = iter(loader), iter(loader)
    assert taken(second) == one_after_the_other[1]
    assert taken(first) == one_after_the_other[0]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("dataset", ["native", "python"])
def test_after_a_state_of_an_epochs_end_the_next_epoch_is_set_likewise(
    dataset: str, num_workers: int, folder: Path
) -> None:
    def loader() -> Any:
        sampler = DistributedSampler(range(NUM_IMAGES), 2, 1, seed=3)  # type: ignore[arg-type]
        return loader_of(DATASETS[dataset](folder), sampler, num_workers)

    whole = loader()
    taken(whole)
    state = whole.state_dict()
    whole.sampler.set_epoch(1)
    expected = taken(whole)
    resumed = loader()
    resumed.load_state_dict(state)
    iterator = iter(resumed)
    resumed.sampler.set_epoch(1)
    assert taken(iterator) == expected
    assert resumed.epoch == 2
