"""What a loader keeps of the images it decodes, so that they cost less the next time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from fastload import _native
from fastload._display._units import counted, in_bytes
from fastload._process import _config
from fastload._process._memory import total_memory

CacheSetting = Literal["auto"] | None

_MAX_INDEX_BYTES = 512 << 20
# Of the machine's memory, for all ranks on it together.
_MEMORY_SHARE = 64


class LoaderCache:
    """That of one loader: made when it is first needed, and anew in a process forked since.

    What is kept is the process's, and other loaders of it profit: entropy indexes of JPEG files by their contents.
    """

    def __init__(self) -> None:
        self._native: _native.DecodeCache | None = None
        self._owner_pid = 0

    def native(self, setting: CacheSetting, num_images: int | None) -> _native.DecodeCache | None:
        """What native code is given; None where nothing is kept.

        Args:
            setting: The loader's argument.
            num_images: That it loads in an epoch; None: of a number that nobody knows.
        """
        if setting is None:
            return None
        if self._native is None or self._owner_pid != os.getpid():
            _native.set_index_memory(index_limit())
            self._native = _native.make_decode_cache(num_images or 0)
            self._owner_pid = os.getpid()
        return self._native

    def stats(self) -> Mapping[str, int]:
        """Counters of this loader, and the memory of the process."""
        if self._native is None or self._owner_pid != os.getpid():
            return {}
        memory = _native.index_memory()
        return {
            **self._native.counters(),
            "cache_records": memory["records"],
            "cache_memory_bytes": memory["memory_bytes"],
        }

    def describe(self) -> tuple[str, str | None]:
        """What is kept, and why it is not, if so."""
        most = f"at most {in_bytes(index_limit())}"
        if self._native is None or self._owner_pid != os.getpid():
            return f"JPEG indexes in memory, {most}", None
        if not self._native.is_worth_it:
            return "JPEG indexes in memory", f"those of fewer than one file in 20 would fit: {most}"
        so_far = counted(_native.index_memory()["records"], "file")
        return f"JPEG indexes in memory, of {so_far} so far", None


def index_limit() -> int:
    """Bytes that the indexes of this process may take."""
    return min(_MAX_INDEX_BYTES, total_memory() // _MEMORY_SHARE // _config.num_local_ranks())
