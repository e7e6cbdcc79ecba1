"""The last rows of explain(): what to change, and that the change makes the loader native."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

cv2: Any = types.ModuleType("cv2")  # no image is read here

VIEW = transforms.Compose([transforms.RandomResizedCrop(8), transforms.ToTensor()])


class OwnFolder(ImageFolder):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


class OwnDataset(Dataset[Any]):
    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


class Grey:
    def __call__(self, image: Any) -> Any:
        return image.convert("L").convert("RGB")


class Views:
    def __init__(self) -> None:
        self.view = VIEW
        self.small = [VIEW, VIEW]
        self.count = 2

    def __call__(self, image: Any) -> Any:
        return [self.view(image) for _ in range(self.count)]


def stacked(samples: Any) -> Any:
    return torch.stack([image for image, _ in samples])


def _folder(images: ImageFolder, transform: Any = VIEW, target_transform: Any = None) -> ImageFolder:
    return ImageFolder(images.root, transform, target_transform)


def _files(images: ImageFolder) -> fastload.ImageFiles:
    return fastload.ImageFiles([path for path, _ in images.samples], images.targets, VIEW)


_Change = tuple[Callable[[ImageFolder], Any], dict[str, Any]]
# A loader, the advice for it, and the loader after the change.
ADVICE: dict[str, tuple[_Change, str, _Change]] = {
    "own class of a folder": (
        (lambda images: OwnFolder(images.root, VIEW), {}),
        "data set: without a __getitem__",
        (_folder, {}),
    ),
    "own data set": (
        (lambda images: OwnDataset(images.samples), {}),
        r"fastload\.ImageFiles\(paths, labels, transform\) is entirely native",
        (_files, {}),
    ),
    "target_transform": (
        (lambda images: _folder(images, target_transform=abs), {}),
        "target_transform: if it draws nothing",
        (_folder, {}),
    ),
    "collate_fn": ((_folder, {"collate_fn": stacked}), "collate_fn: leave it out", (_folder, {})),
    "batch_size": ((_folder, {"batch_size": None}), "batch_size: with one", (_folder, {"batch_size": 2})),
    "result": (
        (lambda images: _folder(images, transforms.RandomResizedCrop(8)), {}),
        "transform: end it with ToTensor or PILToTensor; native batches are tensors",
        (_folder, {}),
    ),
    "no transform": (
        (lambda images: _folder(images, None), {}),
        "transform: end it with ToTensor or PILToTensor; native batches are tensors",
        (_folder, {}),
    ),
    "own transform": (
        (lambda images: _folder(images, transforms.Compose([Grey(), VIEW, Grey()])), {}),
        r"transform .*\.Grey: if a torchvision transform does the same, use that",
        (lambda images: _folder(images, transforms.Compose([transforms.Grayscale(3), VIEW])), {}),
    ),
    "views": (
        (lambda images: _folder(images, Views()), {}),
        r"Views returns .* fastload\.MultiView .* \(transform\.view, transform\.small\[0\]\) .* one pipeline for each",
        (lambda images: _folder(images, fastload.MultiView([Views().view, Views().small[0]])), {}),
    ),
}


def _advice(loader: fastload.DataLoader[Any]) -> list[str]:
    return [row for row in loader.explain().splitlines() if row.startswith("  to change  ")]


@pytest.mark.parametrize("name", ADVICE)
def test_the_change_is_named_and_helps(images: ImageFolder, name: str) -> None:
    (dataset, arguments), text, (changed, changed_arguments) = ADVICE[name]
    (row,) = _advice(fastload.DataLoader(dataset(images), num_workers=1, **arguments))
    assert re.search(text, row), row
    native = fastload.DataLoader(changed(images), num_workers=1, **changed_arguments)
    assert native.explain().startswith("native: ")
    assert _advice(native) == []


class ReadingWithOpenCv(OwnDataset):
    def __getitem__(self, index: int) -> Any:
        import cv2 as opencv  # type: ignore[import-not-found, unused-ignore]

        return torch.from_numpy(opencv.imread(self.samples[index][0])).float().mean()


class ReadingByAFunction(OwnDataset):
    def __getitem__(self, index: int) -> Any:
        return _mean(self.samples[index][0])


def _mean(path: str) -> Any:
    return cv2.imread(path).mean()


class Resizing(OwnDataset):
    """Reads its files differently."""

    def __getitem__(self, index: int) -> Any:
        return cv2.resize(self.samples[index], (3, 3)).mean()


@pytest.mark.parametrize("kind", [ReadingWithOpenCv, ReadingByAFunction])
def test_programs_that_read_with_opencv_are_told_of_imread(images: ImageFolder, kind: Any) -> None:
    rows = _advice(fastload.DataLoader(kind(images.samples)))
    assert [row for row in rows if "fastload.imread" in row] == rows[1:]


def test_others_are_not() -> None:
    assert not any("imread" in row for row in _advice(fastload.DataLoader(Resizing([np.zeros((9, 9, 3), np.uint8)]))))


def test_nothing_is_advised_where_nothing_helps() -> None:
    assert _advice(fastload.DataLoader(TensorDataset(torch.zeros(3)))) == []
    assert _advice(fastload.DataLoader([torch.zeros(3)])) == []  # type: ignore[arg-type]
    in_memory = OwnDataset([])
    vars(in_memory)["data"] = np.zeros((3, 32, 32, 3))  # like torchvision's SVHN and STL10
    assert _advice(fastload.DataLoader(in_memory)) == []
    pipe = torch.utils.data.datapipes.iter.IterableWrapper(range(3))
    assert _advice(fastload.DataLoader(pipe)) == []


class _Printer:
    """IPython's printer, which an object's _repr_pretty_ gets."""

    def __init__(self) -> None:
        self.shown = ""

    def text(self, text: str) -> None:
        self.shown += text


def test_a_notebook_shows_the_lines(images: ImageFolder) -> None:
    explanation = fastload.DataLoader(images).explain()
    printer = _Printer()
    explanation._repr_pretty_(printer, cycle=False)
    assert printer.shown == explanation
    assert isinstance(explanation, str)
    assert "\n" in printer.shown
