"""The library that makes calls of the system and of the allocator fail: compiled here, set in the child that has it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

FAIL, SHORT, PAUSE = range(3)
FOREVER = 1 << 30

# The errors of a system that refuses each call.
ERRORS = {
    "malloc": errno.ENOMEM,
    "mmap": errno.ENOMEM,
    "memfd_create": errno.EPERM,
    "ftruncate": errno.EFBIG,
    "munlock": errno.ENOMEM,
    "mprotect": errno.ENOMEM,
    "madvise": errno.ENOMEM,
    "open": errno.EIO,
    "opendir": errno.EIO,
    "readdir": errno.EIO,
    "read": errno.EIO,
    "pread": errno.EIO,
    "preadv": errno.EIO,
    "write": errno.ENOSPC,
    "fsync": errno.EIO,
    "rename": errno.EIO,
    "fork": errno.EAGAIN,
    "socketpair": errno.EMFILE,
    "pipe2": errno.EMFILE,
    "pthread_create": errno.EAGAIN,
    "thread memory": 0,
}


def compile_shim(folder: Path) -> Path | None:
    """Compiles the library for LD_PRELOAD in `folder`; returns None without a C compiler."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = folder / "libfailing_calls.so"
    source = Path(__file__).with_name("failing_calls.c")
    subprocess.run(
        [*compiler.split(), "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True
    )
    return library


class Shim:
    """The library in this process, which was started with it."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)

    def watch(self, folder: Path, library: str) -> None:
        """Counts files in `folder` from now on, and allocations of the loaded library with `library` in its path."""
        self.library.shim_set_folder(os.fsencode(folder))
        assert self.library.shim_set_library(library.encode())

    @contextlib.contextmanager
    def failing(self, call: str, first: int, times: int) -> Iterator[None]:
        """Enters a context in which `times` calls of the kind fail, from number `first` on."""
        self.library.shim_set(call.encode(), b"", FAIL, ERRORS[call], first, times, 0)
        try:
            yield
        finally:
            self.seen = self.library.shim_seen()
            self.library.shim_set(b"", b"", 0, 0, 0, 0, 0)
