"""Which data sets become path tables, why others do not, and when a lowered one is outdated."""

from __future__ import annotations

import copy
import pickle
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch.utils.data import ConcatDataset, StackDataset, Subset, random_split
from torchvision import datasets, transforms

from fastload import pil_loader
from fastload.sources import ImageFiles, ImageFolder
from fastload.sources._lowering import LoweredSource, NotLoweredError, lower_dataset
from fastload.sources._sample_table import ListedTable


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


def refused(dataset: object) -> str:
    with pytest.raises(NotLoweredError) as caught:
        lower_dataset(dataset)
    return str(caught.value)


def assert_same_samples(source: LoweredSource, dataset: Any, samples: list[tuple[str, int]]) -> None:
    """Asserts that each index of `dataset` maps to the file and label that indexing it gives."""
    assert len(source) == len(dataset)
    everywhere = np.arange(-len(dataset), len(dataset), dtype=np.int64)
    found = [source.table.sample(int(file)) for file in source.files(everywhere)]
    assert found == samples + samples


def test_own_data_sets_are_lowered(tree: Path) -> None:
    own = ImageFolder(tree, len)
    files = ImageFiles([path for path, _ in own.samples], own.targets, len)
    for dataset in (own, files):
        source = lower_dataset(dataset)
        assert_same_samples(source, dataset, list(own.samples))
        assert source.transforms[0] is len
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
    source = lower_dataset(subset)
    assert_same_samples(source, subset, expected)
    assert source.is_current()


def test_nested_subsets_and_random_split(folder: datasets.ImageFolder) -> None:
    part, _ = random_split(folder, [7, 3], torch.Generator().manual_seed(3))
    nested = Subset(Subset(part, [6, 5, -7, 0]), range(1, 4))
    expected = [folder.samples[part.indices[position]] for position in (5, 0, 0)]
    assert_same_samples(lower_dataset(nested), nested, expected)


def read(dataset: Any, index: int) -> tuple[Any, Any]:
    """Returns the data set's own (image bytes, label), or the (type, text) of its error."""
    try:
        image, label = dataset[index]
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return type(error), str(error)
    return np.asarray(image).tobytes(), label


def read_lowered(source: LoweredSource, index: int) -> tuple[Any, Any]:
    try:
        path, label = source.table.sample(source.file(index))
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return type(error), str(error)
    return np.asarray(Image.open(path)).tobytes(), label


def make_concatenations(tree: Path) -> list[Any]:
    """Makes ConcatDatasets of every shape; each image of `tree` has its own colour, so samples are recognisable."""
    folder = datasets.ImageFolder(tree)
    plain = datasets.DatasetFolder(tree, datasets.folder.pil_loader, (".png",))
    own, empty = ImageFolder(tree), ImageFiles([], [])
    subset = Subset(folder, [9, 0, -2])
    return [
        ConcatDataset([folder]),
        ConcatDataset([folder, plain, own]),
        ConcatDataset([empty, folder, empty, empty, subset, empty]),
        ConcatDataset([subset, ConcatDataset([own, subset]), folder]),
        Subset(ConcatDataset([subset, folder]), [12, -1, 0, -13, 3]),
        ConcatDataset([Subset(ConcatDataset([folder, own]), range(19, 5, -3)), folder]),
    ]


@pytest.mark.parametrize("number", range(6))
def test_concatenations_give_the_samples_and_the_errors_of_torchs_own(tree: Path, number: int) -> None:
    dataset = make_concatenations(tree)[number]
    source = lower_dataset(dataset)
    assert len(source) == len(dataset)
    assert source.is_current()
    for index in range(-len(dataset), len(dataset)):
        assert read_lowered(source, index) == read(dataset, index)
    everywhere = np.arange(-len(dataset), len(dataset), dtype=np.int64)
    assert source.files(everywhere).tolist() == [source.file(int(index)) for index in everywhere]
    for index in (-len(dataset) - 1, len(dataset), -(2**40), 2**40):
        theirs, mine = read(dataset, index), read_lowered(source, index)
        assert mine[0] is theirs[0]
        assert mine[1].startswith(theirs[1])
        with pytest.raises(theirs[0], match=theirs[1]):
            source.files(np.array([0, index]))


def test_a_concatenation_knows_each_transform_of_its_parts_once(tree: Path) -> None:
    one, other = transforms.ToTensor(), transforms.ToTensor()
    parts = [datasets.ImageFolder(tree, transform) for transform in (one, other, one)]
    source = lower_dataset(ConcatDataset([*parts, ConcatDataset(parts[:2])]))
    assert list(map(id, source.transforms)) == [id(one), id(other)]
    assert source.transforms[0] is one


