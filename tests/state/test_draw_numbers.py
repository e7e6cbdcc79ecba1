"""With rng="sample" two draws of one sample in an epoch are two images; a sample that comes once keeps its draws."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
from image_folders import make_clean_folder
from torch.utils.data import DistributedSampler, RandomSampler, WeightedRandomSampler

import fastload
from fastload.samplers import _own_batches
from fastload.samplers._draw_numbers import DrawNumbers, NumberedBatches

NUM_IMAGES = 9
BATCH_SIZE = 4
WEIGHTS = [0.5, 3.0, 0.0, 1.0, 0.25, 2.0, 0.1, 0.0, 1.5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clean_folder(tmp_path_factory.mktemp("few"), NUM_IMAGES)


class AddDraw:
    """A user's transform."""

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image + torch.rand(())


class Draws:
    """Samples of one number from each of the three generators."""

    def __len__(self) -> int:
        return NUM_IMAGES

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([torch.rand(()).item(), random.random(), np.random.rand()], dtype=torch.float64), index


class DrawsBatches(Draws):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def failing(index: int) -> bool:
    return index in (1, 5)


class DrawsOrFails(Draws):
    def __getitem__(self, index: int) -> Any:
        if failing(index):
            raise ValueError("no sample")
        return super().__getitem__(index)


DATASETS: dict[str, Callable[[Path], Any]] = {
    "native": lambda folder: recipes.numbered_images(folder, recipes.training(32)),
    "tail": lambda folder: recipes.numbered_images(
        folder, recipes.transforms.Compose([*recipes.training(32).transforms, AddDraw()])
    ),
    "python": lambda _: Draws(),
    "batches": lambda _: DrawsBatches(),
}


class DerivedSampler(fastload.ShardedSampler):
    """A sampler whose indices a loader requests one by one."""


WITH_REPEATS: dict[str, Callable[[], Any]] = {
    "weights": lambda: fastload.ShardedSampler(
        NUM_IMAGES, num_replicas=1, rank=0, weights=WEIGHTS, num_samples=42, seed=2
    ),
    "derived": lambda: DerivedSampler(NUM_IMAGES, num_replicas=2, rank=1, weights=WEIGHTS, num_samples=84, seed=2),
    "infinite": lambda: fastload.ShardedSampler(NUM_IMAGES, num_replicas=1, rank=0, infinite=True, seed=2),
    "torch's weights": lambda: WeightedRandomSampler(WEIGHTS, 42, generator=seeded()),
    "replacement": lambda: RandomSampler(range(NUM_IMAGES), True, 42, seeded()),
    "more than all": lambda: RandomSampler(range(NUM_IMAGES), False, 42, seeded()),
}
WITHOUT: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": dict,
    "shuffle": lambda: {"shuffle": True},
    "sharded, padded": lambda: {"sampler": fastload.ShardedSampler(NUM_IMAGES, num_replicas=4, rank=3, seed=2)},
    "distributed, padded": lambda: {"sampler": DistributedSampler(range(NUM_IMAGES), 4, 3, seed=2)},  # type: ignore[arg-type]
    "an own sampler": lambda: {"sampler": [3, 3, 8, 3]},
}


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(8)


def loader_of(dataset: Any, sampler: Any = None, **arguments: Any) -> Any:
    return fastload.DataLoader(
        dataset, **{"batch_size": BATCH_SIZE, "sampler": sampler, "rng": "sample", "seed": 7, **arguments}
    )


def samples_of(batches: Any, count: int = 42) -> list[tuple[int, bytes]]:
    """Returns (index, bytes) of the first samples, in order."""
    found: list[tuple[int, bytes]] = []
    for images, labels in batches:
        found += [
            (int(label), image.contiguous().numpy().tobytes()) for image, label in zip(images, labels, strict=True)
        ]
        if len(found) >= count:
            break
    return found[:count]


# ---- samples that come once in an epoch ------------------------------------------------------------------------------

