"""What a store has on disk, for people."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fastload import _native
from fastload._decode_cache._folder import find_layout
from fastload._decode_cache._store import KINDS, RecordKind, StorePlace, look_at_store
from fastload._process._file_system import file_system_of

_ANY_BYTES = 1 << 62  # of a store: they limit only what is written
_BYTES_OF_BLOCK = 512  # in st_blocks, whatever the file system's are


@dataclass(frozen=True)
class StoreReport:
    """Of one store.

    Attributes:
        path: Its folder.
        files_by_kind: With records, as native code finds them; of each kind, maybe none.
        used_bytes: That all files take on disk, what is reserved for more records included.
        file_system: Its type, "" where nobody knows.
        free_bytes: Of the file system, for this user.
    """

    path: Path
    files_by_kind: Mapping[RecordKind, Sequence[_native.StoreFileReport]]
    used_bytes: int
    file_system: str
    free_bytes: int

    @property
    def files(self) -> list[_native.StoreFileReport]:
        """Of all kinds."""
        return [file for files in self.files_by_kind.values() for file in files]

    @property
    def num_records(self) -> int:
        """That are used."""
        return sum(file["live_records"] for file in self.those(self.is_good))

    def of(self, kind: RecordKind) -> StoreReport:
        """The same with files of this kind alone."""
        return replace(self, files_by_kind={kind: self.files_by_kind[kind]})

    def those(self, judge: Callable[[_native.StoreFileReport], bool]) -> list[_native.StoreFileReport]:
        """The files of which that is true."""
        return [file for file in self.files if judge(file)]

    @staticmethod
    def is_good(file: _native.StoreFileReport) -> bool:
        """Whether its records are used."""
        return file["verdict"] == "good"

    @staticmethod
    def is_foreign(file: _native.StoreFileReport) -> bool:
        """Whether another version of fastload, or another machine, has made it: it is left alone."""
        return file["verdict"] == "foreign"

    @staticmethod
    def is_untrusted(file: _native.StoreFileReport) -> bool:
        """Whether others than this user and root may decide what is in it."""
        return file["verdict"] == "untrusted"

    @staticmethod
    def is_damaged(file: _native.StoreFileReport) -> bool:
        """Whether it, or one of the records that were read, is not as it was written."""
        return file["damaged"] > 0 or (file["verdict"] == "failed" and file["error"] == errno.EBADMSG)

    @staticmethod
    def is_mostly_dead(file: _native.StoreFileReport) -> bool:
        """Whether more than half of its bytes are of use to nobody."""
        return 2 * file["dead_bytes"] > file["file_bytes"]

    @staticmethod
    def is_unread(file: _native.StoreFileReport) -> bool:
        """Whether the system does not let it be read. One that went while it was looked at is none."""
        return file["verdict"] == "failed" and file["error"] not in (errno.EBADMSG, errno.ENOENT)


def report_of(path: Path, *, is_shared: bool, reads_records: bool) -> StoreReport:
    """Looks at a store, and changes nothing.

    Args:
        path: Its folder.
        is_shared: Folders and files of any owner are believed.
        reads_records: Each record is read and its checks are made.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be opened, or others may decide what is in it.
    """
    files = {kind: look_at(path, kind, is_shared=is_shared).report(reads_records) for kind in KINDS}
    with find_layout(path, is_shared=is_shared) as (_, folder):
        free = os.fstatvfs(folder)
        return StoreReport(path, files, bytes_on_disk(folder), file_system_of(folder), free.f_bavail * free.f_frsize)


def look_at(path: Path, kind: RecordKind, *, is_shared: bool) -> _native.RecordStore:
    """Its store of this kind, for who writes nothing. Raises as `report_of`."""
    return look_at_store(StorePlace(path, _ANY_BYTES, is_shared, kind))


def bytes_on_disk(folder: int) -> int:
    """That the files in the folder with this descriptor take on disk."""
    used = 0
    for name in os.listdir(folder):
        try:
            used += os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * _BYTES_OF_BLOCK
        except FileNotFoundError:
            continue
    return used
