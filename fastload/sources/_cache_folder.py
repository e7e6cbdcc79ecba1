"""The cache folder: how a file gets there.

A file in it leads a program to the files that it loads, so it is believed only where its owner could have changed the
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
_WRITER = re.compile(r"\.(?P<machine>[0-9a-f]+-[0-9]+)-(?P<pid>[0-9]+)-(?P<start>[0-9]+)\.[0-9a-f]+\.tmp$")
# Of a writer that cannot be looked for here. Writing takes seconds, and who has to wait a week for the end of it loses
# the file that would have been kept, and no more.
_ABANDONED_AFTER_SECONDS = 7 * 24 * 3600


@contextlib.contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A descriptor of `folder`, which is closed to others if it is of this user and for index files alone.

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
    """Puts `blob` in the place of `file`; nothing stays behind where that cannot be.

    Raises:
        UntrustedFolderError: The folder belongs to neither this user nor root.
        OSError: It cannot be written.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_folder(file.parent) as folder:
        _remove_abandoned(folder)
        temporary = f"{file.name}.{_writer()}.{secrets.token_hex(4)}.tmp"
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
    """Only of a folder that has nothing else in it: the user may have named one that others need, such as /tmp."""
    if mode & stat.S_ISVTX:
        return
    with os.scandir(folder) as entries:
        is_for_indexes = all(_INDEX_NAME.fullmatch(entry.name) or entry.name == "decode" for entry in entries)
    if is_for_indexes:
        with contextlib.suppress(OSError):  # each file is looked at anyway
            os.fchmod(folder, 0o700)


def _remove_abandoned(folder: int) -> None:
    """Removes what writers that were killed have left, but not what one may still be writing."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _INDEX_NAME.fullmatch(entry.name) and entry.name.endswith(".tmp")]
    for name in names:
        with contextlib.suppress(OSError):
            if not _may_be_written(folder, name):
                os.unlink(name, dir_fd=folder)


def _may_be_written(folder: int, name: str) -> bool:
    found = _WRITER.search(name)
    if found is not None and found["machine"] == _machine():
        return _start_of(int(found["pid"])) == int(found["start"])
    return time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < _ABANDONED_AFTER_SECONDS


def _writer() -> str:
    """This process, as no other one was or will be called."""
    return f"{_machine()}-{os.getpid()}-{_start_of(os.getpid())}"


def _machine() -> str:
    """Where numbers of processes mean the same: this start of this machine's kernel, and this container.

    Not the machine's name, which several that share the folder may have.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip().replace(b"-", b"")
        return f"{boot.decode()}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return f"{secrets.token_hex(16)}-0"  # equal to no other: the files' ages decide


def _start_of(process: int) -> int:
    """When it was started, in ticks since the machine's start; 0 where there is no such process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return 0
    return int(fields.rpartition(b")")[2].split()[19])  # its name may hold anything, in parentheses
