"""The coefficients or pixels of images on disk, as one loader uses them."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Mapping

from fastload import _native
from fastload._decode_cache._cache import Cache, kinds_of
from fastload._decode_cache._store import RecordKind, open_built_records
from fastload._display._units import counted
from fastload._process._interrupts import is_interrupt
from fastload._process._worker_process import warn

# One image of so many is decoded from its file as well. No rule about metadata notices a change through a memory map,
# a clock that is set back, or a block device that is changed underneath.
SPOT_CHECK_INTERVAL = 256


class FileRecords:
    """The coefficients or pixels in the store of a cache. Raises OSError where it cannot be opened."""

    def __init__(self, cache: Cache, kind: RecordKind) -> None:
        self.kind = kind
        self.records = open_built_records(cache.path, kind)
        self.native = _native.FileRecordCache(self.records, cache.validate, SPOT_CHECK_INTERVAL)
        self._cache = cache
        self._has_warned = False

    def counters(self) -> Mapping[str, int]:
        """Returns the counters of this loader, by their names in stats()."""
        counters = self.native.counters()
        return {
            "cache_hits": counters["hits"],
            f"cache_{self.kind.removesuffix('s')}_hits": counters["hits"],
            "cache_stale": counters["stale"],
            "cache_damaged": counters["damaged"],
            "cache_checks": counters["checks"],
            "cache_mismatches": counters["mismatches"],
        }

    def distrust(self) -> None:
        """Ends their use without a warning, which another process has raised."""
        self._has_warned = True
        self.native.stop()

    def warn_of_trouble(self) -> None:
        """Warns where the store has no records, and of what has ended their use."""
        if (lack := self._lack()) is not None:
            _warn_of_lack(
                os.getpid(),
                f"the {self.kind} in {str(self._cache.path)!r} are not used: {lack}. Until then images are decoded by "
                "their indexes.",
            )
        if self._has_warned:
            return
        if not self.native.is_on:
            self._warn_of_mismatch()
        elif (error := self.records.counters()["read_error"]) > 0:
            self._warn(
                f"nothing more is looked for in the cache {str(self._cache.path)!r}: {os.strerror(error)}. Batches are "
                "the same; images are decoded from their files."
            )

    def _warn_of_mismatch(self) -> None:
        path = os.fsdecode(self.native.mismatched_path)
        that = f", that of {path!r}," if path else ""
        self._warn(
            f"an image by the {self.kind} in {str(self._cache.path)!r}{that} was not as its file is: they are not "
            "used any more by this loader, and batches have the files' pixels. Was a file changed without a new time, "
            "by a program that maps it, or the clock set back? Remove the store by `fastload cache clear`, or name "
            'validate="content".'
        )

    def _warn(self, text: str) -> None:
        self._has_warned = True
        warn(text, stacklevel=2)

    def _lack(self) -> str | None:
        if self.records.counters()["records"] > 0:
            return None
        target = "script.py:loader" if self.kind == "pixels" else "FOLDER"
        store = f"--path {shlex.quote(str(self._cache.path))} --max-bytes {self._cache.max_bytes}"
        command = f"fastload cache build {target} --what {self.kind} {store}"
        return f"there are none yet: `{command}` builds them, and so does cache.fill(loader)"

    def describe(self) -> tuple[str, str | None]:
        """Returns what is used, and why nothing is, if so."""
        counters = self.records.counters()
        so_far = counted(counters["records"], "record")
        what = f"{self.kind} in {str(self._cache.path)!r}, {so_far}; others by the index"
        if not self.native.is_on:
            return what, "not used any more: an image by them was not as its file is"
        if counters["read_error"] > 0:
            return what, f"nothing more is looked for: {os.strerror(counters['read_error'])}"
        return what, self._lack()


def file_records_of(setting: object) -> tuple[FileRecords | None, str | None]:
    """Returns the records of a loader's cache, or None and why there are none although it asks for them; warns then."""
    if not isinstance(setting, Cache) or (kind := kinds_of(setting)[-1]) == "index":
        return None, None
    try:
        return FileRecords(setting, kind), None
    except OSError as error:
        if is_interrupt(error):
            raise
        reason = error.strerror or str(error)
        warn(
            f"{kind} in {str(setting.path)!r} are not used: {reason}. Images are decoded by their indexes. Name a "
            "folder of your own on a local disk."
        )
        return None, f"{kind} are not used: {reason}"


@functools.cache  # once for each process; a forked child is another one
def _warn_of_lack(process_id: int, sentence: str) -> None:
    warn(sentence, stacklevel=2)
