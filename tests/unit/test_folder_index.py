"""The index file of an ImageFolder: whatever happens to the folder or the file, the samples are torchvision's."""

from __future__ import annotations

import io
import multiprocessing
import multiprocessing.context
import multiprocessing.popen_spawn_posix
import os
import pickle
import random
import shutil
import struct
import threading
import time
import warnings
import zlib
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from children import RunChild
from folder_trees import assert_like_torchvision, corner, file_of, make_tree, outcome, wait_for_tick
from image_folders import make_clean_folder
from torch.utils.data import DataLoader, Subset, random_split
from torchvision import datasets, transforms

from fastload import ImageFolder
from fastload.sources import _folder_index, _folder_scan, _folder_table
from fastload.sources._folder_index import IndexMode, read_folder
from fastload.sources._folder_scan import FolderScan
from fastload.sources._folder_table import FolderTable
from fastload.sources._image_folder import IMG_EXTENSIONS
from fastload.sources._scan_threads import ScanThreads

NAMES = ["a/1.jpg", "a/2.png", "a/sub/1.jpg", "a/sub/deep/1.jpg", "b/1.jpg", "b/x.txt", "c/only/1.JPEG"]
NUM_DIRECTORIES = 7


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FASTLOAD_CACHE", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path, cache: Path) -> Path:
    return make_tree(tmp_path / "work" / "data", NAMES)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes directories trusted that are less than a minute old."""
    monkeypatch.setattr(_folder_scan, "SETTLED_AFTER_NS", 0)


def num_listed(root: Path, mode: IndexMode = "auto") -> int:
    return read_folder(str(root), IMG_EXTENSIONS, mode).num_listed


@pytest.mark.usefixtures("settled")
def test_one_index_serves_every_form_of_the_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    num_listed(root)
    monkeypatch.chdir(root.parent)
    (root.parent / "link").symlink_to("data")
    for form in (f"{root}//", "data", "./data/../data", Path("data"), "link"):
        assert num_listed(form) == 0  # type: ignore[arg-type]
        assert_like_torchvision(form)


CHANGES: dict[str, tuple[Callable[[Path], Any], int]] = {
    "a new file": (lambda root: (root / "a/0.jpg").write_bytes(b""), 1),
    "a new file that is no image": (lambda root: (root / "a/0.txt").write_bytes(b""), 1),
    "a file less": (lambda root: (root / "a/2.png").unlink(), 1),
    "the last file of a class": (lambda root: (root / "b/1.jpg").unlink(), 1),
    "a renamed file": (lambda root: (root / "a/sub/1.jpg").rename(root / "a/sub/9.jpg"), 1),
    "a file that is an image now": (lambda root: (root / "b/x.txt").rename(root / "b/x.jpg"), 1),
    "a file that moved to another class": (lambda root: (root / "a/2.png").rename(root / "b/2.png"), 2),
    "a new class": (lambda root: make_tree(root, ["bb/1.jpg"]), 2),
    "a new class without files": (lambda root: (root / "bb").mkdir(), 2),
    "a class less": (lambda root: shutil.rmtree(root / "b"), 1),
    "a renamed class": (lambda root: (root / "a").rename(root / "z"), 4),
    "exchanged classes": (lambda root: exchange(root / "a", root / "b"), 5),
    "a file in the root": (lambda root: (root / "loose.jpg").write_bytes(b""), 1),
    "a new deep file": (lambda root: (root / "a/sub/deep/2.jpg").write_bytes(b""), 1),
    "a new deep directory": (lambda root: make_tree(root, ["a/sub/deep/er/still/2.jpg"]), 3),
    "a deep directory less": (lambda root: shutil.rmtree(root / "a/sub/deep"), 1),
    "a deep directory that moved": (lambda root: (root / "a/sub").rename(root / "b/sub"), 4),
    "a file in the place of a directory": (lambda root: replace_by_file(root / "a/sub/deep"), 1),
    "a directory in the place of a file": (lambda root: replace_by_folder(root / "a/1.jpg"), 2),
    "a name beyond ASCII": (lambda root: make_tree(root, ["a/é.jpg", b"a/\xff.JPG", "a/z.jpg"]), 1),
    "another folder of the same name": (lambda root: replace_by_copy(root), NUM_DIRECTORIES),
    "files with other contents only": (lambda root: (root / "a/1.jpg").write_bytes(b"other"), 0),
}


def exchange(one: Path, other: Path) -> None:
    one.rename(one.parent / "kept")
    other.rename(one)
    (one.parent / "kept").rename(other)


def replace_by_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"")


def replace_by_folder(file: Path) -> None:
    file.unlink()
    make_tree(file, ["1.jpg"])


def replace_by_copy(root: Path) -> None:
    shutil.copytree(root, root.with_name("copy"))
    shutil.rmtree(root)
    root.with_name("copy").rename(root)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_samples_are_torchvisions_and_only_what_changed_is_listed(root: Path, change: str) -> None:
    assert_like_torchvision(root)
    wait_for_tick(root)
    action, expected = CHANGES[change]
    action(root)
    assert num_listed(root) == expected
    assert_like_torchvision(root)
    assert num_listed(root) == 0
    assert_like_torchvision(root)


LINKED: dict[str, Callable[[Path, Path], Any]] = {
    "a new file behind a link": lambda root, other: (other / "deep/9.jpg").write_bytes(b""),
    "a link that leads elsewhere": lambda root, other: retarget(root / "a/linked", root / "b"),
    "a link outside that leads elsewhere": lambda root, other: retarget(other.with_name("hop"), other / "deep"),
    "a link that leads nowhere": lambda root, other: other.rename(other.with_name("gone")),
    "a target that comes into being": lambda root, other: make_tree(other.with_name("later"), ["1.jpg", "x/2.jpg"]),
    "a target that is a file at last": lambda root, other: other.with_name("later").write_bytes(b""),
    "a linked directory that is a file now": lambda root, other: replace_by_file(other),
}


def retarget(link: Path, target: Path) -> None:
    link.unlink()
    link.symlink_to(target)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", LINKED)
@pytest.mark.parametrize("place", ["a/linked", "linked"])
def test_changes_behind_links_are_noticed(root: Path, change: str, place: str) -> None:
    other = make_tree(root.parent / "other", ["1.jpg", "deep/2.jpg"])
    (root / "a/linked").symlink_to(other)
    (root / "b/hopping").symlink_to(root.parent / "hop")
    (root.parent / "hop").symlink_to(other)
    (root / place).with_name("later").symlink_to(root.parent / "later")
    (root / place).with_name("linked2").symlink_to(other)
    assert_like_torchvision(root)
    wait_for_tick(root.parent)
    LINKED[change](root, other)
    assert_like_torchvision(root)
    assert_like_torchvision(root)


def random_change(root: Path, dice: random.Random) -> None:
    """Makes a random change to a folder at a random place; sometimes none."""
    folders = [Path(parent) for parent, _, _ in os.walk(root)]
    folder = dice.choice(folders)
    name = dice.choice(["1", "2.jpg", "é.png", "Z.JPG", "sub", "sub-1", "x.txt"])
    target = folder / name
    kind = dice.randrange(5)
    try:
        if kind == 0 and folder != root:
            target.write_bytes(b"")
        elif kind == 1:
            target.mkdir()
        elif kind == 2:
            shutil.rmtree(target) if target.is_dir() else target.unlink()
        elif kind == 3:
            target.rename(dice.choice(folders) / dice.choice(["moved", "moved.jpg", "1"]))
        elif folder != root:
            target.symlink_to(dice.choice(["nowhere", "2.jpg", root.parent / "outside"]))
    except OSError:
        return


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("seed", range(8))
def test_folders_that_change_at_random_stay_torchvisions(root: Path, seed: int) -> None:
    dice = random.Random(seed)
    make_tree(root.parent / "outside", ["1.jpg", "in/2.jpg"])
    for _ in range(25):
        for _ in range(dice.randrange(1, 5)):
            random_change(root, dice)
        assert_like_torchvision(root, allow_empty=False)
        wait_for_tick(root.parent)


def test_a_directory_changed_shortly_before_its_listing_is_listed_again(root: Path) -> None:
    assert num_listed(root) == NUM_DIRECTORIES
    assert num_listed(root) == NUM_DIRECTORIES


@pytest.mark.parametrize("has_rule", [True, False])
def test_the_rule_on_recent_changes_finds_a_file_made_in_the_tick_of_the_listing(
    root: Path, has_rule: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system's clock stands still: the times are the same before and after."""
    if not has_rule:
        monkeypatch.setattr(_folder_scan, "SETTLED_AFTER_NS", 0)
    read_folder(str(root), IMG_EXTENSIONS, "auto")
    (root / "b" / "late.jpg").write_bytes(b"")
    pretend_times_have_not_changed(root)
    assert len(ImageFolder(root)) == len(datasets.ImageFolder(root)) - (not has_rule)