GOLDEN = {
    ("native", "in order"): "678b05711c8cb8d9",
    ("native", "shuffle"): "3591fc04a4ae9b92",
    ("native", "sharded, padded"): "a699d8cbaeacc975",
    ("native", "distributed, padded"): "a699d8cbaeacc975",
    ("native", "an own sampler"): "4957424f1905e06b",
    ("python", "in order"): "8c21ec034b161d4a",
    ("python", "shuffle"): "089461f0929fcf4c",
    ("python", "sharded, padded"): "93cd4b5bc557be03",
    ("python", "distributed, padded"): "93cd4b5bc557be03",
    ("python", "an own sampler"): "b6522a5728310b23",
    ("batches", "in order"): "863e620e8b0927a6",
    ("batches", "shuffle"): "e650f95cf0f538a5",
    ("batches", "sharded, padded"): "c40db03e33fbecff",
    ("batches", "distributed, padded"): "c40db03e33fbecff",
    ("batches", "an own sampler"): "40aa408f4fbaf624",
}


@pytest.mark.parametrize("order", WITHOUT)
@pytest.mark.parametrize("dataset", ["native", "python", "batches"])
def test_samplers_without_repeats_keep_their_draws(dataset: str, order: str, folder: Path) -> None:
    """Compares with digests from before draws had numbers."""
    loader = loader_of(DATASETS[dataset](folder), num_workers=2, **WITHOUT[order]())
    loader.set_epoch(3)
    iterator = iter(loader)
    found: list[Any] = []
    for images, labels in iterator:
        found.append(labels.tolist())
        if dataset == "native":
            found += [[step[:5] for step in report.steps] for report in iterator.batch_report()]
        else:
            found += images.tolist()
    digest = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
    assert digest == GOLDEN[dataset, order]


