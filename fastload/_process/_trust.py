"""Files that are trusted: only this user or root could have changed them.

Others may be able to write to a folder that the user named or made by hand. So a file is opened before it is examined,
by a name relative to a folder that was examined: nothing can be exchanged in between.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path


class UntrustedFolderError(OSError):
    """A folder of another user."""


class UntrustedFileError(OSError):
    """A file that is not a regular one, or that another user owns or can write to."""


def check_owner(status: os.stat_result) -> None:
    """Raises UntrustedFolderError if a folder belongs to neither this user nor root."""
    if status.st_uid not in _trusted_owners():
        raise UntrustedFolderError(errno.EPERM, f"it belongs to {_user(status.st_uid)}")


@contextlib.contextmanager
def open_folder(path: str | Path, parent: int | None = None, flags: int = 0) -> Iterator[tuple[int, os.stat_result]]:
    """Opens a folder, in the one with the descriptor `parent` if there is one, and gives its descriptor and status."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=parent)
    try:
        yield fd, os.fstat(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def open_file(folder: int, name: str) -> Iterator[int]:
    """Opens the file `name` in the folder with the descriptor `folder`, and gives its descriptor.

    Raises UntrustedFileError if another user may decide what is in it, and OSError if it cannot be opened.
    """
    # O_NONBLOCK: opening a FIFO without a writer must not block.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise UntrustedFileError(errno.EPERM, "it is not a regular file") from None
        raise
    try:
        if (reason := distrust(os.fstat(fd))) is not None:
            raise UntrustedFileError(errno.EPERM, reason)
        yield fd
    finally:
        os.close(fd)


def replace_file(folder: int, name: str, contents: bytes, temporary: str) -> None:
    """Replaces the file `name` in the folder with the descriptor `folder` by one for this user alone.

    `temporary` is the name of no file; none is left if that fails. Raises OSError.
    """
    try:
        with open(temporary, "xb", opener=functools.partial(_open_own, folder)) as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _open_own(folder: int, name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=folder)


def distrust(status: os.stat_result) -> str | None:
    """Returns why a file is not trusted; None if it is."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid not in _trusted_owners():
        return f"it belongs to {_user(status.st_uid)}"
    if status.st_mode & 0o022:
        return "other users can write to it"
    return None


def _trusted_owners() -> tuple[int, int]:
    return os.geteuid(), 0


def _user(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"