def test_a_concatenation_whose_lengths_are_out_of_date_is_not_lowered(tree: Path) -> None:
    """torch continues with its stored sizes, so indices lead to unexpected samples."""
    folder = datasets.ImageFolder(tree)
    dataset = ConcatDataset([folder, datasets.ImageFolder(tree)])
    source = lower_dataset(dataset)
    folder.samples.pop()
    assert not source.is_current()
    assert refused(dataset) == "the parts of the ConcatDataset have changed their lengths since it was made"


def test_fastloads_own_loader_is_recognised_by_identity(tree: Path) -> None:
    dataset = datasets.DatasetFolder(tree, pil_loader, (".png",))
    source = lower_dataset(dataset)
    assert_same_samples(source, dataset, dataset.samples)
    assert source.is_current()
    dataset.loader = lambda path: pil_loader(path)
    assert not source.is_current()
    with pytest.raises(NotLoweredError):
        lower_dataset(dataset)


@pytest.mark.parametrize("loader", [datasets.folder.default_loader, datasets.folder.pil_loader])
def test_dataset_folder_is_lowered_with_torchvisions_loaders(tree: Path, loader: Callable[[str], Any]) -> None:
    dataset = datasets.DatasetFolder(tree, loader, (".png",), transforms.ToTensor())
    source = lower_dataset(dataset)
    assert_same_samples(source, dataset, dataset.samples)
    assert source.transforms[0] is dataset.transform


def test_the_image_backend_matters_to_the_default_loader_only(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_pillow = datasets.DatasetFolder(tree, datasets.folder.pil_loader, (".png",))
    by_default = datasets.DatasetFolder(tree, datasets.folder.default_loader, (".png",))
    source = lower_dataset(by_default)
    monkeypatch.setattr(torchvision, "_image_backend", "accimage")
    lower_dataset(by_pillow)
    assert refused(by_default) == "torchvision's image backend is accimage, not PIL"
    assert not source.is_current()


def test_target_transforms_are_kept(folder: datasets.ImageFolder) -> None:
    with_str = with_target(folder, str)
    assert lower_dataset(folder).target_transform is None
    for dataset in (
        with_str,
        Subset(with_str, [1]),
        ConcatDataset([with_str, with_str]),
        ImageFolder(folder.root, None, str),
    ):
        assert lower_dataset(dataset).target_transform is str


@pytest.mark.parametrize("index", [10, -11, 2**40])
def test_index_out_of_range_is_an_index_error(folder: datasets.ImageFolder, index: int) -> None:
    source = lower_dataset(folder)
    with pytest.raises(IndexError, match=f"list index out of range: {index} with 10 samples"):
        source.files(np.array([0, index, 3]))
    with pytest.raises(IndexError, match=f"list index out of range: {index} with 10 samples"):
        source.file(index)


def test_a_subset_of_itself_is_not_lowered(folder: datasets.ImageFolder) -> None:
    subset = Subset(folder, [0])
    subset.dataset = subset
    assert refused(subset) == "the data set is a part of itself"
    whole = ConcatDataset([folder])
    whole.datasets.append(whole)
    assert refused(whole) == "the data set is a part of itself"


class FolderSubclass(datasets.ImageFolder):  # type: ignore[misc]
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


class SubsetSubclass(Subset[Any]):
    pass


class OwnSubclass(ImageFolder):
    pass


class ConcatSubclass(ConcatDataset[Any]):
    pass


def with_target(folder: datasets.ImageFolder, target_transform: Callable[[int], Any]) -> datasets.ImageFolder:
    return datasets.ImageFolder(folder.root, folder.transform, target_transform)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda f: FolderSubclass(f.root),
            "FolderSubclass has its own __getitem__, which may make other samples",
        ),
        (lambda f: OwnSubclass(f.root), "the data set is test_source_lowering.OwnSubclass"),
        (lambda f: SubsetSubclass(f, [1]), "the data set is test_source_lowering.SubsetSubclass"),
        (lambda f: Subset([1, 2], [0]), "the data set is list"),  # type: ignore[arg-type]
        (lambda f: ConcatSubclass([f, f]), "the data set is test_source_lowering.ConcatSubclass"),
        (lambda f: ConcatDataset([f, [1, 2]]), "the data set is list"),  # type: ignore[list-item]
        (lambda f: ConcatDataset([f, with_target(f, str)]), "parts have different target_transforms"),
        (lambda f: StackDataset(f, f), "the data set is torch.utils.data.dataset.StackDataset"),
        (lambda f: datasets.ImageFolder(f.root, loader=Image.open), "ImageFolder has its own loader"),
        (
            lambda f: datasets.DatasetFolder(f.root, Image.open, (".png",)),
            "DatasetFolder has its own loader",
        ),
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


