"""The store that the ranks of a machine share if the user has named none.

Each rank sees another part of the samples in each epoch, so alone it would know few of those that come.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fastload._decode_cache._cache import default_path
from fastload._decode_cache._store import OpenStore, StorePlace, open_store
from fastload._process._file_system import file_system_of, is_remote
from fastload._process._interrupts import is_interrupt


def open_shared(max_bytes: int) -> OpenStore | None:
    """Returns the store in the first of the folders that can be used; None where there is none.

    Every rank looks at the same folders in the same order, and so they come to the same one.
    """
    for path in _paths():
        try:
            if _is_usable(path):
                store = open_store(StorePlace(path, max_bytes))
                if store.obstacle is None:
                    return store
        except OSError as error:
            if is_interrupt(error):
                raise
    return None


def _paths() -> Iterator[Path]:
    with contextlib.suppress(RuntimeError):  # there is no home folder
        yield default_path()
    yield Path(tempfile.gettempdir(), f"fastload-{os.geteuid()}")


def _is_usable(path: Path) -> bool:
    """Returns whether it is a folder of this user alone, on a disk of this machine; makes a missing one."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        is_own = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        return is_own and not is_remote(file_system_of(fd))
    finally:
        os.close(fd)
