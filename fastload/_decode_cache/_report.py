"""A report on the files of a store."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastload import _native
from fastload._decode_cache._folder import find_store_folder
from fastload._decode_cache._store import KINDS, RecordKind
from fastload._process._file_system import file_system_of

_BYTES_OF_BLOCK = 512  # in st_blocks, whatever the file system's are


@dataclass(frozen=True)
class StoreReport:
    """The files of one store.

    Attributes:
        path: The store's folder.
        files_by_kind: The files with records of each kind, maybe none.
        used_bytes: Bytes on disk of all files.
        file_system: Type of the file system, "" where nobody knows.
        free_bytes: Free bytes of the file system, for this user.
    """

    path: Path
    files_by_kind: Mapping[RecordKind, Sequence[_native.StoreFileReport]]
    used_bytes: int
    file_system: str
    free_bytes: int

    @property
    def files(self) -> list[_native.StoreFileReport]:
        """The files of all kinds."""
        return [file for files in self.files_by_kind.values() for file in files]

    @property
    def num_records(self) -> int:
        """The number of records that are used."""
        return sum(file["live_records"] for file in self.those(self.is_good))

    def of(self, kind: RecordKind) -> StoreReport:
        """Returns the same with files of this kind alone."""
        return replace(self, files_by_kind={kind: self.files_by_kind[kind]})

    def those(self, judge: Callable[[_native.StoreFileReport], bool]) -> list[_native.StoreFileReport]:
        """Returns the files for which `judge` is true."""
        return [file for file in self.files if judge(file)]

    @staticmethod
    def is_good(file: _native.StoreFileReport) -> bool:
        """Returns whether its records are used."""
        return file["verdict"] == "good"

    @staticmethod
    def is_foreign(file: _native.StoreFileReport) -> bool:
        """Returns whether another version of fastload, or another machine, has made it: it is left alone."""
        return file["verdict"] == "foreign"

    @staticmethod
    def is_untrusted(file: _native.StoreFileReport) -> bool:
        """Returns whether others than this user and root may decide what is in it."""
        return file["verdict"] == "untrusted"

    @staticmethod
    def is_damaged(file: _native.StoreFileReport) -> bool:
        """Returns whether it, or one of the records that were read, is not as it was written."""
        return file["damaged"] > 0 or (file["verdict"] == "failed" and file["error"] == errno.EBADMSG)

    @staticmethod
    def is_unread(file: _native.StoreFileReport) -> bool:
        """Returns whether the system does not let it be read. One that went while it was looked at is none."""
        return file["verdict"] == "failed" and file["error"] not in (errno.EBADMSG, errno.ENOENT)


def report_of(path: Path, *, reads_records: bool) -> StoreReport:
    """Looks at a store, and changes nothing.

    Args:
        path: The store's folder.
        reads_records: Each record is read and checked.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be opened, or others may decide what is in it.
    """
    with find_store_folder(path) as folder:
        files = {kind: _native.report_records(folder.fd, folder.key, kind, reads_records) for kind in KINDS}
        free = os.fstatvfs(folder.fd)
        return StoreReport(
            path, files, bytes_on_disk(folder.fd), file_system_of(folder.fd), free.f_bavail * free.f_frsize
        )


def bytes_on_disk(folder: int) -> int:
    """Returns what the files in the folder with this descriptor take on disk."""
    used = 0
    for name in os.listdir(folder):
        try:
            used += os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * _BYTES_OF_BLOCK
        except FileNotFoundError:
            continue
    return used
