"""The cache of one loader: in the memory of the process, or in a store on disk."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch.distributed

from fastload import _native
from fastload._decode_cache._cache import Cache, default_path
from fastload._decode_cache._file_records import FileRecords, file_records_of
from fastload._decode_cache._store import OpenStore, open_store
from fastload._display._units import counted, in_bytes
from fastload._process import _config
from fastload._process._file_system import file_system_of, is_remote
from fastload._process._interrupts import is_interrupt
from fastload._process._limits import total_memory
from fastload._process._worker_process import warn

CacheSetting = Literal["auto"] | Cache | None

_MAX_INDEX_BYTES = 512 << 20
# A 64th of the machine's memory is for all ranks on it together.
_MEMORY_SHARE = 64


class LoaderCache:
    """The cache of one loader: made when it is first needed, and anew in a process forked since.

    Entropy indexes of JPEG files are kept by the files' contents, so other loaders of the process profit. A store that
    is asked for the files' coefficients or pixels is read by their paths; `files` are these, or None. Without a `store`
    indexes are in the memory of the process. In a worker's process, `shared` are the folders that it shares with the
    other workers, as its parent found them.
    """

    def __init__(self, shared: Sequence[Path] | None = None) -> None:
        self._shared = shared
        self._native: _native.DecodeCache | None = None
        self.store: OpenStore | None = None
        self.files: FileRecords | None = None
        self._refusal: str | None = None  # why there are none of those that are asked for
        self._made_for: tuple[int, CacheSetting] | None = None
        self._counted: Counter[str] = Counter()  # with other settings

    def native(self, setting: CacheSetting, num_images: int | None) -> _native.DecodeCache | None:
        """Returns what native code uses in the epoch that begins; None where nothing is kept."""
        if setting is None:
            return None
        are_current = self.files is None or self.files.records.is_current()
        if self._made_for != (os.getpid(), setting) or not are_current:
            if self._is_here():
                self._counted.update(self._counters())
            self.store = _store_of(setting, self._shared)
            self.files, self._refusal = (None, None) if self.store is None else file_records_of(setting)
            self._native = _made(self.store, num_images or 0, self.files)
            self._made_for = os.getpid(), setting
        self.warn_of_trouble()
        if self.store is not None:
            self.store.native.begin_epoch()
        return self._native

    def warn_of_trouble(self) -> None:
        """Warns, once, of each thing that has gone wrong so far."""
        if self._native is not None and self._native.counters()["cache_mismatches"] > 0:
            _warn_of_mismatches(os.getpid())
        if self.files is not None:
            self.files.warn_of_trouble()
        if self.store is not None:
            self.store.warn_of_trouble()

    def close(self) -> None:
        """Publishes what was kept and waits for that, at most CLOSE_SECONDS."""
        if self._is_here() and self.store is not None:
            self.store.close()

    def end_epoch(self) -> None:
        """Begins to publish the indexes that were kept. Waits for nothing."""
        if self._is_here() and self.store is not None:
            self.store.native.end_epoch()

    def _counters(self) -> Mapping[str, int]:
        """Returns the counters of what is used now."""
        counters = Counter({} if self._native is None else self._native.counters())
        if self.files is not None:
            counters.update(self.files.counters())
        return counters

    def stats(self) -> Mapping[str, int]:
        """Returns the counters of this loader, and the memory of the process."""
        if self._native is None or not self._is_here():
            return {}
        total = self._counted + Counter(self._counters())
        if self.store is None:
            memory = _native.index_memory()
            return {**total, "cache_records": memory["records"], "cache_memory_bytes": memory["memory_bytes"]}
        store = self.store.native.counters()
        total.update(cache_bytes_written=store["bytes_written"], cache_damaged=store["damaged"])
        total.update(_memory_and_reads(store))
        if self.files is not None:
            total.update(_memory_and_reads(self.files.records.counters()))
        return total

    def describe(self, setting: CacheSetting) -> tuple[str, str | None]:
        """Returns what is kept, and why nothing is, if so."""
        store = self.store if self._is_here() else None
        if store is not None:
            return _described(store, self._refusal) if self.files is None else self.files.describe()
        if isinstance(setting, Cache):
            reason = "the folder cannot be used; they are kept in memory" if self._is_here() else None
            return f"JPEG indexes in {setting!r}", reason
        most = f"at most {in_bytes(index_limit())}"
        if self._native is None or not self._is_here():
            return f"JPEG indexes in memory, {most}", None
        if not self._native.is_worth_it:
            return "JPEG indexes in memory", f"those of fewer than one file in 20 would fit: {most}"
        so_far = counted(_native.index_memory()["records"], "file")
        others = "ranks" if self._shared is None else "workers"
        is_alone = self._shared is None and not has_other_ranks()
        apart = "" if is_alone else f", which {others} do not share: no folder on a local disk can be used"
        return f"JPEG indexes in memory, of {so_far} so far{apart}", None

    def _is_here(self) -> bool:
        return self._made_for is not None and self._made_for[0] == os.getpid()


def index_limit() -> int:
    """Bytes that the indexes of this process may take."""
    return machine_limit() // _config.num_local_ranks()


def has_other_ranks() -> bool:
    """Returns whether other ranks of this program run on the machine, or may."""
    if (told := _config.told_local_ranks()) is not None:
        return told > 1
    is_told = torch.distributed.is_available() and torch.distributed.is_initialized()
    return is_told and torch.distributed.get_world_size() > 1


def machine_limit() -> int:
    """Bytes that the indexes of all ranks and workers on this machine may take together."""
    return min(_MAX_INDEX_BYTES, total_memory() // _MEMORY_SHARE)


def _store_of(setting: CacheSetting, shared: Sequence[Path] | None) -> OpenStore | None:
    """Returns the store of indexes; None: they are in the memory of the process."""
    if not isinstance(setting, Cache):
        if shared is None and has_other_ranks():
            shared = shared_folders()
        return _open_first(shared or ())
    try:
        return open_store(setting.path, setting.max_bytes)
    except (OSError, RuntimeError) as error:
        if is_interrupt(error):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        warn(
            f"the cache {setting!r} is not used: {reason}. Indexes are kept in memory instead. Name a folder of your "
            "own on a local disk that can be written to."
        )
        return None


def shared_folders() -> list[Path]:
    """Returns the folders that processes of this machine share if the user has named none; makes a missing one.

    Each process sees another part of the samples in each epoch, so alone it would know few of those that come. All look
    at the same folders in the same order, and so they come to the same one.
    """
    return list(filter(_is_usable, _shared_paths()))


def _open_first(folders: Sequence[Path]) -> OpenStore | None:
    """Returns the store of indexes in the first of the folders that can be used; None if none can."""
    for path in folders:
        try:
            store = open_store(path, machine_limit())
        except OSError as error:
            if is_interrupt(error):
                raise
            continue
        if store.obstacle is None:
            return store
    return None


def _shared_paths() -> Iterator[Path]:
    with contextlib.suppress(RuntimeError):  # there is no home folder
        yield default_path()
    yield Path(tempfile.gettempdir(), f"fastload-{os.geteuid()}")


def _is_usable(path: Path) -> bool:
    """Returns whether it is a folder of this user alone, on a disk of this machine; makes a missing one."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()  # an interrupt could leave a descriptor open
        is_own = status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
        return is_own and stat.S_ISDIR(status.st_mode) and not is_remote(file_system_of(path))
    except OSError as error:
        if is_interrupt(error):
            raise
        return False


