"""rng="sample": the bytes depend on seed, epoch and sample alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import recipes
import torch
from torchvision.datasets import ImageFolder

import fastload


@pytest.fixture(scope="module")
def dataset(clean_folder: Path) -> ImageFolder:
    return ImageFolder(str(clean_folder), recipes.training(48))


def epochs(dataset: ImageFolder, count: int = 2, **arguments: object) -> list[object]:
    generator = torch.Generator().manual_seed(9)
    loader = fastload.DataLoader(dataset, batch_size=4, shuffle=True, rng="sample", generator=generator, **arguments)
    return [recipes.bytes_of(loader) for _ in range(count)]


@pytest.mark.parametrize("seed", [1, None])
def test_bytes_are_the_same_for_any_number_of_threads(dataset: ImageFolder, seed: int | None) -> None:
    """Without a seed the generator decides."""
    expected = epochs(dataset, seed=seed, num_workers=0)
    assert expected[0] != expected[1]
    for num_workers in (1, 2, 3, 8):
        assert epochs(dataset, seed=seed, num_workers=num_workers) == expected
    assert epochs(dataset, seed=2, num_workers=2) != expected


def test_bytes_do_not_depend_on_an_iterator_dropped_at_any_step(dataset: ImageFolder) -> None:
    def second_epoch(steps: int) -> object:
        loader = fastload.DataLoader(dataset, batch_size=4, num_workers=3, rng="sample", seed=4)
        iterator = iter(loader)
        for _ in range(steps):
            next(iterator)
        del iterator
        return recipes.bytes_of(loader)

    expected = second_epoch(0)
    for steps in range(1, 7):
        assert second_epoch(steps) == expected


def test_bytes_do_not_depend_on_the_order_of_samples(dataset: ImageFolder) -> None:
    def by_index(sampler: list[int]) -> dict[int, bytes]:
        iterator = iter(
            fastload.DataLoader(dataset, batch_size=5, sampler=sampler, num_workers=2, rng="sample", seed=8)
        )
        found = {}
        for images, _ in iterator:
            for report, image in zip(iterator.batch_report(), images, strict=True):
                found[report.index] = image.numpy().tobytes()
        return found

    count = len(dataset)
    forward = by_index(list(range(count)))
    assert len(forward) == count
    assert by_index(list(reversed(range(count)))) == forward


@pytest.mark.parametrize("is_persistent", [False, True])
def test_set_epoch_repeats_an_epoch(dataset: ImageFolder, is_persistent: bool) -> None:
    arguments = {"num_workers": 2, "persistent_workers": is_persistent}
    loader = fastload.DataLoader(dataset, batch_size=4, rng="sample", seed=4, **arguments)
    first, second = recipes.bytes_of(loader), recipes.bytes_of(loader)
    assert first != second
    loader.set_epoch(0)
    assert recipes.bytes_of(loader) == first
    loader.set_epoch(1)
    assert recipes.bytes_of(loader) == second
    with pytest.raises(ValueError, match="epoch must be an int >= 0, got -1"):
        loader.set_epoch(-1)