class HelpfulFolder(datasets.ImageFolder):  # type: ignore[misc]
    """Finds its samples differently, and has more methods."""

    extensions = (".png",)

    def __init__(self, root: Path, wanted: str, *arguments: Any) -> None:
        self.wanted = wanted
        super().__init__(root, *arguments)

    def find_classes(self, directory: Any) -> tuple[list[str], dict[str, int]]:
        return [self.wanted], {self.wanted: 7}

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.samples]

    def __repr__(self) -> str:
        return "helpful"


class Labelled:
    """A mixin."""

    label = 3


class MixedFolder(Labelled, HelpfulFolder):
    @staticmethod
    def make_dataset(*arguments: Any, **more: Any) -> list[tuple[str, int]]:
        return HelpfulFolder.make_dataset(*arguments, **more)[::-1]


@pytest.mark.parametrize("kind", [HelpfulFolder, MixedFolder])
def test_classes_with_methods_that_make_no_samples_are_lowered(tree: Path, kind: Any) -> None:
    dataset = kind(tree, "class1", transforms.ToTensor())
    for copied in (dataset, copy.deepcopy(dataset), pickle.loads(pickle.dumps(dataset))):
        source = lower_dataset(copied)
        assert_same_samples(source, copied, copied.samples)
        assert [label for _, label in copied.samples] == [7] * 5
        assert source.transforms[0] is copied.transform
        assert_same_samples(lower_dataset(Subset(copied, [3, 1])), Subset(copied, [3, 1]), copied.samples[3::-2])


def test_a_length_of_torchvisions_own_is_that_of_the_samples(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "eurosat").mkdir()
    tree.rename(tmp_path / "eurosat" / "2750")
    eurosat = datasets.EuroSAT(tmp_path)
    assert len(lower_dataset(eurosat)) == len(eurosat) == 10

    class Derived(datasets.EuroSAT):  # type: ignore[misc]
        def __len__(self) -> int:
            return 3

    with pytest.raises(NotLoweredError, match="has its own __len__"):
        lower_dataset(Derived(tmp_path))
    monkeypatch.setattr(datasets.EuroSAT, "__len__", lambda _: 3)
    with pytest.raises(NotLoweredError, match="has its own __len__"):
        lower_dataset(eurosat)


def test_torchvisions_own_derived_classes_are_lowered() -> None:
    assert issubclass(datasets.ImageNet, datasets.ImageFolder)
    dataset = datasets.ImageNet.__new__(datasets.ImageNet)
    vars(dataset).update(samples=[("a", 1)], transform=None, target_transform=None, loader=datasets.folder.pil_loader)
    assert_same_samples(lower_dataset(dataset), dataset, [("a", 1)])


NOT_DERIVED = ("__getitem__", "__getitems__", "__iter__", "__len__", "__getattr__", "__getattribute__")


@pytest.mark.parametrize("name", [*NOT_DERIVED, "loader", "samples", "target_transform", "transform"])
@pytest.mark.parametrize("is_mixin", [False, True])
def test_derived_classes_that_may_make_other_samples_are_not_lowered(
    folder: datasets.ImageFolder, name: str, is_mixin: bool
) -> None:
    mixin: Any = type("Mixin", (), {})
    kind: Any = type("Derived", (mixin, datasets.ImageFolder), {})
    dataset = kind(folder.root)
    source = lower_dataset(dataset)
    setattr(mixin if is_mixin else kind, name, object.__getattribute__ if name == "__getattribute__" else None)
    assert re.search(rf"( has its own| was given a) {name}\b", refused(dataset))
    assert not source.is_current()


@pytest.mark.parametrize("name", ["__getitem__", "__getitems__", "__len__"])
def test_overrides_on_the_object_are_not_lowered(folder: datasets.ImageFolder, tree: Path, name: str) -> None:
    own = ImageFolder(tree)
    subset = Subset(folder, [0])
    sources = [lower_dataset(dataset) for dataset in (own, subset)]
    for dataset, source in zip((own, subset), sources, strict=True):
        setattr(dataset, name, print)
        assert f"{name} was overridden on this" in refused(dataset)
        assert not source.is_current()


