"""Files of a store removed, and nothing else."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fastload._decode_cache._folder import KEY, LAYOUT, LOCK, TEMPORARY_KEY, find_layout, locked
from fastload._decode_cache._report import BYTES_OF_BLOCK, report_of
from fastload._decode_cache._store import KINDS

# The names of files of records; .dir is removed first, so that nobody finds records whose .dat is gone.
_RECORD_FILE = re.compile(rf"(?P<stem>({'|'.join(KINDS)})-[0-9a-f]{{16}})(?P<ending>\.dat|\.dir|\.tmp)")
_ENDINGS = (".dir", ".tmp", ".dat")
# Without what is in them they mean nothing.
_LAST = (KEY, TEMPORARY_KEY, "merge", LOCK)  # earlier versions locked "merge"


@dataclass
class Clearing:
    """The result of clearing a store.

    Attributes:
        removed: Names of files, in the folder with the store's files.
        stale: Stem of a stale file -> why it is of use to nobody, where only such files are removed.
        num_bytes: That these took on disk.
        left: Name of what is left there -> why it is.
        folders: That were empty then, and are removed.
    """

    removed: list[str] = field(default_factory=list)
    stale: dict[str, str] = field(default_factory=dict)
    num_bytes: int = 0
    left: dict[str, str] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)


def clear_store(path: Path, *, only_stale: bool = False) -> Clearing:
    """Removes the store at `path`, except files that a living process writes to. Owners do not matter.

    With `only_stale` it removes only files of another version and damaged ones, and reads each record for that. Raises
    FileNotFoundError without a store, and OSError if it cannot be opened or a file cannot be removed.
    """
    stale = _stale_files(path) if only_stale else {}
    clearing = Clearing()
    with find_layout(path, is_checked=False) as (outer, folder), locked(folder):
        names = os.listdir(folder)  # noqa: PTH208 - by its descriptor
        for stem, endings in sorted(_endings_by_stem(names).items()):
            is_pair = ".dir" in endings and ".dat" in endings
            reason = stale.get(stem) if is_pair else "what a killed writer has left"
            if not only_stale:
                _remove_file(folder, stem, endings, clearing)
            elif reason is not None and _remove_file(folder, stem, endings, clearing):
                clearing.stale[stem] = reason
        if not only_stale:
            _remove_rest(outer, folder, path, clearing)
    if clearing.folders:
        with contextlib.suppress(OSError):  # something else is in it, or it is a link or a mount
            path.rmdir()
            clearing.folders.append(path)
    return clearing


def _stale_files(path: Path) -> dict[str, str]:
    """Returns the stem of each stale file, and why it is of use to nobody."""
    report = report_of(path, reads_records=True)
    foreign = {file["name"]: "of another version of fastload, or another machine" for file in report.those("foreign")}
    return {**foreign, **{file["name"]: "damaged" for file in report.damaged}}


def _endings_by_stem(names: Iterable[str]) -> dict[str, list[str]]:
    endings = defaultdict(list)
    for name in names:
        if (found := _RECORD_FILE.fullmatch(name)) is not None:
            endings[found["stem"]].append(found["ending"])
    return endings


def _remove_file(folder: int, stem: str, endings: list[str], clearing: Clearing) -> bool:
    """Removes the files of this stem, unless somebody writes to them; returns whether they are removed."""
    with contextlib.ExitStack() as until_removed:
        if ".dat" in endings:
            try:
                fd = os.open(f"{stem}.dat", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
                until_removed.callback(os.close, fd)
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(0, "it is not a regular file")
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                clearing.left[f"{stem}.dat"] = "a process that is alive writes to it"
                return False
            except OSError as error:
                clearing.left[f"{stem}.dat"] = str(error.strerror)
                return False
        for ending in _ENDINGS:
            if ending in endings:
                _unlink(folder, stem + ending, clearing)
    return True


def _unlink(folder: int, name: str, clearing: Clearing) -> None:
    with contextlib.suppress(FileNotFoundError):
        size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * BYTES_OF_BLOCK
        os.unlink(name, dir_fd=folder)
        clearing.removed.append(name)
        clearing.num_bytes += size


def _remove_rest(outer: int, folder: int, path: Path, clearing: Clearing) -> None:
    """Removes key and locks, if nobody needs them: with another key the files of a living writer are lost."""
    for name in set(os.listdir(folder)) - {*_LAST, *clearing.left}:
        found = _RECORD_FILE.fullmatch(name)
        if found is None or f"{found['stem']}.dat" not in clearing.left:
            clearing.left[name] = "it is no file of a store"
    if clearing.left:
        return
    for name in _LAST:
        _unlink(folder, name, clearing)
    with contextlib.suppress(OSError):  # somebody begins to use it
        os.rmdir(LAYOUT, dir_fd=outer)
        clearing.folders.append(path / LAYOUT)
