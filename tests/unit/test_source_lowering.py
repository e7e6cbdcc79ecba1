"""Which data sets become path tables, which do not and why, and when a lowered one is out of date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch.utils.data import ConcatDataset, Subset, random_split
from torchvision import datasets, transforms

from fastload.sources import ImageFiles, ImageFolder
from fastload.sources._lowering import LoweredSource, NotLowered, lower_dataset


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for number in range(10):
        folder = tmp_path / "images" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number, 0, 0)).save(folder / f"{number}.png")
    return tmp_path / "images"


@pytest.fixture
def folder(tree: Path) -> datasets.ImageFolder:
    return datasets.ImageFolder(tree, transforms.ToTensor())


def lowered(dataset: object) -> LoweredSource:
    source = lower_dataset(dataset)
    assert isinstance(source, LoweredSource), source
    return source


def refused(dataset: object) -> str:
    source = lower_dataset(dataset)
    assert isinstance(source, NotLowered)
    return source.reason


def assert_same_samples(source: LoweredSource, dataset: Any, samples: list[tuple[str, int]]) -> None:
    """Each index of `dataset` maps to the file and label that indexing it would use."""
    assert len(source) == len(dataset)
    everywhere = np.arange(-len(dataset), len(dataset), dtype=np.int64)
    found = [source.table.sample(int(file)) for file in source.files(everywhere)]
    assert found == samples + samples


def test_torchvision_image_folder_is_lowered(folder: datasets.ImageFolder) -> None:
    source = lowered(folder)
    assert_same_samples(source, folder, folder.samples)
    assert source.transform is folder.transform
    assert source.index_map is None
    assert source.is_current()


def test_own_data_sets_are_lowered(tree: Path) -> None:
    own = ImageFolder(tree, len)
    files = ImageFiles([path for path, _ in own.samples], own.targets, len)
    for dataset in (own, files):
        source = lowered(dataset)
        assert_same_samples(source, dataset, list(own.samples))
        assert source.transform is len
        assert source.is_current()


@pytest.mark.parametrize(
    "indices",
    [
        [3, 1, 1, -1, -10],
        (0, 9),
        range(8, 1, -3),
        np.array([5, 4, -2]),
        np.array([5, 4], np.uint8),
        torch.tensor([7, 0, -3]),
        [np.int64(3), 2],
        [],
    ],
    ids=lambda indices: type(indices).__name__,
)
def test_subsets_map_to_the_samples_torch_would_take(folder: datasets.ImageFolder, indices: Any) -> None:
    subset = Subset(folder, indices)
    expected = [folder.samples[subset.indices[position]] for position in range(len(subset))]
    source = lowered(subset)
    assert_same_samples(source, subset, expected)
    assert source.is_current()


def test_nested_subsets_and_random_split(folder: datasets.ImageFolder) -> None:
    part, _ = random_split(folder, [7, 3], torch.Generator().manual_seed(3))
    nested = Subset(Subset(part, [6, 5, -7, 0]), range(1, 4))
    expected = [folder.samples[part.indices[position]] for position in (5, 0, 0)]
    assert_same_samples(lowered(nested), nested, expected)


@pytest.mark.parametrize("index", [10, -11, 2**40])
def test_index_out_of_range_is_an_index_error(folder: datasets.ImageFolder, index: int) -> None:
    source = lowered(folder)
    with pytest.raises(IndexError, match=f"list index out of range: {index} with 10 samples"):
        source.files(np.array([0, index, 3]))


def test_a_subset_of_itself_is_not_lowered(folder: datasets.ImageFolder) -> None:
    subset = Subset(folder, [0])
    subset.dataset = subset
    assert refused(subset) == "the data set is a Subset of itself"


class FolderSubclass(datasets.ImageFolder):  # type: ignore[misc]
    pass


class SubsetSubclass(Subset[Any]):
    pass


class OwnSubclass(ImageFolder):
    pass


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda f: FolderSubclass(f.root), "the data set is test_source_lowering.FolderSubclass (native: exactly"),
        (lambda f: OwnSubclass(f.root), "the data set is test_source_lowering.OwnSubclass"),
        (lambda f: SubsetSubclass(f, [1]), "the data set is test_source_lowering.SubsetSubclass"),
        (lambda f: Subset([1, 2], [0]), "the data set is list"),  # type: ignore[arg-type]
        (lambda f: ConcatDataset([f, f]), "the data set is torch.utils.data.dataset.ConcatDataset"),
        (lambda f: datasets.DatasetFolder(f.root, f.loader, (".png",)), "torchvision.datasets.folder.DatasetFolder"),
        (lambda f: datasets.ImageFolder(f.root, loader=Image.open), "a loader of its own"),
        (lambda f: datasets.ImageFolder(f.root, target_transform=str), "a target_transform"),
        (lambda f: ImageFolder(f.root, target_transform=str), "a target_transform"),
        (lambda f: Subset(f, [0, 10]), "Subset.indices: list index out of range: 10 with 10 samples"),
        (lambda f: Subset(f, [0, True]), "Subset.indices holds a bool"),
        (lambda f: Subset(f, ["0"]), "Subset.indices holds a str"),  # type: ignore[list-item]
        (lambda f: Subset(f, [2**70]), "more than 64 bits"),
        (lambda f: Subset(f, torch.tensor([0.5])), "Subset.indices is float32"),  # type: ignore[arg-type]
        (lambda f: Subset(f, np.zeros((1, 1), int)), "of shape (1, 1)"),  # type: ignore[arg-type]
        (lambda f: Subset(f, {0: 1}), "Subset.indices is dict"),  # type: ignore[arg-type]
        (lambda f: None, "the data set is NoneType"),
    ],
)
def test_other_data_sets_are_not_lowered_and_say_why(
    folder: datasets.ImageFolder, make: Callable[[Any], Any], reason: str
) -> None:
    assert reason in refused(make(folder))


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (lambda s: tuple(s), "samples is tuple, not a list"),
        (lambda s: [list(pair) for pair in s], "samples holds list, not only tuples"),
        (lambda s: [(*pair, 1) for pair in s], "not pairs"),
        (lambda s: [(Path(path), label) for path, label in s], "PosixPath where str is expected"),
        (lambda s: [(path, float(label)) for path, label in s], "a float where int is expected"),
        (lambda s: [(path, True) for path, label in s], "a bool where int is expected"),
        (lambda s: [("a\0b", 1)], "zero byte"),
        (lambda s: [("\ud800", 1)], "cannot be indexed"),
        (lambda s: [("a", 2**64)], "cannot be indexed"),
    ],
)
def test_edited_samples_that_are_not_plain_are_not_lowered(
    folder: datasets.ImageFolder, samples: Callable[[Any], Any], reason: str
) -> None:
    folder.samples = samples(folder.samples)
    assert reason in refused(folder)


@pytest.mark.parametrize("name", ["__getitem__", "__getitems__", "__len__"])
def test_overrides_on_the_object_are_not_lowered(folder: datasets.ImageFolder, tree: Path, name: str) -> None:
    own = ImageFolder(tree)
    subset = Subset(folder, [0])
    sources = [lowered(dataset) for dataset in (own, subset)]
    for dataset, source in zip((own, subset), sources, strict=True):
        setattr(dataset, name, print)
        assert f"{name} was overridden on this" in refused(dataset)
        assert not source.is_current()


@pytest.mark.parametrize("name", ["pil_loader", "default_loader"])
def test_a_replaced_torchvision_loader_is_noticed(
    folder: datasets.ImageFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = lowered(folder)
    monkeypatch.setattr(datasets.folder, name, lambda path: Image.new("RGB", (1, 1)))
    assert not source.is_current()
    refused(folder)


def test_a_replaced_getitem_of_the_class_is_noticed(
    folder: datasets.ImageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.DatasetFolder, "__getitem__", lambda self, index: (0, 0))
    assert "was replaced" in refused(folder)


def test_another_image_backend_is_not_lowered(folder: datasets.ImageFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchvision, "_image_backend", "accimage")
    assert refused(folder) == "torchvision's image backend is accimage, not PIL"


@pytest.mark.parametrize(
    "mutate",
    [
        lambda f: f.samples.pop(),
        lambda f: f.samples.reverse(),
        lambda f: f.samples.__setitem__(4, ("other.png", 1)),
        lambda f: setattr(f, "samples", f.samples[:5]),
        lambda f: setattr(f, "transform", transforms.ToTensor()),
        lambda f: setattr(f, "transform", None),
        lambda f: setattr(f, "target_transform", str),
        lambda f: setattr(f, "loader", Image.open),
    ],
)
def test_a_changed_image_folder_is_not_current(folder: datasets.ImageFolder, mutate: Callable[[Any], Any]) -> None:
    source = lowered(folder)
    behind_subset = lowered(Subset(folder, [0, 3]))
    mutate(folder)
    assert not source.is_current()
    assert not behind_subset.is_current()


def test_an_equal_copy_of_the_samples_is_current(folder: datasets.ImageFolder) -> None:
    source = lowered(folder)
    folder.samples = [(str(path), label) for path, label in folder.samples]
    assert source.is_current()


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_changed_subset_indices_are_not_current(folder: datasets.ImageFolder, kind: Callable[[Any], Any]) -> None:
    subset = Subset(folder, kind([1, 2]))
    source = lowered(subset)
    assert source.is_current()
    subset.indices[0] = 5  # type: ignore[index]
    assert not source.is_current()
    subset.indices[0] = 1  # type: ignore[index]
    assert source.is_current()
    subset.indices = [1, 2, 3]
    assert not source.is_current()


@pytest.mark.parametrize("attribute", ["samples", "transform", "target_transform"])
def test_a_changed_own_data_set_is_not_current(tree: Path, attribute: str) -> None:
    dataset = ImageFolder(tree)
    source = lowered(dataset)
    setattr(dataset, attribute, [("a", 1)] if attribute == "samples" else len)
    assert not source.is_current()
