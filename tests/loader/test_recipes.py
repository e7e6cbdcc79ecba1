"""Whole epochs of known recipes: every batch, error and generator state equals torch's DataLoader's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from loader_epochs import LOADERS, assert_epochs_equal, outcomes, run_epochs
from parity_recipes import RECIPES
from torchvision.datasets import ImageFolder

import fastload

# (num_workers, persistent_workers)
WORKERS = [(0, False), (1, False), (1, True), (2, False), (2, True), (4, False), (4, True)]
# All runs take ten minutes; without this variable each runs with one of the two values of drop_last.
RUNS_ALL = "FASTLOAD_ALL_RECIPE_RUNS" in os.environ


def assert_equal_to_torch(name: str, root: Path, **arguments: Any) -> None:
    recipe = RECIPES[name]
    theirs, mine = (
        run_epochs(kind, ImageFolder(str(root), recipe.make()), batch_size=6, shuffle=True, **arguments)
        for kind in LOADERS
    )
    assert_epochs_equal(theirs, mine)
    stats = mine.loader.stats()
    loaded = stats.samples_native + stats.samples_fallback
    print(f"{name}: {stats.samples_native / max(1, loaded):.0%} native, {stats.samples_python_tail} with a Python part")
    assert loaded > 0
    assert stats.samples_python == 0
    assert (stats.samples_python_tail == 0) == recipe.is_native


@pytest.mark.parametrize(("num_workers", "persistent_workers"), WORKERS)
@pytest.mark.parametrize("name", RECIPES)
def test_epochs_of_files_of_every_kind_equal_torchs(
    mixed_folder: Path, name: str, num_workers: int, persistent_workers: bool
) -> None:
    chosen = (num_workers + persistent_workers + list(RECIPES).index(name)) % 2 == 0
    for drop_last in (False, True) if RUNS_ALL else (chosen,):
        assert_equal_to_torch(
            name, mixed_folder, num_workers=num_workers, persistent_workers=persistent_workers, drop_last=drop_last
        )


@pytest.mark.parametrize(("num_workers", "persistent_workers"), WORKERS if RUNS_ALL else [(0, False), (2, True)])
@pytest.mark.parametrize("name", RECIPES)
def test_epochs_of_real_photographs_equal_torchs(
    corpora: Path, name: str, num_workers: int, persistent_workers: bool
) -> None:
    for drop_last in (False, True) if RUNS_ALL else (False,):
        assert_equal_to_torch(
            name,
            corpora / "imagenet64",
            num_workers=num_workers,
            persistent_workers=persistent_workers,
            drop_last=drop_last,
        )


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.is_native])
def test_native_recipes_draw_by_the_counter_the_same_for_any_number_of_threads(clean_folder: Path, name: str) -> None:
    dataset = ImageFolder(str(clean_folder), RECIPES[name].make())

    def run(num_workers: int) -> list[Any]:
        loader = fastload.DataLoader(dataset, batch_size=5, rng="sample", seed=6, num_workers=num_workers)
        return list(outcomes(loader))

    expected = run(0)
    assert all(run(num_workers) == expected for num_workers in (1, 3))
