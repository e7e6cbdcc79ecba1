"""Whole epochs of known recipes: every batch, error and generator state equals torch's DataLoader's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from loader_epochs import assert_equal_to_torch, outcomes
from parity_recipes import RECIPES
from torchvision.datasets import ImageFolder

import fastload


def assert_recipe_equal_to_torch(
    name: str, root: Path, num_workers: int, *, persistent_workers: bool, drop_last: bool
) -> None:
    recipe = RECIPES[name]
    arguments = {"num_workers": num_workers, "persistent_workers": persistent_workers, "drop_last": drop_last}
    dataset = ImageFolder(str(root), recipe.make())
    mine = assert_equal_to_torch(dataset, verdict=None, batch_size=6, shuffle=True, **arguments)
    stats = mine.loader.stats()
    assert stats.samples_native + stats.samples_fallback > 0
    assert stats.samples_python == 0
    assert (stats.samples_python_tail == 0) == recipe.is_native


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(
    ("num_workers", "persistent_workers"),
    [(0, False), (1, False), (1, True), (2, False), (2, True), (4, False), (4, True)],
)
@pytest.mark.parametrize("name", RECIPES)
def test_epochs_of_files_of_every_kind_equal_torchs(
    mixed_folder: Path, name: str, num_workers: int, persistent_workers: bool, drop_last: bool
) -> None:
    assert_recipe_equal_to_torch(
        name, mixed_folder, num_workers, persistent_workers=persistent_workers, drop_last=drop_last
    )


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", RECIPES)
def test_epochs_of_real_photographs_equal_torchs(corpora: Path, name: str, num_workers: int) -> None:
    is_kept = num_workers > 0
    assert_recipe_equal_to_torch(name, corpora / "imagenet64", num_workers, persistent_workers=is_kept, drop_last=False)


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.is_native])
def test_native_recipes_draw_by_the_counter_the_same_for_any_number_of_threads(clean_folder: Path, name: str) -> None:
    dataset = ImageFolder(str(clean_folder), RECIPES[name].make())

    def run(num_workers: int) -> list[Any]:
        loader = fastload.DataLoader(dataset, batch_size=5, rng="sample", seed=6, num_workers=num_workers)
        return outcomes(loader)

    expected = run(0)
    assert all(run(num_workers) == expected for num_workers in (1, 3))
