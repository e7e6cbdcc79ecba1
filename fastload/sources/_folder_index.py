"""Index files in the cache folder: the contents of a folder when it was last read.

A start reads the file and asks the system for the times of every directory; it lists the changed ones again. Files are
replaced by renaming and never changed, so processes need no lock: each reads a whole file, and the last writer wins.
A file leads a program to the files that it loads, so it is trusted only if its owner could have changed the program.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import secrets
import stat
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fastload._process import _config
from fastload._process._trust import UntrustedFileError, check_owner, open_file, open_folder, replace_file
from fastload.sources._folder_scan import NUM_THREADS, FolderScan
from fastload.sources._folder_table import (
    IS_ON_FUSE,
    IS_RECENT,
    IS_UNSURE,
    DamagedIndexError,
    FolderTable,
    ForeignIndexError,
    contents,
    pack,
)
from fastload.sources._scan_threads import ScanThreads

IndexMode = Literal["auto", "trust", "off"]
_DISTRUSTED = {"auto": IS_RECENT | IS_UNSURE | IS_ON_FUSE, "trust": IS_RECENT | IS_UNSURE}
# For fewer directories, one system call each is faster than threads.
_FEW_DIRECTORIES = 32
_INDEX_NAME = re.compile(r"[0-9a-f]{32}\.index(\..*\.tmp)?", re.DOTALL)
# Writing takes seconds; a writer that is stopped for a day loses only the file that it would have kept.
_ABANDONED_AFTER_SECONDS = 24 * 3600


@dataclass(frozen=True)
class IndexedFolder:
    """A folder's files, the number of directories that had to be listed for them, and the index file, if any."""

    table: FolderTable
    num_listed: int
    file: Path | None


def read_folder(root: str, extensions: Sequence[str], mode: IndexMode) -> IndexedFolder:
    """Returns the files below `root` with one of `extensions`, from the index as far as the folder is unchanged.

    Raises OSError like `FolderScan.run`.
    """
    key = _key(root, extensions)
    file = _index_file(key) if mode != "off" else None
    known = None if file is None else _read(file, root, key)
    changed = [] if known is None else changed_directories(known, _DISTRUSTED[mode])
    if known is not None and not changed:
        return IndexedFolder(known, 0, file)
    scan = FolderScan(root, extensions, known, changed)
    blob = pack(key, scan.run())
    if file is not None and (known is None or known.blob != blob) and not _write(file, blob, root):
        file = None
    return IndexedFolder(FolderTable(root, blob), scan.num_listed, file)


def changed_directories(table: FolderTable, distrusted: int) -> list[int]:
    """Returns the numbers of directories that have changed, or that have a flag of `distrusted`."""
    count = table.num_directories
    if count <= _FEW_DIRECTORIES:
        return table.index.changed_directories(0, count, distrusted)
    bounds = [count * part // NUM_THREADS for part in range(NUM_THREADS + 1)]
    parts_of_table = list(itertools.pairwise(bounds))
    with ScanThreads(NUM_THREADS) as threads:
        parts = threads.map(lambda part: table.index.changed_directories(*part, distrusted), parts_of_table)
        return [number for part in parts for number in part]


def index_file(root: str, extensions: Sequence[str]) -> Path | None:
    """Returns the path of `root`'s index, which need not exist; None if there is no cache folder."""
    return _index_file(_key(root, extensions))


def _key(root: str, extensions: Sequence[str]) -> bytes:
    """Returns the identity of an index: the folder's resolved name. Inodes tell whether it still is that folder."""
    return b"\0".join([os.fsencode(os.path.realpath(root)), *map(os.fsencode, extensions)])


def _index_file(key: bytes) -> Path | None:
    try:
        return _config.cache_folder() / f"{hashlib.sha256(key).hexdigest()[:32]}.index"
    except RuntimeError:  # no home folder
        return None


def _read(file: Path, root: str, key: bytes) -> FolderTable | None:
    """Returns the table in `file`, or None if there is no usable one."""
    try:
        with _open_folder(file.parent) as folder, open_file(folder, file.name) as fd:
            table = FolderTable(root, contents(fd))
        if table.key != key:
            return None
        table.check()
    except UntrustedFileError as error:
        _warn(f"the index file {str(file)!r} is not used: {error.strerror}. {root!r} is listed again.")
        return None
    except DamagedIndexError as error:
        _warn(f"the index file {str(file)!r} is damaged: {error}. {root!r} is listed again.")
        return None
    except (ForeignIndexError, OSError):
        return None
    return table


def _write(file: Path, blob: bytes, root: str) -> bool:
    """Replaces `file` by `blob`; warns if that fails, and leaves nothing then."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _open_folder(file.parent) as folder:
            _remove_abandoned(folder)
            replace_file(folder, file.name, blob, f"{file.name}.{secrets.token_hex(8)}.tmp")
    except OSError as error:
        _warn(
            f"the index of {root!r} cannot be kept in {str(file.parent)!r} ({error.strerror}): the folder is listed "
            "again at every start. Set FASTLOAD_CACHE to a folder of your own that can be written to, or pass "
            "index='off'."
        )
        return False
    return True


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    """Gives a descriptor of `folder`, closed to other users if it is this user's and holds only index files.

    Raises UntrustedFolderError if it belongs to neither this user nor root, and OSError if it cannot be opened.
    """
    with open_folder(folder) as (fd, status):
        check_owner(status)
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            _close_to_others(fd, status.st_mode)
        yield fd


def _close_to_others(folder: int, mode: int) -> None:
    """Closes a folder that holds nothing else: the user may have named one that others need, such as /tmp."""
    if mode & stat.S_ISVTX:
        return
    with os.scandir(folder) as entries:
        is_for_indexes = all(_INDEX_NAME.fullmatch(entry.name) or entry.name == "decode" for entry in entries)
    if is_for_indexes:
        with contextlib.suppress(OSError):  # each file is examined anyway
            os.fchmod(folder, 0o700)


def _remove_abandoned(folder: int) -> None:
    """Removes the files of writers that were killed, but none that may still be written."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _INDEX_NAME.fullmatch(entry.name) and entry.name.endswith(".tmp")]
    oldest = time.time() - _ABANDONED_AFTER_SECONDS
    for name in names:
        with contextlib.suppress(OSError):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < oldest:
                os.unlink(name, dir_fd=folder)
