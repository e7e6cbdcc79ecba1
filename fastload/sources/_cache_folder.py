"""Writing files to the cache folder.

A file in it leads a program to the files that it loads. So it is trusted only if its owner could have changed the
program as well.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from fastload._process._trust import check_owner

_INDEX_NAME = re.compile(r"[0-9a-f]{32}\.index(\..*\.tmp)?", re.DOTALL)
# Writing takes seconds; a writer that is stopped for a day loses only the file that it would have kept.
_ABANDONED_AFTER_SECONDS = 24 * 3600


@contextlib.contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Gives a descriptor of `folder`, closed to other users if it is this user's and holds only index files.

    Raises:
        UntrustedFolderError: It belongs to neither this user nor root.
        OSError: It cannot be opened.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        check_owner(status)
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            _close_to_others(fd, status.st_mode)
        yield fd
    finally:
        os.close(fd)


def replace_file(file: Path, blob: bytes) -> None:
    """Replaces `file` by `blob`; leaves nothing if that fails.

    Raises:
        UntrustedFolderError: The folder belongs to neither this user nor root.
        OSError: It cannot be written.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_folder(file.parent) as folder:
        _remove_abandoned(folder)
        temporary = f"{file.name}.{secrets.token_hex(8)}.tmp"
        try:
            with open(
                temporary, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            ) as output:
                output.write(blob)
                output.flush()
                os.fsync(output.fileno())
            os.replace(temporary, file.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


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
