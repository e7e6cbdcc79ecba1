"""Shared fixtures of the contract's tests: a dataset for each way in which batches are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recipes
from both_loaders import negated
from image_folders import make_clean_folder
from numbered import Numbered
from torchvision import transforms
from torchvision.datasets import ImageFolder

NUM_SAMPLES = 11


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes 11 clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("contract"), NUM_SAMPLES)


@pytest.fixture
def images(folder: Path) -> ImageFolder:
    """Makes a dataset that loads natively; labels are replaced by indices, so a batch shows its order."""
    return recipes.numbered_images(folder, recipes.evaluation(40, 32))


@pytest.fixture
def images_with_python_part(images: ImageFolder) -> ImageFolder:
    """Makes the same images in a pipeline that native code begins and Python ends."""
    images.transform = transforms.Compose([*recipes.evaluation(40, 32).transforms, negated])
    return images


@pytest.fixture(params=["native", "python part"])
def threaded(request: pytest.FixtureRequest) -> ImageFolder:
    """Gives one dataset that loads natively and one whose samples Python ends; both in threads of this process."""
    return request.getfixturevalue({"native": "images", "python part": "images_with_python_part"}[request.param])


@pytest.fixture(params=["native", "python part", "python"])
def dataset(request: pytest.FixtureRequest) -> Any:
    """Gives the two of `threaded`, and one that runs entirely in Python."""
    if request.param == "python":
        return Numbered(NUM_SAMPLES)
    return request.getfixturevalue({"native": "images", "python part": "images_with_python_part"}[request.param])