def _made(store: OpenStore | None, num_images: int, files: FileRecords | None) -> _native.DecodeCache | None:
    if store is not None:
        return store.native.make_decode_cache(num_images, None if files is None else files.native)
    _native.set_index_memory(index_limit())
    return _native.make_decode_cache(num_images)


def _memory_and_reads(counters: Mapping[str, int]) -> Mapping[str, int]:
    return {
        "cache_records": counters["records"],
        "cache_memory_bytes": counters["memory_bytes"],
        "cache_bytes_read": counters["bytes_read"],
    }


def _described(store: OpenStore, refusal: str | None) -> tuple[str, str | None]:
    so_far = counted(store.native.counters()["records"], "record")
    what = f"JPEG indexes in {str(store.path)!r}, {so_far}, at most {in_bytes(store.max_bytes)}"
    reason = store.why_nothing_is_kept()
    no_more = None if reason is None else f"no more are kept: {reason}"
    return what, "; ".join(filter(None, (no_more, refusal))) or None


@functools.cache  # once for each process; a forked child is another one
def _warn_of_mismatches(process_id: int) -> None:
    warn(
        "an index of an image was not of its data, which no change of a file can bring about: it was dropped, and the "
        "image decoded without it. Memory or disk may be failing; stats().cache_mismatches counts such images."
    )
