"""The caches of worker processes: their side, and the loader's record of them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fastload import _native
from fastload._decode_cache._cache import Cache
from fastload._decode_cache._file_records import FileRecords, file_records_of
from fastload._decode_cache._loader_cache import CacheSetting, LoaderCache, machine_limit, shared_folders
from fastload._display._stats import CURRENT_LEVELS
from fastload._display._units import in_bytes


class CacheReport(NamedTuple):
    """The state of a worker's cache, after its last report.

    Attributes:
        counters: The counts since then, by the names in LoaderStats.
        levels: The current levels, by the names in LoaderStats; empty: as they were.
        is_stored: Whether the records are in a store, which the other workers see, too.
        described: As LoaderCache.describe(); None: as it was.
        is_distrusted: Whether a spot check has found coefficients or pixels that were not as their file is.
    """

    counters: dict[str, int]
    levels: dict[str, int]
    is_stored: bool
    described: tuple[str, str | None] | None
    is_distrusted: bool


class WorkerCache:
    """The cache of a worker process, opened when it decodes its first image.

    `shared` are the folders that the workers share if the user has named none. With `is_distrusted` coefficients and
    pixels are not used, because a spot check has failed.
    """

    def __init__(
        self, setting: CacheSetting, num_images: int | None, shared: Sequence[Path], *, is_distrusted: bool = False
    ) -> None:
        self._cache = LoaderCache(shared)
        self._arguments = setting, num_images
        self._reported: Mapping[str, int] = {}
        self._native: _native.DecodeCache | None = None
        self._is_open = False
        self._is_distrusted = is_distrusted

    def open(self) -> _native.DecodeCache | None:
        """Returns what native code uses; None where nothing is kept."""
        if not self._is_open:
            self._native = self._cache.native(*self._arguments)
            self._is_open = True
            if self._is_distrusted:
                self.distrust()
        return self._native

    def begin_epoch(self) -> None:
        """Begins to publish the indexes of the epoch before, for an epoch that follows."""
        self._cache.end_epoch()
        if self._is_open:
            self._cache.native(*self._arguments)

    def distrust(self) -> None:
        """Ends the use of coefficients and pixels: another worker has found one that is not as its file is."""
        self._is_distrusted = True
        if self._cache.files is not None:
            self._cache.files.distrust()

    def report(self) -> CacheReport:
        """Returns what has changed since the last report. Warns of records that a check has found wrong."""
        before, self._reported = self._reported, self._cache.stats()
        now = self._reported
        counters = {
            name: count - before.get(name, 0)
            for name, count in now.items()
            if name not in CURRENT_LEVELS and count > before.get(name, 0)
        }
        if "cache_mismatches" in counters:
            self._cache.warn_of_trouble()
        levels = {name: count for name, count in now.items() if name in CURRENT_LEVELS}
        if all(before.get(name) == count for name, count in levels.items()) and "cache_mismatches" not in counters:
            return CacheReport(counters, {}, False, None, False)
        files = self._cache.files
        return CacheReport(
            counters,
            levels,
            self._cache.store is not None,
            self._cache.describe(self._arguments[0]),
            files is not None and not files.native.is_on,
        )

    def close(self) -> None:
        """Publishes what was kept, at the worker's end, and warns of what went wrong."""
        self._cache.close()
        self._cache.warn_of_trouble()


class WorkerCaches:
    """A loader's record of the caches of its worker processes."""

    def __init__(self) -> None:
        self._levels: dict[int, CacheReport] = {}  # the last report with levels, by worker
        self._described: tuple[str, str | None] | None = None
        self._setting: CacheSetting = None
        self._distrusted: FileRecords | None = None

    def begin(self) -> None:
        """Forgets the workers of the iteration before, and their levels."""
        self._levels, self._described = {}, None

    def opener(self, setting: CacheSetting, num_images: int | None) -> Callable[[], WorkerCache]:
        """Returns what opens a WorkerCache with these arguments in a worker. Can be pickled."""
        if setting != self._setting or (self._distrusted is not None and not self._distrusted.records.is_current()):
            self._distrusted = None  # other records
        self._setting = setting
        # The folders are found here, before any code of the user's runs in a worker.
        shared = shared_folders()
        if isinstance(setting, Cache):
            with contextlib.suppress(RuntimeError):  # there is no home folder, which the worker warns of
                setting = Cache(setting.path, setting.max_bytes, setting.what, setting.validate)
        return functools.partial(WorkerCache, setting, num_images, shared, is_distrusted=self._distrusted is not None)

    def note(self, worker: int, report: CacheReport) -> bool:
        """Notes a worker's report. Returns whether the other workers must not use coefficients and pixels any more."""
        if report.levels:
            self._levels[worker] = report
            self._described = report.described
        if not report.is_distrusted or self._distrusted is not None:
            return False
        self._distrusted = file_records_of(self._setting)[0]
        return True

    def with_levels(self, own: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the counters of the loader's own process, `own`, with the levels of the workers."""
        if not self._levels:
            return own
        reports = self._levels.values()
        in_store = [report.levels["cache_records"] for report in reports if report.is_stored]
        apart = [report.levels["cache_records"] for report in reports if not report.is_stored]
        memory = [report.levels["cache_memory_bytes"] for report in reports]
        return {
            **own,
            "cache_records": max(own.get("cache_records", 0), *in_store, sum(apart)),
            "cache_memory_bytes": own.get("cache_memory_bytes", 0) + sum(memory),
        }

    def describe(self, setting: CacheSetting) -> tuple[str, str | None]:
        """Returns what the workers keep, and why they keep nothing, if so."""
        if self._described is not None and setting == self._setting:
            return self._described
        if isinstance(setting, Cache):
            return f"JPEG indexes in {setting!r}", None
        return f"JPEG indexes in a folder that the workers share, at most {in_bytes(machine_limit())}", None
