"""Relative paths in a program that changes its directory: like torch's workers, which stay where iter() found them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
from bad_folders import ListOfFiles
from both_loaders import Threads
from image_folders import make_clean_folder
from numbered import Made
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose

import fastload
from fastload import _native


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Makes two directories with the same names in "images" and other pixels; Pillow has to decode the second image."""
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    make_clean_folder(here / "images", 6)
    paths = sorted(path for path in (here / "images").rglob("*") if path.is_file())
    Image.open(paths[1]).save(paths[1], format="png")
    for path in paths:
        copy = there / path.relative_to(here)
        copy.parent.mkdir(parents=True, exist_ok=True)
        image = Image.open(path)
        Image.fromarray(255 - np.asarray(image.convert("RGB"))).save(copy, format=image.format)
    return here, there


def negative(image: torch.Tensor) -> torch.Tensor:
    return -image


def of_files() -> fastload.ImageFiles:
    samples = ImageFolder("images").samples
    return fastload.ImageFiles(
        [path for path, _ in samples], [label for _, label in samples], recipes.evaluation(40, 32)
    )


DATASETS: dict[str, Callable[[], Any]] = {
    "torchvision's": lambda: ImageFolder("images", recipes.evaluation(40, 32)),
    "fastload's": lambda: fastload.ImageFolder("images", recipes.evaluation(40, 32)),
    "of files": of_files,
    "with a Python part": lambda: ImageFolder("images", Compose([recipes.evaluation(40, 32), negative])),
    "of images": lambda: ImageFolder("images", Compose([np.asarray, torch.from_numpy, lambda image: image[:24, :24]])),
    "in Python": lambda: ListOfFiles(ImageFolder("images"), recipes.evaluation(40, 32)),
}
MOMENTS = ("before iter()", "before next()", "in the epoch")


def batches(kind: Any, dataset: str, moment: str, num_workers: int, places: tuple[Path, Path]) -> list[bytes]:
    """Returns the batches of a program that goes to the second place at `moment`."""

    def reach(now: str) -> None:
        if now == moment:
            os.chdir(places[1])

    os.chdir(places[0])
    loader = kind(DATASETS[dataset](), batch_size=2, num_workers=num_workers)
    found = []
    reach("before iter()")
    iterator = iter(loader)
    reach("before next()")
    for batch in iterator:
        found.append(batch[0].numpy().tobytes())
        reach("in the epoch")
    return found


@pytest.fixture(autouse=True)
def _back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())  # undone after the test


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_relative_paths_are_looked_up_where_torch_does(
    places: tuple[Path, Path], dataset: str, moment: str, num_workers: int
) -> None:
    assert batches(fastload.DataLoader, dataset, moment, num_workers, places) == batches(
        DataLoader, dataset, moment, num_workers, places
    )


@pytest.mark.parametrize("dataset", ["with a Python part", "of images"])
def test_native_code_keeps_the_directory_where_a_thread_can_have_none(
    places: tuple[Path, Path], dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = batches(DataLoader, dataset, "never", 1, places)
    monkeypatch.setattr(_native, "own_working_directory", lambda: False)
    for moment in MOMENTS[1:]:
        assert batches(Threads, dataset, moment, 1, places) == expected


@pytest.mark.parametrize("dataset", ["torchvision's", "in Python"])
def test_persistent_workers_stay_where_they_began(places: tuple[Path, Path], dataset: str) -> None:
    def run(kind: Any) -> list[bytes]:
        os.chdir(places[0])
        loader = kind(DATASETS[dataset](), batch_size=6, num_workers=1, persistent_workers=True)
        found = []
        for place in places:
            os.chdir(place)
            found += [batch[0].numpy().tobytes() for batch in loader]
        return found

    theirs = run(DataLoader)
    assert theirs[0] == theirs[1]
    assert run(fastload.DataLoader) == theirs


def moved(_: int) -> Any:
    """Goes into a directory below the current one, and tells where it and a program that it starts are."""
    os.chdir("images")
    asked = subprocess.run(["pwd", "-P"], check=True, capture_output=True, text=True)
    return os.fspath(Path.cwd()), asked.stdout.strip()


@pytest.mark.parametrize("kind", [DataLoader, fastload.DataLoader, Threads], ids=["torch", "processes", "threads"])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_workers_directory_is_its_own(places: tuple[Path, Path], kind: Any, is_elsewhere: bool) -> None:
    def go_elsewhere(_worker_id: int) -> None:
        os.chdir(places[1])

    os.chdir(places[0])
    arguments = {"worker_init_fn": go_elsewhere} if is_elsewhere else {}
    iterator = iter(kind(Made(moved, 2), batch_size=None, num_workers=2, **arguments))
    if not is_elsewhere:
        os.chdir(places[1])
    own = str(places[is_elsewhere] / "images")
    assert list(iterator) == [[own, own]] * 2
    assert Path.cwd() == places[not is_elsewhere]


@pytest.mark.parametrize("dataset", ["torchvision's", "with a Python part"])
def test_an_error_tells_what_is_in_the_file_that_was_meant(tmp_path: Path, dataset: str) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "1.jpg").write_bytes(b"<html>")
    os.chdir(tmp_path)
    iterator = iter(fastload.DataLoader(DATASETS[dataset](), num_workers=1))
    os.chdir("/")
    with pytest.raises(fastload.SampleError, match="first bytes b'<html>'") as raised:
        next(iterator)
    assert raised.value.path == "images/a/1.jpg"


def test_a_missing_file_is_missing_in_the_directory_of_iter(places: tuple[Path, Path], tmp_path: Path) -> None:
    os.chdir(places[0])
    dataset = ImageFolder("images", recipes.evaluation(40, 32))
    os.chdir(tmp_path)
    iterator = iter(fastload.DataLoader(dataset, num_workers=1))
    os.chdir(places[0])
    with pytest.raises(FileNotFoundError, match=r"'images/.*No such file or directory"):
        next(iterator)
