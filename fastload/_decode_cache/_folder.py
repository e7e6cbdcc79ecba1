"""The folder of a store: made where there is none, and checked before it is believed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fastload import _native
from fastload._process._file_system import file_system_of, is_remote
from fastload._process._trust import UntrustedFolderError, check_owner, open_file, open_folder, replace_file

# The version of the files' names and places in the folder. Their contents have versions of their own.
LAYOUT = "v1"
KEY = "key"
TEMPORARY_KEY = "key.tmp"
LOCK = "lock"
# The one obstacle to warn of; on a network file system nothing else is to be expected.
NOT_WRITABLE = "it cannot be written to"


class StoreFolder(NamedTuple):
    """An open folder.

    Attributes:
        fd: The descriptor of the folder with the store's files; the context that opened it closes it.
        key: The store's secret, on which all hashes in it depend.
        obstacle: Why nothing can be written to it; None: something can.
    """

    fd: int
    key: bytes
    obstacle: str | None


@contextlib.contextmanager
def open_store_folder(path: Path, *, is_built: bool = False, is_local: bool = False) -> Iterator[StoreFolder]:
    """Opens the store at `path`, and makes it where there is none.

    With `is_built` files are written on a network file system, too: by one process, of which the user says that no
    other one uses the store. With `is_local` it must be on a disk of this machine. Raises UntrustedFolderError if
    others may decide what is in it, and OSError if it cannot be made or opened, or is not on such a disk.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700, parents=True)
    with _opened(path, None) as outer:
        if is_local:
            _check_local(outer)
        with contextlib.suppress(FileExistsError, PermissionError):
            os.mkdir(LAYOUT, 0o700, dir_fd=outer)
        with _opened(Path(LAYOUT), outer) as folder:
            yield StoreFolder(folder, _key(folder), _obstacle(folder, is_built))


@contextlib.contextmanager
def find_store_folder(path: Path, *, is_local: bool = False) -> Iterator[StoreFolder]:
    """Opens the store at `path` to look at it, and makes nothing. Raises what find_layout() raises.

    With `is_local` a store on another machine's disk is an OSError, too.
    """
    with find_layout(path) as (outer, folder):
        if is_local:
            _check_local(outer)
        yield StoreFolder(folder, _read_key(folder), "it is only looked at")


@contextlib.contextmanager
def find_layout(path: Path, *, is_checked: bool = True) -> Iterator[tuple[int, int]]:
    """Opens the folder at `path` and the one with the store's files in it; yields both descriptors.

    Raises FileNotFoundError without a store, UntrustedFolderError if `is_checked` and others may decide what is in it,
    and OSError if it cannot be opened.
    """
    with _opened(path, None, is_checked) as outer, _opened(Path(LAYOUT), outer, is_checked) as folder:
        yield outer, folder


@contextlib.contextmanager
def _opened(path: Path, parent: int | None, is_checked: bool = True) -> Iterator[int]:
    # The folder that the user names may be a link.
    with open_folder(path, parent, 0 if parent is None else os.O_NOFOLLOW) as (fd, status):
        if is_checked:
            check_owner(status)
            if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
                raise UntrustedFolderError(errno.EPERM, "other users can write to it")
        yield fd


def _check_local(folder: int) -> None:
    if is_remote(file_system := file_system_of(folder)):
        raise OSError(errno.EOPNOTSUPP, f"it is on {file_system}, and must be on a disk of this machine")


def _obstacle(folder: int, is_built: bool) -> str | None:
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
        return NOT_WRITABLE
    if not is_built and is_remote(file_system := file_system_of(folder)):
        return f"on {file_system} only `fastload cache build` writes"
    return None


def _key(folder: int) -> bytes:
    """Returns the store's key, which the first process makes."""
    with contextlib.suppress(FileNotFoundError):
        return _read_key(folder)
    with locked(folder):
        with contextlib.suppress(FileNotFoundError):
            return _read_key(folder)
        key = _native.random_store_key()
        with contextlib.suppress(FileNotFoundError):  # a process that was killed here has left the file
            os.unlink(TEMPORARY_KEY, dir_fd=folder)
        replace_file(folder, KEY, key, TEMPORARY_KEY)
        return key


def _read_key(folder: int) -> bytes:
    with open_file(folder, KEY) as fd, open(fd, "rb", closefd=False) as file:
        key = file.read()
    if len(key) != _native.STORE_KEY_BYTES:
        raise OSError(errno.EBADMSG, f"its file {LAYOUT}/{KEY} is damaged: remove the store", KEY)
    return key


@contextlib.contextmanager
def locked(folder: int) -> Iterator[None]:
    """Locks the folder, as native code does, while files are made or removed; for milliseconds."""
    while True:
        fd = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _is_still(folder, LOCK, fd):
                yield
                return
        finally:
            os.close(fd)


def _is_still(folder: int, name: str, fd: int) -> bool:
    """Returns whether `fd` is the file of that name: a store is removed with its lock, for which others may wait."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False