# ---- samples that may come several times -----------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("sampler", WITH_REPEATS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_two_draws_of_one_sample_are_two_samples(dataset: str, sampler: str, num_workers: int, folder: Path) -> None:
    found = samples_of(loader_of(DATASETS[dataset](folder), WITH_REPEATS[sampler](), num_workers=num_workers))
    assert len({index for index, _ in found}) <= NUM_IMAGES < len(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("sampler", WITH_REPEATS)
@pytest.mark.parametrize("dataset", ["native", "tail", "python"])
def test_a_draw_depends_on_its_place_in_the_epoch_alone(dataset: str, sampler: str, folder: Path) -> None:
    def line(batch_size: int | None, num_workers: int) -> list[tuple[int, bytes]]:
        data = DATASETS[dataset](folder)
        loader = loader_of(data, WITH_REPEATS[sampler](), batch_size=batch_size, num_workers=num_workers)
        return samples_of(loader if batch_size else ((image[None], [label]) for image, label in loader))

    expected = line(4, 2)
    assert line(5, 0) == expected
    assert line(1, 3) == expected
    assert line(None, 2) == expected


def test_a_draw_has_its_number_also_where_torch_draws_in_a_way_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = samples_of(loader_of(DATASETS["native"](folder), WITH_REPEATS["more than all"]()))
    monkeypatch.setattr(_own_batches, "_draws_as_this_torch", lambda: False)
    loader = loader_of(DATASETS["native"](folder), WITH_REPEATS["more than all"](), num_workers=2)
    assert samples_of(loader) == expected


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("dataset", ["native", "python"])
def test_a_draw_is_the_same_whichever_rank_gets_it(dataset: str, infinite: bool, folder: Path) -> None:
    def ranks(num_replicas: int, state: Any = None, **of_loader: Any) -> list[tuple[int, bytes]]:
        """Returns the samples of all ranks in turn."""
        lists = []
        for rank in range(num_replicas):
            sampler = fastload.ShardedSampler(
                NUM_IMAGES, num_replicas=num_replicas, rank=rank, weights=WEIGHTS, num_samples=30, infinite=infinite
            )
            loader = loader_of(DATASETS[dataset](folder), sampler, num_workers=1, **of_loader)
            if state is not None:
                loader.load_state_dict(state, strict=False)
            lists.append(samples_of(loader, 60 // num_replicas))
        return [sample for round_ in zip(*lists, strict=True) for sample in round_]

    num_samples = 60 if infinite else 30
    expected = ranks(1)[:num_samples]
    assert len(set(expected)) == len(expected)
    assert ranks(3)[:num_samples] == expected
    sampler = fastload.ShardedSampler(
        NUM_IMAGES, num_replicas=2, rank=1, weights=WEIGHTS, num_samples=30, infinite=infinite
    )
    loader = loader_of(DATASETS[dataset](folder), sampler, num_workers=1)
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.warns(UserWarning, match="samples of a batch: the state has 8, and this loader has 12"):
        rest = ranks(3, loader.state_dict())
    assert rest[: num_samples - 16] == expected[16:][: len(rest)]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("sampler", WITH_REPEATS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_a_loader_that_goes_on_gives_the_draws_that_are_left(
    dataset: str, sampler: str, num_workers: int, folder: Path
) -> None:
    def make() -> Any:
        return loader_of(DATASETS[dataset](folder), WITH_REPEATS[sampler](), num_workers=num_workers)

    torch.manual_seed(5)
    loader = make()
    expected = samples_of(loader, 40)
    torch.manual_seed(5)
    loader = make()
    iterator = iter(loader)
    for stop in range(1, 5):
        next(iterator)
        again = make()
        again.load_state_dict(loader.state_dict())
        assert samples_of(again, 40 - BATCH_SIZE * stop) == expected[BATCH_SIZE * stop :], stop


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_index_that_is_none_moves_no_number(num_workers: int, folder: Path) -> None:
    sampler = RandomSampler(range(NUM_IMAGES + 3), True, 42, seeded())
    indices = list(RandomSampler(range(NUM_IMAGES + 3), True, 42, seeded()))
    iterator = iter(loader_of(DATASETS["native"](folder), sampler, num_workers=num_workers))
    num_failed = 0
    for step in range(-(-42 // BATCH_SIZE)):
        given = indices[step * BATCH_SIZE :][:BATCH_SIZE]
        if max(given) >= NUM_IMAGES:
            num_failed += 1
            with pytest.raises(IndexError, match="out of range"):
                next(iterator)
        else:
            numbers = DrawNumbers(step * BATCH_SIZE, 1)
            alone = loader_of(
                DATASETS["native"](folder), batch_size=1, batch_sampler=NumberedBatches([given], numbers, 4)
            )
            assert samples_of([next(iterator)]) == samples_of(alone)
    assert 3 < num_failed < 9


def test_draws_of_collate_fn_have_numbers_too() -> None:
    def collate(samples: list[Any]) -> Any:
        return torch.rand(len(samples), 1), [index for _, index in samples]

    weights = [0.0] * 3 + [1.0] + [0.0] * 5
    sampler = fastload.ShardedSampler(NUM_IMAGES, num_replicas=1, rank=0, weights=weights, num_samples=42)
    found = samples_of(loader_of(Draws(), sampler, num_workers=2, collate_fn=collate))
    assert {index for index, _ in found} == {3}
    assert len(set(found)) == 42


def test_a_substitute_for_a_draw_has_its_number() -> None:
    candidates = [8]
    loader = loader_of(
        DrawsOrFails(),
        WITH_REPEATS["weights"](),
        num_workers=2,
        on_error="replace",
        substitutes=candidates,
        max_errors=1.0,
    )
    indices = list(WITH_REPEATS["weights"]())
    found = samples_of(loader)
    assert [index for index, _ in found] == [8 if failing(index) else index for index in indices]
    assert sum(map(failing, indices)) > 3
    assert len(set(found)) == len(found)


# ---- addresses -------------------------------------------------------------------------------------------------------


def weighted(folder: Path, rank: int = 0, num_replicas: int = 1) -> Any:
    sampler = fastload.ShardedSampler(
        NUM_IMAGES, num_replicas=num_replicas, rank=rank, weights=WEIGHTS, num_samples=42, seed=2
    )
    return loader_of(DATASETS["native"](folder), sampler, num_workers=1)


def batches_of(iterator: Any) -> list[tuple[list[tuple[int, bytes]], Any]]:
    return [(samples_of([batch]), iterator.batch_report()) for batch in iterator]


def one(sample: Any) -> tuple[int, bytes]:
    image, label = sample
    return label, image.contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    ("sampler", "by_state"), [("weights", False), ("weights", True), ("replacement", True), ("more than all", True)]
)
def test_at_and_replay_find_the_draws_of_an_epoch(sampler: str, by_state: bool, folder: Path) -> None:
    loader = loader_of(DATASETS["native"](folder), WITH_REPEATS[sampler](), num_workers=2)
    iterator = iter(loader)
    address: dict[str, Any] = {"state": loader.state_dict()} if by_state else {"epoch": 0}
    batches = batches_of(iterator)
    seen: set[int] = set()
    for step, (samples, reports) in enumerate(batches):
        part = iter(loader.at(step=step, stop=min(step + 2, len(batches)), **address))
        assert batches_of(part) == batches[step : step + 2]
        for index in {index for index, _ in samples}:
            place = [index for index, _ in samples].index(index)
            sample, report = loader.replay(index, step=step, **address)
            assert (one(sample), report) == (samples[place], reports[place])
            if index not in seen:
                assert one(loader.replay(index, **address)[0]) == samples[place]
            seen.add(index)
    assert len(seen) > 4


def test_without_a_step_a_sample_is_its_first_draw_of_all_ranks(folder: Path) -> None:
    line = list(WITH_REPEATS["weights"]())
    whole = samples_of(weighted(folder))
    for index in set(line):
        expected = whole[line.index(index)]
        for rank in range(3):
            assert one(weighted(folder, rank, 3).replay(index, 0)[0]) == expected


def test_a_draw_that_is_not_there_is_refused(folder: Path) -> None:
    loader = weighted(folder)
    iterator = iter(loader)
    state = loader.state_dict()
    assert next(iterator) is not None
    with pytest.raises(ValueError, match="sample 2 is not in epoch 5: none of its 42 draws gave it"):
        loader.replay(2, 5)
    with pytest.raises(ValueError, match=r"sample 2 is not in batch 1 of epoch 5: batch_report\(\) says"):
        loader.replay(2, 5, step=1)
    with pytest.raises(ValueError, match=r"sample 2 is not in batch 1 of epoch 0: batch_report\(\) says"):
        loader.replay(2, state=state, step=1)
    with pytest.raises(ValueError, match="sample 2 is not in epoch 0 from batch 0 on"):
        loader.replay(2, state=state)
    with pytest.raises(ValueError, match=r"step must be an int in \[0, 11\).*got 11"):
        loader.replay(3, 5, step=11)
    with pytest.raises(ValueError, match=r"step must be an int in \[1, 11\).*got 0"):
        loader.replay(3, state=loader.state_dict(), step=0)
    replacement = loader_of(DATASETS["native"](folder), WITH_REPEATS["replacement"]())
    with pytest.raises(ValueError, match="epoch 1 cannot be made again: a RandomSampler draws the order"):
        replacement.replay(3, 1)


def test_a_sample_that_comes_once_may_have_its_step_named(folder: Path) -> None:
    loader = loader_of(DATASETS["native"](folder), shuffle=True)
    batches = [samples_of([batch]) for batch in loader]
    for step, samples in enumerate(batches):
        for index, image in samples:
            assert one(loader.replay(index, 0, step=step)[0]) == (index, image)
        with pytest.raises(ValueError, match=f"is not in batch {step}"):
            loader.replay(batches[step - 1][0][0], 0, step=step)
