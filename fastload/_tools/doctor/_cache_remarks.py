"""What is to be said of a loader's cache on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fastload._decode_cache._cache import Cache, kinds_of, place_of
from fastload._decode_cache._report import report_of
from fastload._decode_cache._store import OpenStore, RecordKind, open_store
from fastload._display._units import in_bytes
from fastload._process._file_system import is_rotating


class CacheStores:
    """Those of a loader. They are held, so that the loaders that are measured use them, and can be asked afterwards.

    Args:
        cache: The loader's.
    """

    def __init__(self, cache: object) -> None:
        self._cache = cache if isinstance(cache, Cache) else None
        self._stores: dict[RecordKind, OpenStore] = {}
        self._refusal: str | None = None
        if self._cache is not None:
            self._open(self._cache)

    def _open(self, cache: Cache) -> None:
        for kind in kinds_of(cache):
            try:
                self._stores[kind] = open_store(place_of(cache, kind))
            except (OSError, RuntimeError) as error:
                reason = getattr(error, "strerror", None) or error
                what = kind if self._stores else "the cache"
                self._refusal = f"{what} in {str(cache.path)!r} cannot be used: {reason}"
                return

    def remarks(self, data_bytes: float, memory_bytes: int, root: Path = Path("/")) -> Iterator[str]:
        """Lines about it, when the loader was measured.

        Args:
            data_bytes: Of the data set's files; 0 where nobody knows.
            memory_bytes: Of the machine.
            root: Of the file system; tests have one of their own.
        """
        reasons = (store.why_nothing_is_kept() for store in self._stores.values())
        for reason in dict.fromkeys(filter(None, reasons)):
            yield f"no more is kept in the cache in {self._path}: {reason}"
        if self._refusal is not None:
            yield self._refusal
        for kind, store in self._stores.items():
            if kind != "index":
                yield from _remarks_on_images(store, data_bytes, memory_bytes, root)

    @property
    def _path(self) -> str:
        return repr(str(self._cache.path)) if self._cache is not None else ""


def _remarks_on_images(store: OpenStore, data_bytes: float, memory_bytes: int, root: Path) -> Iterator[str]:
    place = store.place
    where, most = repr(str(place.path)), in_bytes(place.max_bytes)
    try:
        report = report_of(place.path, is_shared=place.is_shared, reads_records=False)
        is_slow = is_rotating(place.path, root)
    except OSError:  # somebody has removed it meanwhile
        return
    if place.max_bytes - report.used_bytes > report.free_bytes:
        yield (
            f"the cache in {where} may take {most}, of which {in_bytes(report.used_bytes)} are used, and its disk has "
            f"{in_bytes(report.free_bytes)} free: give a smaller max_bytes, or free space"
        )
    if is_slow:
        yield (
            f"the system says that the cache in {where} is on a rotating disk: reading {place.kind} there may take "
            "longer than decoding does"
        )
    if 0 < data_bytes <= memory_bytes < data_bytes + place.max_bytes:
        yield (
            f"the files, about {in_bytes(data_bytes)}, fit into the memory of {in_bytes(memory_bytes)}, and do not "
            f"together with a cache of {most} in {where}: {place.kind} that are read from the disk may take longer "
            "than decoding does"
        )
