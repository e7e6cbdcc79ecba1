"""What the contract's tests share: a dataset that loads natively and one that torch's iterator serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from image_folders import make_clean_folder
from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder

NUM_SAMPLES = 11


class Pairs(Dataset[Any]):
    """A map dataset that is not native: sample i is (a tensor full of i, i)."""

    def __init__(self, length: int = NUM_SAMPLES) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 2, 2), float(range(self.length)[index])), range(self.length)[index]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """11 clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("contract"), NUM_SAMPLES)


@pytest.fixture
def images(folder: Path) -> ImageFolder:
    """A dataset that loads natively; its labels are replaced by the indices, so that a batch shows its order."""
    dataset = ImageFolder(str(folder), recipes.evaluation(40, 32))
    dataset.samples = [(path, index) for index, (path, _) in enumerate(dataset.samples)]
    return dataset


@pytest.fixture(params=["native", "torch"])
def dataset(request: pytest.FixtureRequest, images: ImageFolder) -> Any:
    """One dataset that loads natively and one that goes to torch's own iterator."""
    return images if request.param == "native" else Pairs()