def pretend_times_have_not_changed(root: Path) -> None:
    """Writes the directories' current times into the index."""

    def change(table: FolderTable, rows: Any) -> None:
        for number in range(len(rows)):
            status = (root / table.directory(number)).stat()
            rows[number, :2] = status.st_mtime_ns, status.st_ctime_ns

    rewrite(root, change)


def rewrite(root: Path, change: Callable[[FolderTable, Any], None]) -> None:
    """Changes the rows of an index file's directories, with matching checksums."""
    table = FolderTable(str(root), file_of(root).read_bytes())
    forge(root, lambda arrays: change(table, arrays["directories"]))


def forge(root: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes the arrays of an index file, with matching checksums."""
    file = file_of(root)
    table = FolderTable(str(root), file.read_bytes())
    arrays = {name: array.copy() for name, array in vars(table.arrays).items()}
    change(arrays)
    file.write_bytes(_folder_table.pack(table.key, _folder_table.FolderArrays(**arrays)))


@pytest.mark.usefixtures("settled")
def test_a_restored_mtime_hides_nothing(root: Path) -> None:
    status = (root / "b").stat()
    read_folder(str(root), IMG_EXTENSIONS, "auto")
    wait_for_tick(root)
    (root / "b" / "0.jpg").write_bytes(b"")
    os.utime(root / "b", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (root / "b").stat().st_mtime_ns == status.st_mtime_ns
    assert_like_torchvision(root)


@pytest.mark.usefixtures("settled")
def test_times_in_the_future_are_not_trusted(root: Path) -> None:
    future = time.time_ns() + 3600 * 10**9
    os.utime(root / "b", ns=(future, future))
    assert num_listed(root) == NUM_DIRECTORIES
    assert num_listed(root) == 1


@pytest.mark.usefixtures("settled")
def test_fuse_file_systems_are_trusted_only_on_request(root: Path) -> None:
    def set_fuse(table: FolderTable, rows: Any) -> None:
        rows[:, 4] |= _folder_table.IS_ON_FUSE

    num_listed(root)
    rewrite(root, set_fuse)
    assert num_listed(root, "trust") == 0
    assert num_listed(root, "auto") == NUM_DIRECTORIES


@pytest.mark.usefixtures("settled")
def test_a_link_that_leads_back_is_warned_of_at_each_start(root: Path) -> None:
    (root / "a" / "up").symlink_to("..")
    for _ in range(2):
        with pytest.warns(UserWarning, match="leads back to"):
            mine = ImageFolder(root)
        assert len(mine) == 6


def test_directories_that_cannot_be_listed_are_left_out_with_a_warning_until_they_can(run_child: RunChild) -> None:
    run_child("""
        import os, shutil, tempfile, warnings
        from pathlib import Path
        import folder_trees
        from fastload.sources import _folder_scan
        _folder_scan.SETTLED_AFTER_NS = 0
        top = Path(tempfile.mkdtemp())
        try:
            top.chmod(0o777)
            os.environ["FASTLOAD_CACHE"] = str(top / "cache")
            root = folder_trees.make_tree(top / "data", ["a/1.jpg", "a/locked/2.jpg", "b/1.jpg"])
            if os.getuid() == 0:
                for parent, _, files in os.walk(top):
                    os.chown(parent, 65534, 65534)
                os.seteuid(65534)
            (root / "a/locked").chmod(0)
            for _ in range(2):
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    folder_trees.assert_like_torchvision(root)
                assert ["locked' cannot be listed (Permission denied)" in str(w.message) for w in seen] == [True], seen
            (root / "a/locked").chmod(0o700)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                folder_trees.assert_like_torchvision(root)
                assert len(folder_trees.ImageFolder(root)) == 3
        finally:
            if os.getuid() == 0:
                os.seteuid(0)
            shutil.rmtree(top)
    """)


def test_few_descriptors_are_enough(root: Path, run_child: RunChild) -> None:
    make_tree(root, [f"c{number:03}/1.jpg" for number in range(200)])
    child = run_child(f"""
        import os, resource, warnings
        import fastload
        warnings.simplefilter("error")
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, free + 2))
        print(len(fastload.ImageFolder({str(root)!r}, index="off")))
    """)
    assert child.stdout.strip() == str(len(datasets.ImageFolder(root)))


# Damage to the file.


@pytest.fixture
def small(tmp_path: Path, cache: Path, settled: None) -> Path:
    root = make_tree(tmp_path / "data", ["a/1.jpg", "b/2.jpg"])
    num_listed(root)
    return root


def assert_is_made_anew(root: Path, blob: bytes) -> None:
    file, good = file_of(root), FolderTable(str(root), file_of(root).read_bytes())
    file.write_bytes(blob)
    with pytest.warns(UserWarning, match=r"the index file '.*' is damaged: .* is listed again"):
        assert num_listed(root) == 3
    assert file.read_bytes() == bytes(good.blob)
    assert_like_torchvision(root)


def test_a_file_cut_or_changed_anywhere_is_made_anew(small: Path) -> None:
    blob = file_of(small).read_bytes()
    for size in [*range(70), *range(70, len(blob), 13), len(blob) - 1]:
        assert_is_made_anew(small, blob[:size])
    assert_is_made_anew(small, blob + b"\0")
    dice = random.Random(1)
    for position in range(len(blob)):
        damaged = bytearray(blob)
        damaged[position] ^= 1 << dice.randrange(8)
        assert_is_made_anew(small, bytes(damaged))


def with_checksums(blob: bytes) -> bytes:
    """Returns `blob` with matching checksums, as an attacker would make it."""
    start = blob[:56] + struct.pack("=I", zlib.crc32(blob[64:]))
    return start + struct.pack("=I", zlib.crc32(start)) + blob[64:]


def put(array: str, text: bytes) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays[array][: len(text)] = np.frombuffer(text, dtype=np.uint8)

    return change


def set_column(column: int, values: list[int]) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays["directories"][:, column] = values

    return change


FORGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "exchanged labels": set_column(3, [-1, 1, 0]),
    "a label for two classes": set_column(3, [-1, 0, 0]),
    "a label that is left out": set_column(3, [-1, 0, 2]),
    "a label below 0": set_column(3, [-1, 0, -(2**60)]),
    "a root with a label": set_column(3, [0, 0, 1]),
    "a flag that there is not": set_column(4, [0, 0, 64]),
    "exchanged classes": put("paths", b"b/a/"),
    "a name above the root": put("names", b"../.."),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_contents_that_contradict_the_folder_are_refused_despite_checksums_that_fit(small: Path, forgery: str) -> None:
    good = file_of(small).read_bytes()
    forge(small, FORGED[forgery])
    assert file_of(small).read_bytes() != good
    with pytest.warns(UserWarning, match=r"the index file '.*' is damaged: .* is listed again"):
        assert_like_torchvision(small)
    assert file_of(small).read_bytes() == good


@pytest.mark.parametrize("field", range(5))
def test_counts_beyond_the_file_take_no_memory(small: Path, field: int) -> None:
    for count in (2**63, 2**40):
        blob = bytearray(file_of(small).read_bytes())
        blob[16 + 8 * field : 24 + 8 * field] = struct.pack("=Q", count)
        assert_is_made_anew(small, with_checksums(bytes(blob)))


def test_a_file_as_large_as_a_disk_is_not_read(small: Path) -> None:
    good = file_of(small).read_bytes()
    sizes, _ = _folder_table._read_header(good)
    huge = bytearray(good)
    huge[48:56] = struct.pack("=Q", sizes[-1] + 2**43)
    file_of(small).write_bytes(with_checksums(bytes(huge)))
    os.truncate(file_of(small), _folder_table._file_bytes((*sizes[:-1], sizes[-1] + 2**43)))
    with pytest.warns(UserWarning, match=r"is damaged: it has \d{13} bytes, more than 4294967296"):
        assert num_listed(small) == 3
    assert file_of(small).read_bytes() == good


def test_memory_that_is_not_sealed_is_not_mapped(small: Path) -> None:
    """A holder of its descriptor could truncate it."""
    blob = file_of(small).read_bytes()
    fd = os.memfd_create("plain", os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, blob)
        plain = FolderTable(str(small), _folder_table.contents(fd))
        sealed = FolderTable(str(small), _folder_table.contents(plain._descriptor()))
        os.truncate(fd, 0)
        with pytest.raises(PermissionError):
            os.truncate(plain._descriptor(), 0)
        assert plain.blob == sealed.blob == blob
    finally:
        os.close(fd)


@pytest.mark.parametrize("position", [0, 8, 12], ids=["another kind", "another version", "another byte order"])
def test_files_of_others_are_replaced_silently(small: Path, position: int) -> None:
    file = file_of(small)
    blob = bytearray(file.read_bytes())
    blob[position] ^= 3
    file.write_bytes(with_checksums(bytes(blob)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert num_listed(small) == 3
    assert num_listed(small) == 0


def test_the_index_of_another_folder_is_not_taken(small: Path, tmp_path: Path) -> None:
    other = make_tree(tmp_path / "other", ["x/9.jpg"])
    num_listed(other)
    shutil.copy(file_of(other), file_of(small))
    assert num_listed(small) == 3
    assert_like_torchvision(small)


# Its place.


def test_a_cache_folder_that_cannot_be_written_costs_a_warning(root: Path, cache: Path) -> None:
    cache.write_bytes(b"a file")
    with pytest.warns(UserWarning, match="cannot be kept in .* Set FASTLOAD_CACHE to a folder") as seen:
        assert_like_torchvision(root)
    assert len(seen) == 1


def test_a_full_disk_leaves_nothing_behind(root: Path, cache: Path, run_child: RunChild) -> None:
    child = run_child(f"""
        import resource, signal, warnings
        import fastload
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            dataset = fastload.ImageFolder({str(root)!r})
        print(len(dataset), [str(warning.message) for warning in seen])
    """)
    assert child.stdout.startswith("6 ")
    assert "cannot be kept in" in child.stdout
    assert "File too large" in child.stdout
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"FASTLOAD_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, "/own"),
        ({"FASTLOAD_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/fastload"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/fastload"),
        ({"HOME": "/h"}, "/h/.cache/fastload"),
    ],
)
def test_the_cache_folder_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str, tmp_path: Path
) -> None:
    for name in ("FASTLOAD_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert file_of(tmp_path).parent == Path(expected)


def test_no_file_is_made_where_none_is_wanted_or_a_function_decides(root: Path, cache: Path) -> None:
    assert_like_torchvision(root, index="off")
    ImageFolder(root, is_valid_file=lambda path: path.endswith("1.jpg"), allow_empty=True)
    assert not cache.exists()
    with pytest.raises(ValueError, match=r"index must be 'auto', 'trust' or 'off', got 'always'"):
        ImageFolder(root, index="always")  # type: ignore[arg-type]


def test_an_empty_class_is_an_error_of_the_indexed_folder_too(root: Path) -> None:
    (root / "d").mkdir()
    for _ in range(2):
        assert_like_torchvision(root)
        assert outcome(lambda: ImageFolder(root, allow_empty=True)) == outcome(
            lambda: datasets.ImageFolder(root, allow_empty=True)
        )


def keep_reading(root: Path, file: Path, seed: int, failures: Any) -> None:
    dice = random.Random(seed)
    _folder_scan.SETTLED_AFTER_NS = 0
    expected = outcome(lambda: datasets.ImageFolder(root))
    for _ in range(60):
        if dice.random() < 0.4:
            file.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if outcome(lambda: ImageFolder(root)) != expected:
                failures.put(seed)


def test_processes_that_write_at_once_read_whole_files(root: Path) -> None:
    context = multiprocessing.get_context("fork")
    failures = context.SimpleQueue()
    file = file_of(root)
    children = [context.Process(target=keep_reading, args=(root, file, seed, failures)) for seed in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert failures.empty()
    assert_like_torchvision(root)
    assert list(file.parent.iterdir()) == [file]


# In other processes.


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clean_folder(tmp_path_factory.mktemp("images"), 7)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("is_mapped", [False, True])
def test_torchs_workers_get_the_data_set_by_every_start_method(
    images: Path, cache: Path, settled: None, method: str, is_mapped: bool
) -> None:
    if is_mapped:
        ImageFolder(images)
    mine = ImageFolder(images, corner)
    shutil.rmtree(cache)  # workers need no file
    theirs = datasets.ImageFolder(images, corner)
    batches = list(DataLoader(mine, batch_size=3, num_workers=1, multiprocessing_context=method))
    expected = list(DataLoader(theirs, batch_size=3))
    assert len(batches) == len(expected)
    for (pictures, labels), (their_pictures, their_labels) in zip(batches, expected, strict=True):
        assert torch.equal(pictures, their_pictures)
        assert torch.equal(labels, their_labels)


def test_a_spawned_process_gets_no_copy(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ImageFolder(make_tree(tmp_path / "data", [f"a/{number:050}.jpg" for number in range(2000)]))
    monkeypatch.setattr(multiprocessing.context, "get_spawning_popen", PopenOfThisProcess)
    stream = io.BytesIO()
    ForkingPickler(stream).dump(dataset)
    copy = pickle.loads(stream.getvalue())
    assert len(stream.getvalue()) < 2000
    assert list(copy.samples) == list(dataset.samples)
    assert copy.targets == dataset.targets


class PopenOfThisProcess:
    """Replaces a process that is being spawned and gets its descriptors by duplication."""

    def duplicate_for_child(self, fd: int) -> int:
        return os.dup(fd)

    def DupFd(self, fd: int) -> Any:
        return multiprocessing.popen_spawn_posix._DupFd(fd)  # type: ignore[attr-defined]


def test_a_pickle_needs_neither_index_nor_folder(root: Path, cache: Path) -> None:
    dataset = ImageFolder(root)
    expected = list(dataset.samples)
    pickled = pickle.dumps(dataset)
    shutil.rmtree(cache)
    shutil.rmtree(root)
    assert list(pickle.loads(pickled).samples) == expected


def test_descriptors_are_given_back(root: Path) -> None:
    def num_open() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    for _ in range(2):
        ImageFolder(root)
    before = num_open()
    for _ in range(20):
        dataset = ImageFolder(root)
        dataset.path_table._descriptor()  # type: ignore[attr-defined]
        del dataset
    assert num_open() == before


# Its cost, and its likeness to torchvision's.


@pytest.mark.usefixtures("settled")
def test_a_file_of_imagenet_takes_less_than_30_bytes(tmp_path: Path, cache: Path) -> None:
    names = [f"n{label:08}/n{label:08}_{number}.JPEG" for label in range(4) for number in range(1300)]
    root = make_tree(tmp_path / "imagenet", names)
    dataset = ImageFolder(root)
    assert file_of(root).stat().st_size < 30 * len(dataset)
    assert dataset.path_table.blob.nbytes == file_of(root).stat().st_size  # type: ignore[attr-defined]


def test_it_is_used_as_torchvisions_is(images: Path, cache: Path) -> None:
    mine, theirs = ImageFolder(images), datasets.ImageFolder(images)
    assert np.bincount(mine.targets).tolist() == np.bincount(theirs.targets).tolist()
    parts = [random_split(dataset, [5, 2], torch.Generator().manual_seed(1)) for dataset in (mine, theirs)]
    for one, other in zip(*parts, strict=True):
        assert one.indices == other.indices
        assert one[0] == other[0]
    assert Subset(mine, [3])[0] == theirs[3]
    assert mine.extensions == theirs.extensions
    assert torch.equal(torch.as_tensor(mine.targets), torch.as_tensor(theirs.targets))


@pytest.mark.parametrize("transform", [None, transforms.Compose([transforms.CenterCrop(24), transforms.ToTensor()])])
@pytest.mark.parametrize("target_transform", [None, hex])
def test_its_repr_and_transforms_are_torchvisions(
    images: Path, cache: Path, transform: Any, target_transform: Any
) -> None:
    mine = ImageFolder(images, transform, target_transform)
    theirs = datasets.ImageFolder(images, transform, target_transform)
    assert repr(mine) == repr(theirs)
    assert (mine.transforms is None) == (theirs.transforms is None)
    if mine.transforms is not None:
        image, label = datasets.ImageFolder(images)[0]
        (picture, target), (their_picture, their_target) = (
            mine.transforms(image, label),
            theirs.transforms(image, label),
        )
        assert target == their_target
        assert np.array_equal(np.asarray(picture), np.asarray(their_picture))


def test_a_loader_of_ones_own_is_called_with_the_path(images: Path, cache: Path) -> None:
    dataset = ImageFolder(images, len, None, os.fsencode)
    assert dataset[2] == (len(os.fsencode(dataset.samples[2][0])), dataset.targets[2])


def test_threads_validate_many_directories(tmp_path: Path, cache: Path, settled: None) -> None:
    root = make_tree(tmp_path / "data", [f"c{number:03}/1.jpg" for number in range(150)])
    assert num_listed(root) == 151
    assert num_listed(root) == 0
    wait_for_tick(root)
    for number in (0, 77, 149):
        (root / f"c{number:03}" / "2.jpg").write_bytes(b"")
    assert num_listed(root) == 3
    assert_like_torchvision(root)
    assert _folder_index._FEW_DIRECTORIES < 151


def test_an_interrupt_ends_the_listing(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_tree(tmp_path / "data", [f"c{number:03}/1.jpg" for number in range(640)])
    asked = []
    is_cancelled = threading.Event()
    ask_system, leave = FolderScan._ask_system, ScanThreads.__exit__

    def slow(self: FolderScan, directories: Any) -> Any:
        asked.append(directories)
        assert directories[0].name == "c000" or is_cancelled.wait(20)
        return ask_system(self, directories)

    def interrupted(self: FolderScan, directory: Any, found: Any) -> None:
        raise KeyboardInterrupt

    def cancel(self: ScanThreads, *error: Any) -> None:
        leave(self, *error)
        is_cancelled.set()

    monkeypatch.setattr(FolderScan, "_ask_system", slow)
    monkeypatch.setattr(FolderScan, "_take", interrupted)
    monkeypatch.setattr(ScanThreads, "__exit__", cancel)
    with pytest.raises(KeyboardInterrupt):
        ImageFolder(root)
    assert len(asked) <= _folder_scan.NUM_THREADS + 1  # of 64 pieces of work
