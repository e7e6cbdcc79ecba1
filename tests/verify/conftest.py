"""The folder of images that the comparisons load, and ways to change a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import recipes
import torch
from image_folders import make_clean_folder
from torchvision.datasets import ImageFolder


@pytest.fixture(scope="session", autouse=True)
def _one_thread_of_torch() -> Iterator[None]:
    """Limits torch to one thread: small images are blurred faster without a pool of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder of 11 clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("verify"), 11)


@pytest.fixture
def changed_copy(folder: Path, tmp_path: Path) -> Callable[[int, Callable[[Path], object]], Path]:
    """Copies the folder and calls a function with the path of one sample's file there; returns the copy."""

    def change(index: int, action: Callable[[Path], object]) -> Path:
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        path, _ = ImageFolder(str(copy)).samples[index]
        action(Path(path))
        return copy

    return change


@pytest.fixture
def evaluation(folder: Path) -> ImageFolder:
    """Returns the folder with transforms that draw nothing."""
    return ImageFolder(str(folder), recipes.evaluation(40, 32))


@pytest.fixture
def training(folder: Path) -> ImageFolder:
    """Returns the folder with transforms that draw."""
    return ImageFolder(str(folder), recipes.training(32))
