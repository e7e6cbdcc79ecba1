"""Samples in a file, for this process and later ones."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import Any

import torch

from fastload._cached._samples import MISSING, Samples
from fastload._cached._serialized import SERIALIZERS, SerializerName
from fastload._cached._sqlite_file import FAULTS, SqliteFile, open_sqlite_file
from fastload._process._file_system import file_system_of, is_remote
from fastload._process._interrupts import is_interrupt
from fastload._process._trust import distrust
from fastload._process._worker_process import warn

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def open_file_samples(
    path: Path, max_bytes: int | None, serializer: SerializerName, to: torch.device | None
) -> Samples:
    """Opens the samples in the file `path`; if the disk has no room for it, warns and keeps none.

    Raises ValueError for a file of something else, on a network or not to be trusted, and OSError if it cannot be made.
    """
    if path.is_dir():
        raise ValueError(f"path={str(path)!r} is a folder, and must name a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    path = Path(os.path.realpath(path))  # as SQLite names the files beside it
    if is_remote(kind := file_system_of(path.parent)):
        raise ValueError(
            f"path={str(path)!r} is on a file system of type {kind}, where SQLite's locks and its shared memory do not "
            "hold. Name a file on a disk of this machine, for example in $TMPDIR; each machine fills its own"
        )
    if serializer == "pickle":
        _check_trust(path)
    try:
        return FileSamples(open_sqlite_file(path), max_bytes, serializer, to)
    except (OSError, *FAULTS) as error:
        if isinstance(error, OSError) and error.errno not in _NO_SPACE:
            raise
        warn(
            f"the file of samples {str(path)!r} cannot be opened ({error}): samples are made anew each time. Make room "
            "on its disk, or remove the file where it is damaged",
            stacklevel=4,
        )
        return Samples()


class FileSamples(Samples):
    """Samples kept in a SqliteFile. Tensors are read to the device `to`; None: the one they were on."""

    def __init__(
        self, file: SqliteFile, max_bytes: int | None, serializer: SerializerName, to: torch.device | None
    ) -> None:
        self._file = file
        self.turns = file.turns
        self._max_bytes = max_bytes
        self._serializer = SERIALIZERS[serializer]
        self._to = to
        self._is_full = False
        self._first_warning = threading.Lock()  # taken once and never released

    @property
    def is_full(self) -> bool:
        return self._is_full or self._file.problem is not None

    def has(self, key: bytes) -> bool:
        return self._file.has(key)

    def get(self, key: bytes) -> Any:
        """Returns a sample; MISSING if it is not kept or cannot be read."""
        data = self._file.get(key)
        if data is None:
            return MISSING
        try:
            return self._serializer.load(data, self._to)
        except MemoryError:
            raise
        except Exception as error:
            if is_interrupt(error):
                raise
            self._warn_of_unread(error)
            return MISSING

    def _warn_of_unread(self, error: Exception) -> None:
        """Warns once of a row that is whole but useless to this process: a class or a GPU is missing."""
        if not self._first_warning.acquire(blocking=False):
            return
        text = str(error).partition("\n")[0]
        warn(
            f"a sample in {str(self._file.path)!r} cannot be read ({type(error).__name__}: {text}): such samples are "
            "made anew. Pass to='cpu' if this process has no GPU, or version= if the classes of samples have changed",
            stacklevel=4,
        )

    def put(self, key: bytes, sample: Any) -> None:
        """Keeps a sample if there is room. Raises TypeError if the serializer does not write it."""
        if not self.is_full:
            self._is_full = not self._file.put(key, self._serializer.dump(sample), self._max_bytes)

    def clear(self) -> None:
        self._file.clear()
        self._is_full = False

    def describe(self) -> str:
        return f"samples in {str(self._file.path)!r}"


def _check_trust(path: Path) -> None:
    """Raises ValueError if another user may have written the file: pickles run code."""
    for file in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(FileNotFoundError):
            if (reason := distrust(file.stat())) is not None:
                raise ValueError(
                    f"path={str(file)!r} is not used with serializer='pickle', because {reason}, and reading pickles "
                    "runs the code of their writer. Make it your own file (chmod go-w), or use serializer='torch'"
                )
