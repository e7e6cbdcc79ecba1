"""Strides of samples and batches with sides of 1, for which torch keeps what its own functions left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from bad_folders import ListOfFiles
from PIL import Image
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload

_SIZES = [(1, 1), (1, 5), (5, 1), (4, 3)]
_ENDS: dict[str, list[Any]] = {
    "ToTensor": [T.ToTensor()],
    "PILToTensor": [T.PILToTensor()],
    "float64": [T.PILToTensor(), T.ConvertImageDtype(torch.float64)],
    "Normalize": [T.ToTensor(), T.Normalize([0.5] * 3, [0.2] * 3)],
    "RandomErasing": [T.ToTensor(), T.RandomErasing(1.0)],
    "gray": [T.Grayscale(), T.ToTensor()],
    "three grays": [T.Grayscale(3), T.ToTensor()],
    "v2.ToImage": [v2.ToImage()],
    "v2.ToDtype": [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)],
    "v2.Normalize": [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)],
}


def _forms(value: Any) -> Any:
    """Returns shapes, strides and types of the tensors in a batch."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype, type(value)
    return [_forms(part) for part in value] if isinstance(value, (list, tuple)) else type(value)


def _as_it_is(samples: Any) -> Any:
    return samples


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], Path]:
    """Makes three images of each size."""
    made = {}
    for width, height in _SIZES:
        root = tmp_path_factory.mktemp(f"{width}x{height}")
        (root / "class").mkdir()
        pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "class" / "rgb.jpg")
        Image.fromarray(pixels).convert("L").save(root / "class" / "gray.jpg")
        Image.fromarray(pixels).save(root / "class" / "rgb.png")
        made[width, height] = root
    return made


@pytest.mark.parametrize("arguments", [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": None}], ids=str)
@pytest.mark.parametrize("end", _ENDS)
@pytest.mark.parametrize("size", _SIZES, ids=str)
def test_strides_are_torchs(
    folders: dict[tuple[int, int], Path], size: tuple[int, int], end: str, arguments: dict[str, Any]
) -> None:
    transform = T.Compose([T.CenterCrop(size[::-1]), *_ENDS[end]])
    folder = ImageFolder(str(folders[size]), transform)
    partly = ImageFolder(str(folders[size]), T.Compose([transform, _as_it_is]))
    for dataset in (folder, partly, ListOfFiles(folder, transform)):
        for collate in ({}, {"collate_fn": _as_it_is}):
            expected = [
                _forms(batch) for batch in torch.utils.data.DataLoader(dataset, **arguments, **collate, num_workers=0)
            ]
            for num_workers in (0, 2):
                loader = fastload.DataLoader(dataset, **arguments, **collate, num_workers=num_workers)
                assert [_forms(batch) for batch in loader] == expected, loader.explain()


@pytest.mark.parametrize("end", ["ToTensor", "v2.ToDtype"])
@pytest.mark.parametrize("size", _SIZES, ids=str)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_strides_of_channels_last_are_torchs(
    folders: dict[tuple[int, int], Path], size: tuple[int, int], end: str, batch_size: int
) -> None:
    """They equal a new tensor's in that format; Tensor.contiguous() keeps strides of sides of 1."""
    folder = ImageFolder(str(folders[size]), T.Compose([T.CenterCrop(size[::-1]), *_ENDS[end]]))
    loader = fastload.DataLoader(folder, batch_size, memory_format=torch.channels_last, num_workers=1)
    for images, _ in loader:
        expected = torch.empty(images.shape, memory_format=torch.channels_last)
        assert images.stride() == expected.stride()
        assert images.is_contiguous(memory_format=torch.channels_last)
