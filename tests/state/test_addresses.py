"""at() and replay(): any batch and any sample of any epoch as it was, without touching anything else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from resumed_runs import NUM_IMAGES, batch_of, epochs_of, program_bytes, seed_program, seeded, set_epoch
from torch.utils.data import DistributedSampler, SequentialSampler
from torchvision.datasets import ImageFolder

import fastload

BATCH_SIZE = 3

SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda dataset: None,
    "sequential": SequentialSampler,
    "a list": lambda dataset: list(range(NUM_IMAGES))[::-1],
    "distributed": lambda dataset: DistributedSampler(dataset, num_replicas=2, rank=1, seed=6),
    "sharded": lambda dataset: fastload.ShardedSampler(dataset, num_replicas=2, rank=1, seed=6),
    "weighted": lambda dataset: fastload.ShardedSampler(
        dataset, num_replicas=1, rank=0, weights=[1.0 + number % 5 for number in range(NUM_IMAGES)]
    ),
}


def seeded_loader(root: Path, sampler: str = "sharded", transform: Any = None, **arguments: Any) -> Any:
    dataset = ImageFolder(str(root), transform or recipes.training(32))
    arguments = {"rng": "sample", "seed": 7, **arguments}
    order = {"shuffle": True} if sampler == "shuffle" else {"sampler": SAMPLERS[sampler](dataset)}
    return fastload.DataLoader(dataset, BATCH_SIZE, **order, **arguments)


def given(batches: Any) -> list[tuple[Any, Any]]:
    iterator = iter(batches)
    return [(batch_of(*batch), iterator.batch_report()) for batch in iterator]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("sampler", ["shuffle", *SAMPLERS])
def test_batches_of_an_epoch_are_those_it_has(sampler: str, num_workers: int, folder: Path) -> None:
    loader = seeded_loader(folder, sampler, num_workers=num_workers)
    epochs = epochs_of(loader)
    before = program_bytes()
    for epoch in (2, 0, 1):
        length = len(loader)
        for step, stop in ((0, None), (1, 3), (length - 1, None), (length, None), (2, 2)):
            expected = epochs[epoch][step:stop]
            batches = loader.at(epoch, step, stop)
            assert len(batches) == len(expected)
            assert given(batches) == expected
            assert given(batches) == expected, "once more"
    assert program_bytes() == before


def test_the_loader_stays_where_it_is(folder: Path) -> None:
    loader = seeded_loader(folder, num_workers=2)
    epochs = epochs_of(loader)
    set_epoch(loader, 1)
    loader.set_epoch(1)
    iterator = iter(loader)
    first = [batch_of(*next(iterator))]
    one, other = iter(loader.at(2, 0)), iter(loader.at(0, 1))
    mixed = [(batch_of(*next(one)), batch_of(*next(other)), batch_of(*next(iterator))) for _ in range(2)]
    assert [batches[0] for batches in mixed] == [batch for batch, _ in epochs[2][:2]]
    assert [batches[1] for batches in mixed] == [batch for batch, _ in epochs[0][1:3]]
    own = [*first, *(batches[2] for batches in mixed), *(batch_of(*batch) for batch in iterator)]
    assert own == [batch for batch, _ in epochs[1]]
    assert (loader.epoch, loader.sampler.epoch) == (2, 1)


def test_no_other_file_is_opened(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "few"
    shutil.copytree(folder, root)
    loader = seeded_loader(root, num_workers=2)
    batch, report = epochs_of(loader)[2][2]
    kept = {entry.path for entry in report}
    for path, _ in loader.dataset.samples:
        if path not in kept:
            Path(path).unlink()
    assert given(loader.at(2, 2, 3)) == [(batch, report)]
    for entry in report:
        assert loader.replay(entry.index, 2)[1] == entry
    with pytest.raises(fastload.SampleError):
        next(iter(loader.at(2, 1)))


@pytest.mark.parametrize("sampler", ["shuffle", "sharded", "in order"])
def test_every_sample_is_that_of_its_batch(sampler: str, folder: Path) -> None:
    loader = seeded_loader(folder, sampler, num_workers=1)
    for epoch in range(2):
        set_epoch(loader, epoch)
        iterator = iter(loader)
        before = program_bytes()
        for images, labels in iterator:
            for image, label, report in zip(images, labels, iterator.batch_report(), strict=True):
                sample, made = loader.replay(report.index, epoch)
                assert made == report
                assert torch.equal(sample[0], image)
                assert type(sample[1]) is int
                assert sample[1] == label
        assert program_bytes() == before


@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("order", ["shuffle", "sharded", "in order"])
def test_every_sample_after_a_state_equals_that_of_its_batch(
    order: str, num_workers: int, rng: str, folder: Path
) -> None:
    loader = seeded_loader(folder, order, rng=rng, seed=None, num_workers=num_workers)
    list(loader)
    set_epoch(loader, 1)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    before = program_bytes()
    for images, labels in iterator:
        for image, label, report in zip(images, labels, iterator.batch_report(), strict=True):
            sample, made = loader.replay(report.index, state=state)
            assert made == report
            assert torch.equal(sample[0], image)
            assert sample[1] == label
    assert program_bytes() == before


@pytest.mark.filterwarnings("ignore:num_workers=0")
def test_without_workers_a_sample_is_drawn_from_the_programs_generator_now(folder: Path) -> None:
    loader = seeded_loader(folder, "in order", rng="torch", seed=None)
    iterator = iter(loader)
    state, before = loader.state_dict(), program_bytes()
    sample, _ = loader.replay(7, state=state)
    assert program_bytes() == before
    assert torch.equal(sample[0], list(iterator)[2][0][1])


def test_a_sample_that_no_batch_was_made_of_is_refused(faulty_folder: Path) -> None:
    loader = seeded_loader(faulty_folder, "in order", rng="torch", seed=None, num_workers=2)
    iterator = iter(loader)
    state = loader.state_dict()
    first, _ = next(iterator)
    assert torch.equal(loader.replay(2, state=state)[0][0], first[2])
    with pytest.raises(ValueError, match=r"sample 5 is not made in epoch 0: '.*' in batch 1 cannot be loaded"):
        loader.replay(5, state=state)
    with pytest.raises(fastload.SampleError, match="sample 4"):
        loader.replay(4, state=state)
    with pytest.raises(ValueError, match=r"sample 2 is not in epoch 0 from batch 1 on.*earlier state"):
        loader.replay(2, state=loader.state_dict())


def test_every_view_of_a_sample_is_given(folder: Path) -> None:
    views = fastload.MultiView([recipes.training(32), recipes.training(24)])
    loader = seeded_loader(folder, "in order", views)
    set_of_views, _ = next(iter(loader))
    (views_of_one, label), report = loader.replay(2, 0)
    assert [torch.equal(view, batch[2]) for view, batch in zip(views_of_one, set_of_views, strict=True)] == [True, True]
    assert (label, len(report.views)) == (0, 2)


@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("order", ["shuffle", "generator", "distributed", "sharded", "in order"])
def test_batches_after_a_state_are_those_of_its_epoch(order: str, rng: str, folder: Path) -> None:
    dataset = ImageFolder(str(folder), recipes.training(32))
    arguments: dict[str, Any] = {
        "shuffle": lambda: {"shuffle": True},
        "generator": lambda: {"shuffle": True, "generator": seeded()},
    }.get(order, lambda: {"sampler": SAMPLERS[order](dataset)})()
    seed_program(3)
    loader = fastload.DataLoader(dataset, BATCH_SIZE, num_workers=2, rng=rng, **arguments)
    list(loader)
    set_epoch(loader, 1)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    rest = given(iterator)
    before, own = program_bytes(), None if loader.generator is None else loader.generator.get_state().tolist()
    length = len(loader)
    for step, stop in ((None, None), (1, 3), (length - 1, None), (length, None)):
        batches = loader.at(state=state, step=step, stop=stop)
        expected = rest[(1 if step is None else step) - 1 : None if stop is None else stop - 1]
        assert given(batches) == expected
        assert len(batches) == len(expected)
    assert loader.epoch == 2
    assert program_bytes() == before
    assert own == (None if loader.generator is None else loader.generator.get_state().tolist())


@pytest.mark.parametrize("by_state", [False, True])
def test_a_batch_that_fails_counts(by_state: bool, faulty_folder: Path) -> None:
    loader = seeded_loader(faulty_folder, "in order", num_workers=1)
    iterator = iter(loader)
    state = loader.state_dict() if by_state else None
    outcomes = [outcome_of(iterator) for _ in range(len(loader))]
    assert outcomes.count("SampleError") == 4
    for step, stop in ((0, 4), (2, 6), (5, None)):
        part = iter(loader.at(state=state, step=step, stop=stop) if by_state else loader.at(0, step, stop))
        expected = outcomes[step:stop]
        assert [outcome_of(part) for _ in expected] == expected
        assert next(part, None) is None


def outcome_of(iterator: Any) -> Any:
    try:
        return batch_of(*next(iterator))
    except fastload.SampleError:
        return "SampleError"


def test_what_draws_nothing_needs_no_seed(folder: Path) -> None:
    loader = seeded_loader(folder, "in order", recipes.evaluation(40, 32), rng="torch", seed=None)
    batches = [batch for batch, _ in given(loader)]
    assert [batch for batch, _ in given(loader.at(5, 2))] == batches[2:]


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "torch's draws": (
        lambda loader, other: other.at(0),
        r"epoch 0 cannot be made again.*rng='sample' and seed=.*state=",
    ),
    "of a sample": (lambda loader, other: other.replay(1, 0), r"sample 1 of epoch 0 cannot.*rng='sample' and seed="),
    "its order": (
        lambda loader, other: shuffled(other).at(0),
        r"a RandomSampler draws the order.*ShardedSampler.*state=",
    ),
    "neither": (lambda loader, other: loader.at(), "an epoch or a state"),
    "no epoch of a sample": (lambda loader, other: loader.replay(1), r"replay\(\) takes either an epoch or a state"),
    "both": (lambda loader, other: loader.at(0, state={}), "an epoch or a state"),
    "negative epoch": (lambda loader, other: loader.at(-1), r"epoch must be an int in \[0, 2\*\*63\), got -1"),
    "epoch of a sample": (lambda loader, other: loader.replay(0, True), "epoch must be an int"),
    "a float": (lambda loader, other: loader.at(0, 1.0), "step must be an int, got 1.0"),
    "too far": (lambda loader, other: loader.at(0, 3, 99), r"step <= stop <= \d+.*got step=3 and stop=99"),
    "backwards": (lambda loader, other: loader.at(0, 3, 2), "got step=3 and stop=2"),
    "no such sample": (
        lambda loader, other: loader.replay(NUM_IMAGES, 0),
        rf"index must be an int in \[0, {NUM_IMAGES}\)",
    ),
    "before the state": (lambda loader, other: behind_two(loader).at(0, state=None, step=-1), "got step=-1"),
    "not native": (lambda loader, other: in_python(loader).at(0), r"explain\(\)"),
}


def shuffled(loader: Any) -> Any:
    sampler = torch.utils.data.RandomSampler(loader.dataset)
    return fastload.DataLoader(loader.dataset, BATCH_SIZE, sampler=sampler, rng="sample", seed=1)


def behind_two(loader: Any) -> Any:
    iterator = iter(loader)
    next(iterator), next(iterator)
    state = loader.state_dict()
    with pytest.raises(ValueError, match="2 <= step <= stop"):
        loader.at(state=state, step=1)
    return loader


def in_python(loader: Any) -> Any:
    return fastload.DataLoader(list(range(9)), BATCH_SIZE, rng="sample", seed=1)


@pytest.mark.parametrize("name", REFUSED)
def test_an_address_that_is_not_known_is_refused_with_what_would_make_it_known(name: str, folder: Path) -> None:
    call, text = REFUSED[name]
    loader = seeded_loader(folder, num_workers=1)
    other = seeded_loader(folder, "in order", rng="torch", seed=None)
    with pytest.raises(ValueError, match=text):
        call(loader, other)


def test_a_state_of_another_loader_is_refused(folder: Path) -> None:
    loader = seeded_loader(folder, num_workers=1)
    next(iter(loader))
    with pytest.raises(fastload.StateError, match=r"fastload\.seed"):
        seeded_loader(folder, seed=8).at(state=loader.state_dict())
