"""The coefficients or pixels of images on disk, as one loader uses them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping

from fastload import _native
from fastload._decode_cache._cache import Cache, Validation, kinds_of, place_of
from fastload._decode_cache._store import RecordKind, open_store
from fastload._display._units import counted, in_bytes, in_seconds
from fastload._process._interrupts import is_interrupt

# What the system's clock is behind, for tests: files must not have been changed in the last minute.
CLOCK_AHEAD_NS = 0


def file_records_in(store: _native.RecordStore, validate: Validation, spot_checks: float) -> _native.FileRecordCache:
    """What native code believes of a store of coefficients or pixels; the arguments are those of a Cache."""
    interval = round(1 / spot_checks) if spot_checks > 0 else 0
    return _native.FileRecordCache(store, validate, interval, CLOCK_AHEAD_NS)


class FileRecords:
    """Those in one store. Raises OSError where it cannot be opened.

    Args:
        cache: What the user has asked for.
        kind: Of these records.
    """

    def __init__(self, cache: Cache, kind: RecordKind) -> None:
        self.what = kind
        self.store = open_store(place_of(cache, kind))
        self.native = file_records_in(self.store.native, cache.validate, cache.spot_checks)
        self._has_warned = False

    def counters(self) -> Mapping[str, int]:
        """Of this loader, by their names in stats()."""
        counters = self.native.counters()
        made = counters["kept"] + counters["dropped"]  # of images for which no index was looked for
        return {
            "cache_hits": counters["hits"],
            "cache_misses": made,
            f"cache_{self.what.removesuffix('s')}_hits": counters["hits"],
            "cache_stale": counters["stale"],
            "cache_damaged": counters["damaged"],
            "cache_dropped": counters["dropped"],
            "cache_checks": counters["checks"],
            "cache_mismatches": counters["mismatches"],
        }

    def begin_epoch(self) -> None:
        """Records are tried again where they were slower than files."""
        self.native.begin_epoch()
        self._warn_of_mismatches()

    def _warn_of_mismatches(self) -> None:
        """Once; behind it no record is believed."""
        if self._has_warned or self.native.is_on:
            return
        self._has_warned = True
        path = os.fsdecode(self.native.mismatched_path)
        that = f", that of {path!r}," if path else ""
        warnings.warn(
            f"an image by the {self.what} in {str(self.store.place.path)!r}{that} was not as its file is: they are not "
            "used any more in this process, and batches have the files' pixels. Was a file changed without a new time, "
            "by a program that maps it, or the clock set back? Remove the store by `fastload cache clear`, or name "
            'validate="content".',
            RuntimeWarning,
            stacklevel=2,
        )

    def describe(self) -> tuple[str, str | None]:
        """What is kept, and why no more is, if so."""
        place = self.store.place
        so_far = counted(self.store.native.counters()["records"], "record")
        what = f"{self.what} in {str(place.path)!r}, {so_far}, at most {in_bytes(place.max_bytes)}; others by the index"
        if not self.native.is_on:
            return what, "not used any more: an image by them was not as its file is"
        if (pace := self.native.slow_pace) is not None:
            by_record, by_file = map(in_seconds, pace)
            return what, f"not used until the next epoch: {by_record} an image by them, {by_file} by its file"
        reason = self.store.why_nothing_is_kept()
        return what, None if reason is None else f"no more are kept: {reason}"


def file_records_of(setting: object) -> tuple[FileRecords | None, str | None]:
    """Those of a loader's cache, or why there are none where they are asked for; of that it warns."""
    if not isinstance(setting, Cache) or (kind := kinds_of(setting)[-1]) == "index":
        return None, None
    try:
        return FileRecords(setting, kind), None
    except OSError as error:
        if is_interrupt(error):
            raise
        reason = error.strerror or str(error)
        warnings.warn(
            f"{kind} in {str(setting.path)!r} are neither kept nor used: {reason}. Images are decoded by their "
            "indexes. Name a folder of your own on a local disk.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None, f"{kind} are neither kept nor used: {reason}"