@pytest.mark.parametrize("name", ["pil_loader", "default_loader"])
def test_a_replaced_torchvision_loader_is_noticed(
    folder: datasets.ImageFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = lower_dataset(folder)
    monkeypatch.setattr(datasets.folder, name, lambda path: Image.new("RGB", (1, 1)))
    assert not source.is_current()
    refused(folder)


def test_a_replaced_getitem_of_the_class_is_noticed(
    folder: datasets.ImageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.DatasetFolder, "__getitem__", lambda self, index: (0, 0))
    assert "was replaced" in refused(folder)


def in_torchvisions_folder(tree: Path) -> Any:
    return datasets.ImageFolder(tree, transforms.ToTensor())


def in_two_folders(tree: Path) -> Any:
    return ConcatDataset([datasets.ImageFolder(tree), datasets.ImageFolder(tree)])


@pytest.mark.parametrize(
    ("make", "mutate"),
    [
        (in_torchvisions_folder, lambda f: f.samples.pop()),
        (in_torchvisions_folder, lambda f: f.samples.reverse()),
        (in_torchvisions_folder, lambda f: f.samples.__setitem__(4, ("other.png", 1))),
        (in_torchvisions_folder, lambda f: setattr(f, "samples", f.samples[:5])),
        (in_torchvisions_folder, lambda f: setattr(f, "transform", transforms.ToTensor())),
        (in_torchvisions_folder, lambda f: setattr(f, "transform", None)),
        (in_torchvisions_folder, lambda f: setattr(f, "target_transform", str)),
        (in_torchvisions_folder, lambda f: setattr(f, "loader", Image.open)),
        (in_two_folders, lambda c: c.datasets.reverse()),
        (in_two_folders, lambda c: c.datasets.pop()),
        (in_two_folders, lambda c: setattr(c, "datasets", tuple(c.datasets))),
        (in_two_folders, lambda c: c.cumulative_sizes.append(30)),
        (in_two_folders, lambda c: setattr(c.datasets[1], "transform", len)),
        (in_two_folders, lambda c: setattr(c.datasets[1], "target_transform", len)),
        (in_two_folders, lambda c: c.datasets[0].samples.reverse()),
        (in_two_folders, lambda c: setattr(c, "__getitem__", None)),
        (ImageFolder, lambda f: setattr(f, "samples", [("a", 1)])),
        (ImageFolder, lambda f: setattr(f, "transform", len)),
        (ImageFolder, lambda f: setattr(f, "target_transform", len)),
    ],
)
def test_a_changed_data_set_is_not_current(
    tree: Path, make: Callable[[Path], Any], mutate: Callable[[Any], Any]
) -> None:
    dataset = make(tree)
    sources = lower_dataset(dataset), lower_dataset(Subset(dataset, [0, 3]))
    assert all(source.is_current() for source in sources)
    mutate(dataset)
    assert not any(source.is_current() for source in sources)


def test_an_equal_copy_of_the_samples_is_current(folder: datasets.ImageFolder) -> None:
    source = lower_dataset(folder)
    folder.samples = [(str(path), label) for path, label in folder.samples]
    assert source.is_current()


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_changed_subset_indices_are_not_current(folder: datasets.ImageFolder, kind: Callable[[Any], Any]) -> None:
    subset = Subset(folder, kind([1, 2]))
    source = lower_dataset(subset)
    assert source.is_current()
    subset.indices[0] = 5  # type: ignore[index]
    assert not source.is_current()
    subset.indices[0] = 1  # type: ignore[index]
    assert source.is_current()
    subset.indices = [1, 2, 3]
    assert not source.is_current()


def test_torchvisions_samples_are_read_in_place(folder: datasets.ImageFolder) -> None:
    source = lower_dataset(folder)
    assert isinstance(source.table, ListedTable)
    assert_same_samples(source, folder, folder.samples)
    assert source.transforms[0] is folder.transform
    assert source.index_map is None
    assert source.is_current()
    assert source.table.labels_of(np.array([9, 0, 3])).tolist() == [folder.targets[index] for index in (9, 0, 3)]
    kept = list(folder.samples)
    folder.samples.clear()
    assert [source.table.sample(file) for file in range(10)] == kept
    with pytest.raises(IndexError):
        source.table.labels_of(np.array([10]))


@pytest.mark.parametrize("path", ["é.png", "\udcff.png", "日本.png", "\U0001f600.png"])
def test_samples_beyond_ascii_are_copied(folder: datasets.ImageFolder, path: str) -> None:
    folder.samples = [("a.png", -7), (path, 2**63 - 1), ("", -(2**63))]
    source = lower_dataset(folder)
    assert not isinstance(source.table, ListedTable)
    assert_same_samples(source, folder, folder.samples)


def test_lowering_a_million_samples_makes_no_object_for_each(folder: datasets.ImageFolder) -> None:
    folder.samples = [(f"/data/n{number // 1300:08}/{number}.JPEG", number // 1300) for number in range(10**6)]
    tracemalloc.start()
    begin = time.process_time()
    source = lower_dataset(folder)
    assert source.is_current()
    seconds = time.process_time() - begin
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 9 * len(source)  # the copy of the list takes 8 bytes for each
    # It takes about 0.03 s; a Python operation on each would take ten times this bound.
    assert seconds < 0.2
    assert source.table.path_bytes(999_999) == b"/data/n00000769/999999.JPEG"
