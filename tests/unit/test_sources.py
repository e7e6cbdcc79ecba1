"""ImageFolder and ImageFiles: torchvision's semantics without torchvision, held in arrays."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from folder_trees import assert_same_index, make_tree
from PIL import Image
from torchvision import datasets, transforms

from fastload.sources import ImageFiles, ImageFolder
from fastload.sources._sample_table import PathTable

HOSTILE_NAMES: list[str | bytes] = [
    "b/2.jpg",
    "b/10.JPG",
    "b/1.JPEG",
    "B/1.jpeg",
    "a b/new\nline.png",
    "a b/.jpg",
    "a b/.hidden.jpg",
    "a b/sub/1.jpg",
    "a b/sub-1/1.jpg",
    "a b/sub/deep/er/1.webp",
    "a b/sub/not.txt",
    "a b/jpg",
    "grün/ß.bmp",
    "grün/" + "n" * 250 + ".tiff",
    b"bad\xff\xfe/\xf0\x28.jpg",
    "bad/\U0001f600.jpg",
    b"bad/\xff.jpg",
    "bad/.ppm",
    ".hidden/1.pgm",
]


def test_index_is_torchvisions_for_hostile_names(tmp_path: Path) -> None:
    root = make_tree(tmp_path, HOSTILE_NAMES)
    (tmp_path / "loose.jpg").write_bytes(b"")
    mine = ImageFolder(root)
    assert_same_index(mine, datasets.ImageFolder(root))
    assert len(mine) == 17


@pytest.mark.parametrize("style", ["slash", "relative", "dots", "pathlike", "tilde"])
def test_paths_keep_the_form_of_the_given_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    make_tree(tmp_path / "data", ["x/1.jpg", "y/s/2.jpg"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    root: Any = {
        "slash": f"{tmp_path}/data//",
        "relative": "data",
        "dots": "./data/../data",
        "pathlike": Path("data"),
        "tilde": "~/data",
    }[style]
    assert_same_index(ImageFolder(root), datasets.ImageFolder(root))


def test_links_to_files_and_folders_are_followed(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "data", ["a/1.jpg", "b/1.jpg"])
    other = make_tree(tmp_path / "other", ["deep/1.jpg", "2.jpg"])
    (root / "a" / "linked").symlink_to(other)
    (root / "a" / "again").symlink_to(other)
    (root / "c").symlink_to(other)
    (root / "b" / "dangling.jpg").symlink_to("nowhere")
    (root / "b" / "self.jpg").symlink_to("self.jpg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = ImageFolder(root)
    assert_same_index(mine, datasets.ImageFolder(root))
    assert len(mine) == 10


@pytest.mark.parametrize("target", ["..", "../sub", "../..", "../sub/..", "../../a", "../../.."])
def test_link_to_a_containing_folder_is_not_entered_and_warns(tmp_path: Path, target: str) -> None:
    root = make_tree(tmp_path / "data", ["a/1.jpg", "a/sub/2.jpg", "b/1.jpg"])
    (root / "a" / "sub" / "up").symlink_to(target)
    with pytest.warns(UserWarning, match="leads back to") as seen:
        mine = ImageFolder(root)
    assert repr(str(root / "a" / "sub" / "up")) in str(seen[0].message)
    assert [path for path, _ in mine.samples] == [f"{root}/a/1.jpg", f"{root}/a/sub/2.jpg", f"{root}/b/1.jpg"]


def test_links_round_each_other_end(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "data", ["a/1.jpg"])
    other = make_tree(tmp_path / "other", ["p/2.jpg", "q/3.jpg"])
    (root / "a" / "p").symlink_to(other / "p")
    (other / "p" / "q").symlink_to(other / "q")
    (other / "q" / "p").symlink_to(other / "p")
    with pytest.warns(UserWarning, match="leads back to"):
        mine = ImageFolder(root)
    assert [Path(path).name for path, _ in mine.samples] == ["1.jpg", "2.jpg", "3.jpg"]


def test_a_folder_met_again_below_a_link_is_not_entered(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "data", ["a/1.jpg"])
    other = make_tree(tmp_path / "other", ["outer/2.jpg", "outer/inner/3.jpg"])
    (root / "a" / "down").symlink_to(other / "outer" / "inner")
    (other / "outer" / "inner" / "up").symlink_to(other / "outer")
    with pytest.warns(UserWarning, match="leads back to") as seen:
        mine = ImageFolder(root)
    assert [path.removeprefix(f"{root}/a/") for path, _ in mine.samples] == ["1.jpg", "down/3.jpg", "down/up/2.jpg"]
    assert len(seen) == 1
    assert "a/down/up/inner" in str(seen[0].message)


@pytest.mark.parametrize("case", ["missing", "file", "no class", "empty class", "empty class, own filter"])
def test_errors_at_construction_are_torchvisions(tmp_path: Path, case: str) -> None:
    root = tmp_path / "data"
    options: dict[str, Any] = {}
    if case == "file":
        root.write_bytes(b"")
    elif case == "no class":
        make_tree(root, ["1.jpg"])
    elif case.startswith("empty class"):
        make_tree(root, ["full/1.jpg", "b/x.txt", "a/y.txt"])
        if "filter" in case:
            options["is_valid_file"] = lambda path: path.endswith(".jpg")
    with pytest.raises(OSError) as theirs:  # noqa: PT011
        datasets.ImageFolder(root, **options)
    with pytest.raises(type(theirs.value)) as mine:
        ImageFolder(root, **options)
    assert str(mine.value) == str(theirs.value)


def test_allow_empty_and_own_filter_are_torchvisions(tmp_path: Path) -> None:
    root = make_tree(tmp_path, ["full/1.jpg", "full/2.xyz", "empty/x.txt"])
    asked: list[str] = []

    def is_valid_file(path: str) -> bool:
        asked.append(path)
        return path.endswith(".xyz")

    assert_same_index(ImageFolder(root, allow_empty=True), datasets.ImageFolder(root, allow_empty=True))
    mine = ImageFolder(root, is_valid_file=is_valid_file, allow_empty=True)
    assert sorted(asked) == [f"{root}/empty/x.txt", f"{root}/full/1.jpg", f"{root}/full/2.xyz"]
    assert_same_index(mine, datasets.ImageFolder(root, is_valid_file=is_valid_file, allow_empty=True))


def test_bytes_root_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"use os\.fsdecode"):
        ImageFolder(b"data")  # type: ignore[arg-type]


@pytest.fixture
def image_tree(tmp_path: Path) -> Path:
    for number in range(6):
        folder = tmp_path / "images" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.radial_gradient("L").resize((20 + number, 17)).save(folder / f"{number}.png")
    return tmp_path / "images"


def test_items_are_torchvisions(image_tree: Path) -> None:
    transform = transforms.Compose([transforms.CenterCrop(12), transforms.ToTensor()])

    def one_hot(label: int) -> list[bool]:
        return [label == 0, label == 1]

    mine = ImageFolder(image_tree, transform, one_hot)
    theirs = datasets.ImageFolder(image_tree, transform, one_hot)
    for index in (0, 5, -1, -6, np.int64(3), torch.tensor(2)):
        assert torch.equal(mine[index][0], theirs[index][0])
        assert mine[index][1] == theirs[index][1]
    plain = ImageFolder(image_tree)[1]
    assert plain[0].mode == "RGB"
    assert plain == datasets.ImageFolder(image_tree)[1]
    assert type(plain[1]) is int


@pytest.mark.parametrize(
    ("index", "error"), [(6, IndexError), (-7, IndexError), ("x", TypeError), (1.0, TypeError), ((0,), TypeError)]
)
def test_bad_keys_raise_what_a_list_raises(image_tree: Path, index: Any, error: type[Exception]) -> None:
    dataset = ImageFolder(image_tree)
    with pytest.raises(error, match="list ind"):
        dataset[index]
    with pytest.raises(error, match="list ind"):
        dataset.samples[index]


def test_views_behave_as_lists(image_tree: Path) -> None:
    dataset = ImageFolder(image_tree)
    theirs = datasets.ImageFolder(image_tree)
    assert dataset.samples == theirs.samples
    assert theirs.samples == dataset.samples
    assert dataset.samples != theirs.samples[:-1]
    assert dataset.samples[1:4] == theirs.samples[1:4]
    assert dataset.samples[::-2] == theirs.samples[::-2]
    assert dataset.samples.index(theirs.samples[2]) == 2
    assert dataset.targets == theirs.targets
    assert dataset.targets.count(1) == 3
    labels = np.asarray(dataset.targets)
    assert labels.dtype == np.int64
    labels[0] = 77
    assert dataset.targets[0] == 0
    assert repr(dataset.targets) == "[0, 0, 0, ...] (6 items)"


def test_assigning_samples_replaces_the_index(image_tree: Path) -> None:
    dataset = ImageFolder(image_tree)
    dataset.samples = dataset.samples[4:]
    assert len(dataset) == 2
    assert dataset.targets == [1, 1]
    assert dataset[0][0].size == (23, 17)


@pytest.mark.parametrize("labels", [[3, 1], (3, 1), np.array([3, 1], np.int32), torch.tensor([3, 1])])
def test_image_files_take_paths_and_labels_of_many_kinds(tmp_path: Path, labels: Any) -> None:
    files = ImageFiles([tmp_path / "a", b"\xff"], labels)
    assert list(files.samples) == [(str(tmp_path / "a"), 3), ("\udcff", 1)]
    assert all(type(label) is int for label in files.targets)


@pytest.mark.parametrize(
    ("paths", "labels", "error", "text"),
    [
        (["a"], [1, 2], ValueError, "equal length, got 1 and 2"),
        (["a", "b"], [1, 1.5], TypeError, "labels must be ints, got 1.5 of type float"),
        (["a"], [True], TypeError, "labels must be ints, got True of type bool"),
        (["a"], ["1"], TypeError, "labels must be ints, got '1'"),
        (["a", "b\0c"], [1, 2], ValueError, r"zero byte, got 'b\\x00c'"),
        ([3], [1], TypeError, "a path must be str, bytes or PathLike, got 3"),
        (["a"], [1 << 63], OverflowError, "more than 64 bits, got 9223372036854775808"),
    ],
)
def test_bad_file_lists_are_refused(paths: Any, labels: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ImageFiles(paths, labels)


def test_path_table_round_trips_any_names() -> None:
    samples = [("", 1), ("a", -5), ("\udcff\n", 2**62), ("日本", 0), ("", 3)]
    table = PathTable.from_samples(iter(samples))
    assert [table.sample(index) for index in range(len(table))] == samples
    assert table.arena.tobytes() == "a\udcff\n日本".encode("utf-8", "surrogateescape")
    assert [array.dtype.name for array in (table.arena, table.offsets, table.labels)] == ["uint8", "int64", "int64"]
    assert table.offsets.tolist() == [0, 0, 1, 3, 9, 9]
    with pytest.raises(ValueError, match="read-only"):
        table.offsets[0] = 1


def test_empty_path_table() -> None:
    table = PathTable.from_samples([])
    assert (len(table), table.offsets.tolist(), table.arena.size) == (0, [0], 0)


def test_path_table_crosses_chunk_borders() -> None:
    count = (1 << 16) + 3
    table = PathTable.from_samples((f"p{number}", number) for number in range(count))
    for index in (0, 65534, 65535, 65536, count - 1):
        assert table.sample(index) == (f"p{index}", index)


def test_torchvision_is_not_imported() -> None:
    code = "import sys, fastload.sources._lowering, fastload.transforms._lowering, fastload.samplers._sampled\n"
    code += "assert not [name for name in sys.modules if name.startswith('torchvision')]"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
