"""The cache folder of index files: interference costs a listing, never a program or a wrong sample."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

import pytest
from children import RunChild
from folder_trees import file_of, make_tree

NAMES = ["a/1.jpg", "a/sub/2.jpg", "b/3.jpg"]
OTHER_USER = 65534

PRELUDE = """
import os, socket, stat, subprocess, sys, warnings
from pathlib import Path
import fastload
from fastload.sources import _folder_scan
from fastload.sources._folder_index import index_file, read_folder
from fastload.sources._image_folder import IMG_EXTENSIONS
_folder_scan.SETTLED_AFTER_NS = 0
root = os.environ["FASTLOAD_TEST_ROOT"]
file = index_file(root, IMG_EXTENSIONS)
expected = list(fastload.ImageFolder(root, index="off").samples)

def start():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = read_folder(root, IMG_EXTENSIONS, "auto")
    assert list(map(found.table.sample, range(len(found.table)))) == expected
    return found.num_listed, [str(warning.message) for warning in seen]
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FASTLOAD_CACHE", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_tree(tmp_path / "data", NAMES)
    monkeypatch.setenv("FASTLOAD_TEST_ROOT", str(folder))
    return folder


@pytest.fixture
def run_start(root: Path, run_child: RunChild) -> RunChild:
    """Returns run_child with PRELUDE; its `start` tells what a data set of `root` lists and warns of."""

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return run_child(PRELUDE + textwrap.dedent(code), timeout=20, warm=True)

    return run


@pytest.mark.smoke
def test_an_index_that_another_program_cuts_in_use_ends_no_process(root: Path, run_start: RunChild) -> None:
    run_start("""
    start()
    assert start() == (0, [])
    dataset = fastload.ImageFolder(root)
    subprocess.run(["truncate", "--size", "0", file], check=True)
    assert list(dataset.samples) == expected
    assert dataset.targets == [0, 0, 1]
    """)


ODD_FILES = {
    "fifo": "os.mkfifo(file)",
    "socket": "os.chdir(file.parent); socket.socket(socket.AF_UNIX).bind(file.name)",
    "directory": "file.mkdir()",
    "link": "file.symlink_to(good)",
    "open to others": "file.write_bytes(blob); file.chmod(0o666)",
    "device": "os.mknod(file, stat.S_IFCHR | 0o600, os.makedev(1, 5))",  # /dev/zero
    "of another user": f"file.write_bytes(blob); os.chown(file, {OTHER_USER}, {OTHER_USER})",
}
WORDS = {
    "open to others": "other users can write to it",
    "of another user": f"it belongs to nobody (user {OTHER_USER})",
}


@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(kind, marks=pytest.mark.smoke) for kind in ("fifo", "open to others")),
        *("socket", "directory", "link"),
        *(pytest.param(kind, marks=as_root) for kind in ("device", "of another user")),
    ],
)
def test_only_a_regular_file_of_the_user_is_trusted(root: Path, run_start: RunChild, kind: str) -> None:
    run_start(f"""
    start()
    blob = file.read_bytes()
    file.unlink()
    good = file.with_name("good")
    good.write_bytes(blob)
    {ODD_FILES[kind]}
    listed, words = start()
    assert listed == 4
    assert {WORDS.get(kind, "it is not a regular file")!r} in words[0], words
    assert "is listed again" in words[0]
    if file.is_dir():
        assert "cannot be kept in" in words[1]
    else:
        assert len(words) == 1, words
        assert stat.S_IMODE(file.lstat().st_mode) == 0o600
        assert start() == (0, [])
    """)


@as_root
def test_a_cache_folder_of_another_user_is_not_used(root: Path, cache: Path, run_start: RunChild) -> None:
    run_start(f"""
    start()
    os.chown(file.parent, {OTHER_USER}, {OTHER_USER})
    before = file.stat()
    for _ in range(2):
        listed, words = start()
        assert listed == 4
        assert len(words) == 1
        assert f"cannot be kept in {{str(file.parent)!r}} (it belongs to nobody (user {OTHER_USER}))" in words[0]
        assert "Set FASTLOAD_CACHE to a folder of your own" in words[0]
    assert [*file.parent.iterdir()] == [file]
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    """)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_others_have_no_access_to_folder_and_files(root: Path, cache: Path, run_start: RunChild) -> None:
    run_start("start()")
    assert (mode_of(cache), mode_of(file_of(root))) == (0o700, 0o600)


@pytest.mark.parametrize(("mode", "others"), [(0o755, []), (0o777, []), (0o1777, []), (0o775, ["notes.txt"])])
def test_a_folder_is_closed_to_others_unless_they_may_need_it(
    root: Path, cache: Path, run_start: RunChild, mode: int, others: list[str]
) -> None:
    cache.mkdir()
    for name in others:
        (cache / name).write_bytes(b"")
    cache.chmod(mode)
    run_start("start()\nassert start() == (0, [])")
    assert mode_of(cache) == (mode if others or mode == 0o1777 else 0o700)


@pytest.mark.smoke
def test_files_of_a_killed_writer_are_removed(root: Path, cache: Path, run_start: RunChild) -> None:
    run_start("""
    import signal, time
    pid = os.fork()
    if pid == 0:
        os.replace = lambda *paths, **options: os.kill(os.getpid(), signal.SIGKILL)
        start()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    left, = file.parent.iterdir()
    start()
    assert sorted(file.parent.iterdir()) == sorted([file, left])  # it may still be written
    day = 24 * 3600 + 60
    os.utime(left, (time.time() - day, time.time() - day))
    file.unlink()
    start()
    assert list(file.parent.iterdir()) == [file]
    """)
