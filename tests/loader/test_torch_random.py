"""rng="torch": random transforms draw what torch would draw with as many workers, so the batches are torch's."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
from both_loaders import assert_same
from image_folders import make_faulty_copy, save_jpeg
from loader_epochs import NUM_EPOCHS, assert_equal_to_torch, generator_state, outcomes, run_epochs
from native_steps import state_that_draws
from parity_recipes import HAS_FAST_BLUR, HAS_FAST_BLUR_V2
from torch.utils.data import Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload
from fastload._iteration.native._maker import NativeMaker


def changed(transform: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(transform, name, value)
    return transform


@pytest.mark.parametrize(
    "steps",
    [
        [changed(kind(24), size=size)]
        for namespace in (transforms, v2)
        for kind in (namespace.RandomResizedCrop, namespace.RandomCrop, namespace.CenterCrop)
        for size in (32, (32,), [32], (32, 20))
    ]
    + [
        [transforms.PILToTensor(), changed(kind(1.0, value=3), value=value)]
        for kind in (transforms.RandomErasing, v2.RandomErasing)
        for value in (5, [5], (1, 2, 3))
    ],
    ids=lambda steps: f"{type(steps[-1]).__module__}-{steps[-1]}",
)
def test_attributes_set_later_mean_what_they_mean_in_torch(clean_folder: Path, steps: list[Any]) -> None:
    """With a size of one side torch makes the shorter side, a square or an error, differently in each class."""
    ends = [] if len(steps) > 1 else [transforms.PILToTensor()]
    dataset = ImageFolder(str(clean_folder), transforms.Compose([*steps, *ends]))
    assert_equal_to_torch(dataset, 1, verdict=None, batch_size=1)


EDGE_RECIPES = {
    "the share of a crop": [transforms.RandomResizedCrop(20, scale=(0.9, 1.0), ratio=(1.0, 1.0))],
    "the aspect ratio of a crop": [transforms.RandomResizedCrop(20, scale=(0.2, 0.3))],
    "the share of a crop, v2": [v2.RandomResizedCrop(20, scale=(0.8, 1.0))],
    "jitter": [transforms.ColorJitter(0.1, 0.1, 0.1)],
    "jitter, v2": [v2.ColorJitter((0.9, 1.2), (0.9, 1.2), (0.9, 1.2), (0.25, 0.3))],
    "blur": [transforms.GaussianBlur(5, (1.0, 1.2))],
    "blur, v2": [v2.GaussianBlur(5, (1.0, 1.2))],
    "erasing": [transforms.ToTensor(), transforms.RandomErasing(1.0, scale=(0.02, 0.2), ratio=(1.0, 1.0))],
    "erasing, v2": [v2.PILToTensor(), v2.RandomErasing(1.0, scale=(0.1, 0.2), ratio=(0.75, 4 / 3))],
}
# Blurs that are left to torch on a machine, or with a torchvision, for which their kernels are not made.
BLURS_LEFT_TO_TORCH = {
    name for name, is_native in (("blur", HAS_FAST_BLUR), ("blur, v2", HAS_FAST_BLUR_V2)) if not is_native
}


@pytest.mark.parametrize("recipe", EDGE_RECIPES)
@pytest.mark.parametrize("seed", range(3))
def test_draws_at_the_upper_edge_of_their_range_equal_torchs(clean_folder: Path, recipe: str, seed: int) -> None:
    """One draw in some million is rounded up to the upper bound; here every other one is."""
    steps = EDGE_RECIPES[recipe]
    ends = [] if "erasing" in recipe else [transforms.PILToTensor()]
    dataset = ImageFolder(str(clean_folder), transforms.Compose([transforms.Resize((40, 36)), *steps, *ends]))
    random = np.random.default_rng(seed)
    words = random.integers(0, 1 << 32, 623, dtype=np.uint32)
    words = np.where(random.random(623) < 0.5, words | np.uint32(0xFFFFFF), words)
    state = state_that_draws(words)

    def run(kind: Any) -> Any:
        torch.set_rng_state(state)
        loader = kind(dataset, batch_size=4, generator=torch.Generator())
        if kind is fastload.DataLoader and recipe not in BLURS_LEFT_TO_TORCH:
            assert loader.explain().startswith("native"), loader.explain()
        return outcomes(loader), generator_state()

    assert_same(run)


def test_a_seed_whose_first_draw_is_at_the_upper_edge_equals_torchs(clean_folder: Path) -> None:
    crop = transforms.RandomResizedCrop(20, scale=(0.9, 1.0), ratio=(1.0, 1.0))
    dataset = ImageFolder(
        str(clean_folder), transforms.Compose([transforms.Resize((32, 32)), crop, transforms.PILToTensor()])
    )

    def run(kind: Any) -> Any:
        torch.manual_seed(988319)  # 2^24 - 3
        return outcomes(kind(dataset, batch_size=1, generator=torch.Generator())), generator_state()

    assert_same(run)


@pytest.fixture
def faulty_folder(clean_folder: Path, tmp_path: Path) -> Path:
    return make_faulty_copy(clean_folder, tmp_path / "faulty")


@pytest.mark.parametrize("batch_size", [2, 5])
@pytest.mark.parametrize(
    ("num_workers", "persistent_workers"), [(0, False), (1, False), (1, True), (2, True), (3, False)]
)
def test_batches_after_a_failed_one_equal_torchs(
    faulty_folder: Path, num_workers: int, persistent_workers: bool, batch_size: int
) -> None:
    dataset = ImageFolder(str(faulty_folder), recipes.training(40))
    sorted(faulty_folder.rglob("*.JPEG"))[0].unlink()
    batches = assert_equal_to_torch(
        dataset,
        num_workers=num_workers,
        persistent_workers=persistent_workers,
        batch_size=batch_size,
        prefetch_factor=3 if num_workers else None,
        shuffle=True,
    ).batches
    assert batches.count(FileNotFoundError) + batches.count(OSError) >= 2 * NUM_EPOCHS


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_draws_before_a_bad_index_count_as_in_torch(clean_folder: Path, num_workers: int) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.training(40))
    out_of_range = [0, 1, 2, 3, 99, 5, 6, 7, 8, -30, 10, 11, 12, 13, 14]
    none = [[0, 1, "two"], [3, 4], [5, 2**70, 6], [99, "seven"], [8, 9], [10, 1.5]]
    for order, num_type_errors in (({"batch_size": 3, "sampler": out_of_range}, 0), ({"batch_sampler": none}, 2)):
        batches = assert_equal_to_torch(dataset, num_workers=num_workers, **order).batches
        assert batches.count(IndexError) == 2 * NUM_EPOCHS
        assert batches.count(TypeError) == num_type_errors * NUM_EPOCHS


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize(("end", "verdict"), [([], "native"), ([torch.clone], "partly native")])
def test_a_subset_of_a_subset_finds_a_bad_index_before_it_loads(
    clean_folder: Path, num_workers: int, end: list[Any], verdict: str
) -> None:
    transform = transforms.Compose([*recipes.training(40).transforms, *end])
    dataset = Subset(ImageFolder(str(clean_folder), transform), range(12))
    for order in ([0, 1, 99, 3, 4, 5, -30, 7, 8], [0, 1, 2, 3, 4, 5]):
        for nested in (dataset, Subset(dataset, range(10))):
            assert_equal_to_torch(nested, verdict=verdict, num_workers=num_workers, batch_size=3, sampler=order)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_image_that_is_damaged_and_too_small_is_damaged_first(tmp_path: Path, num_workers: int) -> None:
    """In torch the decoder raises before the transform has drawn; a flip draws before the crop raises."""
    for number in range(12):
        save_jpeg(tmp_path / "a" / f"{number:02}.jpg", number, *((60, 50) if number % 4 else (30, 20)))
    for number in (4, 5):
        path = tmp_path / "a" / f"{number:02}.jpg"
        path.write_bytes(path.read_bytes()[:-300])
    flip_and_crop = transforms.Compose(
        [transforms.RandomHorizontalFlip(), transforms.RandomCrop(40), transforms.ToTensor()]
    )
    dataset = ImageFolder(str(tmp_path), flip_and_crop)
    batches = assert_equal_to_torch(dataset, num_workers=num_workers, batch_size=2).batches
    assert batches[:4] == [ValueError, batches[1], OSError, batches[3]]
    assert not isinstance(batches[1], type)


class Interrupt(BaseException):
    """An exception like KeyboardInterrupt, at a place that the test chooses."""


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_an_interrupt_while_batches_begin_anew_costs_no_later_batch_its_numbers(
    faulty_folder: Path, monkeypatch: pytest.MonkeyPatch, persistent_workers: bool
) -> None:
    dataset = ImageFolder(str(faulty_folder), recipes.training(40))
    arguments = {"num_workers": 1, "batch_size": 2, "prefetch_factor": 3, "persistent_workers": persistent_workers}
    expected = run_epochs(torch.utils.data.DataLoader, dataset, 2, shuffle=True, **arguments)
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, shuffle=True, **arguments)
    redo = NativeMaker._redo_after_failed
    interrupts = itertools.cycle([True, False])

    def interrupted_redo(maker: NativeMaker) -> None:
        if maker._failed is not None and next(interrupts):
            raise Interrupt
        redo(maker)

    monkeypatch.setattr(NativeMaker, "_redo_after_failed", interrupted_redo)
    for batches, state in zip(expected.epochs, expected.states, strict=True):
        iterator, found = iter(loader), []
        while True:
            try:
                step = outcomes(iterator, 1)
            except Interrupt:
                continue  # the batch that failed is still at hand, and its error comes with the next call
            if not step:
                break
            found += step
        assert found == batches
        assert generator_state() == state


def test_a_loader_closed_before_batches_begin_anew_says_so(
    faulty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ImageFolder(str(faulty_folder), recipes.training(40))
    loader = fastload.DataLoader(dataset, num_workers=1, batch_size=2, prefetch_factor=20)
    redo = NativeMaker._redo_after_failed

    def close_and_redo(maker: NativeMaker) -> None:
        if maker._failed is not None:
            loader.close()
        redo(maker)

    monkeypatch.setattr(NativeMaker, "_redo_after_failed", close_and_redo)
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.raises(fastload.SampleError):
        next(iterator)
    with pytest.raises(fastload.LoaderClosedError):
        next(iterator)
