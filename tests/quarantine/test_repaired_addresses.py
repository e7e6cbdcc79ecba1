"""at() and replay() of loaders that replace bad samples or leave them out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_folders import make_bad_folder
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

NUM_IMAGES = 40
BAD = [
    (2, "truncated"),
    (3, "HTML"),
    (4, "missing"),
    (10, "too small"),
    (12, "too small"),
    (30, "too small"),
    (39, "empty"),
    (7, "HTML"),
]


def _bad_folder(root: Path, bad: list[tuple[int, str]]) -> ImageFolder:
    folder = make_bad_folder(root, NUM_IMAGES, bad)
    by_chance = transforms.RandomApply([transforms.RandomCrop(64)], p=0.7)
    folder.transform = transforms.Compose(
        [transforms.RandomHorizontalFlip(), by_chance, transforms.RandomResizedCrop(24), transforms.ToTensor()]
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    return _bad_folder(tmp_path_factory.mktemp("bad"), BAD)


def native(dataset: Any, **arguments: Any) -> fastload.DataLoader[Any]:
    loader = fastload.DataLoader(dataset, 6, shuffle=True, max_errors=1, **arguments)
    assert loader.explain().is_native, loader.explain()
    return loader


def epoch_of(loader: Any) -> tuple[list[Any], list[Any]]:
    """Returns the loader's batches and reports."""
    iterator = iter(loader)
    batches, reports = [], []
    for batch in iterator:
        batches.append(batch)
        reports.append(iterator.batch_report())
    return batches, reports


def assert_same(ours: Any, theirs: Any) -> None:
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[1], theirs[1])


@pytest.mark.parametrize("on_error", ["replace", "skip"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_addresses_by_epoch_are_those_of_the_epoch(
    num_workers: int, on_error: str, folder: ImageFolder, tmp_path: Path
) -> None:
    ledger = tmp_path / "bad.jsonl"
    loader = native(folder, rng="sample", seed=5, num_workers=num_workers, on_error=on_error, ledger=ledger)
    epochs = [epoch_of(loader) for _ in range(2)]
    noted = ledger.read_text()
    for epoch, (batches, reports) in enumerate(epochs):
        for step, batch in enumerate(batches):
            (again,) = loader.at(epoch, step, step + 1)
            assert_same(again, batch)
        for step in (0, 3):
            for position, report in enumerate(reports[step]):
                index = report.index if report.replaced is None else report.replaced
                (image, label), found = loader.replay(index, epoch)
                assert found == report
                assert torch.equal(image, batches[step][0][position])
                assert label == batches[step][1][position]
    assert ledger.read_text() == noted, "what is looked at again is noted once"


@pytest.mark.parametrize("on_error", ["replace", "skip"])
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_addresses_by_state_follow_torchs_draws_past_bad_samples(
    num_workers: int, on_error: str, folder: ImageFolder
) -> None:
    loader = native(folder, num_workers=num_workers, on_error=on_error)
    torch.manual_seed(9)
    epoch_of(loader)
    iterator = iter(loader)
    batches, reports = [next(iterator)], [iterator.batch_report()]
    state, program = loader.state_dict(), torch.get_rng_state()
    for batch in iterator:
        batches.append(batch)
        reports.append(iterator.batch_report())
    other = native(folder, num_workers=num_workers, on_error=on_error)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="num_workers=0: random transforms")
        for step, batch in enumerate(batches[1:], start=1):
            torch.set_rng_state(program)
            (again,) = other.at(state=state, step=step, stop=step + 1)
            assert_same(again, batch)
        for position, report in enumerate(reports[2]):
            torch.set_rng_state(program)
            index = report.index if report.replaced is None else report.replaced
            (image, label), found = other.replay(index, state=state)
            assert found == report
            assert torch.equal(image, batches[2][0][position])
            assert label == batches[2][1][position]


def test_a_sample_that_is_left_out_is_not_in_its_epoch(folder: ImageFolder) -> None:
    loader = native(folder, rng="sample", seed=5, on_error="skip")
    with pytest.raises(fastload.SampleError, match=r"sample 3 .*cannot identify"):
        loader.replay(3, 0)
