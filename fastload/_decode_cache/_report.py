"""A report on the files of a store."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from fastload import _native
from fastload._decode_cache._folder import find_store_folder
from fastload._decode_cache._store import KINDS, RecordKind
from fastload._process._file_system import file_system_of

BYTES_OF_BLOCK = 512  # in st_blocks, whatever the file system's are


# "foreign": of another version of fastload or another machine, and left alone. "untrusted": others than this user and
# root may decide what is in it. "unread": the system does not let it be read.
FileState = Literal["good", "foreign", "untrusted", "damaged", "unread", "gone"]


@dataclass(frozen=True)
class StoreReport:
    """The files of one store by the kind of their records, and the bytes on disk that all of them take.

    `file_system` is the type of its file system, "" if unknown, and `free_bytes` what that has free for this user.
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
        return sum(file["live_records"] for file in self.those("good"))

    def of(self, kind: RecordKind) -> StoreReport:
        """Returns the same with files of this kind alone."""
        return replace(self, files_by_kind={kind: self.files_by_kind[kind]})

    def those(self, state: FileState) -> list[_native.StoreFileReport]:
        """Returns the files in this state."""
        return [file for file in self.files if state_of(file) == state]

    @property
    def damaged(self) -> list[_native.StoreFileReport]:
        """The files that are damaged as a whole, or of which a record that was read is."""
        return [file for file in self.files if file["damaged"] > 0 or state_of(file) == "damaged"]


def state_of(file: _native.StoreFileReport) -> FileState:
    """Returns "good" if a file's records are used, or why they are not. A file that went meanwhile is "gone"."""
    if file["verdict"] != "failed":
        return file["verdict"]
    return "damaged" if file["error"] == errno.EBADMSG else "gone" if file["error"] == errno.ENOENT else "unread"


def report_of(path: Path, *, reads_records: bool) -> StoreReport:
    """Looks at the store at `path`, and changes nothing; with `reads_records` each record is read and checked.

    Raises what find_store_folder() raises.
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
        with contextlib.suppress(FileNotFoundError):
            used += os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * BYTES_OF_BLOCK
    return used
