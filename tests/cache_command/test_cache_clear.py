"""``fastload cache clear``: the files that it removes and leaves."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cache_commands import OPTIONS, each_kind, files_of, flip, loader
from cached_epochs import publish
from image_folders import save_jpeg

from fastload._decode_cache import _clearing, _folder
from fastload._decode_cache._build import ImageFiles, begin_build


def test_clear_removes_the_store_and_its_folders(folder: Path, run: Any) -> None:
    for options in OPTIONS.values():
        run("build", "images", "--path", "store", *options)
    exit_code, _, text = run("clear", "store")
    assert exit_code == 0
    size = r"\d\d\d kB"
    assert re.match(
        rf"fastload cache clear: 6 files removed from {folder / 'store'}, {size}\n", text
    )  # with key and lock
    assert text.count("folder removed: ") == 2
    assert not (folder / "store").exists()
    assert (folder / "images").exists()


def test_clear_leaves_what_is_not_a_stores(folder: Path, run: Any) -> None:
    for options in OPTIONS.values():
        run("build", "images", "--path", "store", *options)
    names = ["v1/notes.txt", "v1/index-0.dat", "v1/pictures-0123456789abcdef.dat", "v2"]
    others = [folder / "store" / name for name in names]
    for other in others:
        other.write_text("mine")
    text = run("clear", "store")[2]
    assert "left: notes.txt: it is no file of a store" in text
    assert all(other.read_text() == "mine" for other in others)
    assert files_of(folder / "store") == [others[1]]
    assert files_of(folder / "store", what="coefficients") == []
    assert (folder / "store" / "v1" / "key").exists()  # a process that has it open goes on
    for other in others[:3]:
        other.unlink()
    assert "folder removed: " in run("clear", "store")[2]
    assert [file.name for file in (folder / "store").iterdir()] == ["v2"]


def test_clear_follows_no_link(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    (file,) = files_of(folder / "store")
    target = folder / "target"
    file.rename(target)
    file.symlink_to(target)
    assert f"left: {file.name}: " in run("clear", "store")[2]
    assert target.exists()


@pytest.mark.parametrize("option", [[], ["--stale"]])
def test_a_file_of_a_build_that_goes_on_is_left_and_named(folder: Path, run: Any, option: list[str]) -> None:
    build = begin_build(folder / "store", 1 << 30, "coefficients", ImageFiles([]))
    assert build.action()(b"images/class0/0000.JPEG") == "kept"
    (file,) = files_of(folder / "store", what="coefficients")
    assert f"left: {file.name}: a process that is alive writes to it" in run("clear", "store", *option)[2]
    assert build.close()
    assert build.num_kept(1) == 1
    assert run("verify", "store")[0] == 0


@pytest.mark.parametrize("option", [[], ["--stale"]])
def test_a_file_that_a_living_process_writes_to_is_left_and_named(folder: Path, run: Any, option: list[str]) -> None:
    living = loader(folder / "store")
    list(living)
    publish(living)
    (file,) = files_of(folder / "store")
    assert run("info", "store")[1]["writers"] == "1  processes that keep more"
    flip(file, file.stat().st_size - 20 if option else 0)  # of no use to anybody, but it is somebody's
    key = (folder / "store" / "v1" / "key").read_bytes()
    text = run("clear", "store", *option)[2]
    assert f"left: {file.name}: a process that is alive writes to it" in text
    assert file.exists()
    assert file.with_suffix(".dir").exists()
    assert (folder / "store" / "v1" / "key").read_bytes() == key
    living.close()


@each_kind
def test_stale_are_remains_and_files_with_damage_but_not_the_others(folder: Path, run: Any, what: str) -> None:
    run("build", "images", "--path", "store", *OPTIONS[what])
    (good,) = files_of(folder / "store", what=what)
    save_jpeg(folder / "more" / "1.jpg", 50, 200, 150)
    pair = [good, good.with_suffix(".dir")]
    for file in pair:  # aside, because a build goes on with a file of indexes
        file.rename(folder / file.name)
    run("build", "more", "--path", "store", *OPTIONS[what])
    (damaged,) = files_of(folder / "store", what=what)
    for file in pair:
        (folder / file.name).rename(file)
    flip(damaged, damaged.stat().st_size - 20)
    remains = [good.with_name(f"{what}-{'0' * 15}{number}{end}") for number, end in enumerate((".dat", ".dir", ".tmp"))]
    for remain in remains:
        remain.write_bytes(b"of a writer that was killed")
    exit_code, _, text = run("clear", "store", "--stale")
    assert exit_code == 0
    assert text.startswith("fastload cache clear: 5 files removed from ")
    assert files_of(folder / "store", what=what) == [good]
    assert run("verify", "store", "--against", "images")[0] == 0


def test_a_folder_of_another_layout_is_no_store_and_stays(folder: Path, run: Any) -> None:
    later = folder / "store" / "v2" / "index-0123456789abcdef.dat"
    later.parent.mkdir(parents=True)
    later.write_bytes(b"of a later version")
    for command in ("info", "verify", "clear"):
        exit_code, _, text = run(command, "store")
        assert exit_code == 2
        assert text == (
            f'fastload cache: error: there is no store in {folder / "store"}: "fastload cache build" makes one, and so '
            "does a loader with cache=Cache(...)\n"
        )
    assert later.exists()


def test_who_waits_for_the_lock_of_a_store_that_is_removed_gets_that_of_the_next_one(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    fd = os.open(folder / "store" / "v1", os.O_RDONLY)
    is_first, flock = iter([True, False]), _folder.fcntl.flock

    def exchanging(lock: int, operation: int) -> None:
        flock(lock, operation)
        if next(is_first):
            (folder / "store" / "v1" / "lock").unlink()

    with mock.patch.object(_folder.fcntl, "flock", exchanging), _folder.locked(fd):
        assert next(is_first, None) is None
    os.close(fd)


def test_a_writer_that_begins_meanwhile_keeps_the_folder(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    unlink = _clearing._unlink

    def unlink_and_begin(fd: int, name: str, clearing: Any) -> None:
        unlink(fd, name, clearing)
        if name == "lock":
            (folder / "store" / "v1" / "lock").touch()

    with mock.patch.object(_clearing, "_unlink", unlink_and_begin):
        assert "folder removed" not in run("clear", "store")[2]
    assert (folder / "store" / "v1" / "lock").exists()
