"""The file that lists a run's bad samples, one JSON object per line."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class Ledger:
    """Appends lines to a file. A write error causes one warning and is otherwise ignored.

    The lines of one batch are written by one call.

    Args:
        path: Created with the first line.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._has_begun = self._has_failed = False

    @classmethod
    def of_rank(cls, path: str | os.PathLike[str], rank: int, world_size: int) -> Ledger:
        """Returns the ledger of one of several ranks, each with its own file: bad.jsonl -> bad.rank0003.jsonl."""
        if world_size <= 1:
            return cls(path)
        given = Path(path)
        return cls(given.with_name(f"{given.stem}.rank{rank:04d}{given.suffix}"))

    def append(self, entries: Iterable[Mapping[str, Any]]) -> None:
        lines = "".join(json.dumps(entry, ensure_ascii=True) + "\n" for entry in entries)
        if not lines:
            return
        try:
            self._write(lines.encode())
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                warnings.warn(
                    f"the ledger {self.path!r} cannot be written: {error}. Training continues without it",
                    stacklevel=2,
                )

    def _write(self, lines: bytes) -> None:
        """Appends `lines` in one call, so that several programs on one machine can share the file.

        A run that was killed while it wrote may have left a line without an end, which is completed first.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            if not self._has_begun and size > 0 and os.pread(descriptor, 1, size - 1) != b"\n":
                lines = b"\n" + lines
            if os.write(descriptor, lines) != len(lines):
                raise OSError("the disk took only a part of the lines")
        finally:
            os.close(descriptor)
        self._has_begun = True
