"""Devices and folders of the device tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from devices import Cuda, DeviceUnderTest, Fake, played
from image_folders import make_clean_folder
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

GPU = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["seed 1", "seed 2", GPU])
def device(request: pytest.FixtureRequest) -> Iterator[DeviceUnderTest]:
    """Returns a device with a fake GPU, which a thread plays in two ways, or with a real GPU if there is one."""
    if request.param == "cuda":
        yield Cuda()
        return
    with played(int(request.param.split()[1])) as fake:
        yield fake


@pytest.fixture
def by_hand() -> Fake:
    """Returns a device with a fake GPU on which nothing happens by itself."""
    return Fake()


@pytest.fixture(scope="session")
def clean_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes 14 clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("clean"), 14)


@pytest.fixture
def images(clean_folder: Path) -> ImageFolder:
    """Returns a native data set with random choices."""
    return ImageFolder(str(clean_folder), recipes.training(32))


@pytest.fixture(params=["native", "python"])
def dataset(request: pytest.FixtureRequest) -> Any:
    """Returns a data set of 14 images that loads natively and one that runs in Python, without random choices."""
    if request.param == "native":
        return request.getfixturevalue("still_images")
    return TensorDataset(torch.rand(14, 3, 32, 32), torch.arange(14) % 3)


@pytest.fixture
def still_images(clean_folder: Path) -> ImageFolder:
    """Returns a native data set without random choices."""
    return ImageFolder(str(clean_folder), recipes.evaluation(40, 32))
