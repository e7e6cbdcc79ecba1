"""Finds the memory that other processes see, too: a forked worker has no copy of it."""

from __future__ import annotations

import bisect
from pathlib import Path

from fastload._process._interrupts import is_interrupt


class SharedMemory:
    """The ranges of this process's memory that are shared, read when first asked for."""

    def __init__(self, maps: Path = Path("/proc/self/maps")) -> None:
        self._maps = maps
        self._begins: list[int] | None = None
        self._ends: list[int] = []

    def has(self, address: int) -> bool:
        """Returns whether the memory at an address is shared; False if the system does not tell."""
        if self._begins is None:
            self._begins = []
            self._read()
        at = bisect.bisect_right(self._begins, address) - 1
        return at >= 0 and address < self._ends[at]

    def _read(self) -> None:
        assert self._begins is not None
        try:
            lines = self._maps.read_bytes().splitlines()
        except OSError as error:
            if is_interrupt(error):
                raise
            return
        for line in lines:
            # 7f1c8a000000-7f1c8a021000 rw-s 00000000 00:01 2053  /dev/zero (deleted)
            fields = line.split(maxsplit=2)
            if fields[1].endswith(b"s"):
                begin, end = fields[0].split(b"-")
                self._begins.append(int(begin, 16))
                self._ends.append(int(end, 16))
