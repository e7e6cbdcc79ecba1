"""Stores of indexes that are open in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from fastload import _native
from fastload._decode_cache._folder import NOT_WRITABLE, find_store_folder, open_store_folder
from fastload._process._exit import DaemonThread, LiveObjects, ThreadStartError, join_threads, start_threads
from fastload._process._worker_process import warn

CLOSE_SECONDS = 60.0
_ANY_BYTES = 1 << 62  # they limit only what is written
RecordKind = Literal["index", "coefficients", "pixels"]
KINDS: tuple[RecordKind, ...] = get_args(RecordKind)
# Not a system error: the store's own bytes are used up.
FULL = -1


class ImageFiles(NamedTuple):
    """The files that a loader reads, each once, and the steps whose result pixels are."""

    paths: Sequence[bytes]
    first_steps: _native.FirstSteps | None = None


class OpenStore:
    """An open store. It is closed, without waiting for it, when nobody holds it any more.

    With `is_built` files are written on a network file system, too. Raises what open_store_folder() raises.
    """

    shared_as: tuple[int, str, int] | None = None

    def __init__(self, path: Path, max_bytes: int, *, is_built: bool = False) -> None:
        self.path = path
        self.max_bytes = max_bytes
        with open_store_folder(path, is_built=is_built) as folder:
            self.obstacle = folder.obstacle
            self.native = _native.open_record_store(folder.fd, folder.key, max_bytes, folder.obstacle is None)
        self._thread = _StoreThread(self.native)
        self._warned_of: set[str] = set()
        self._end = _native.CallsAtDrop((self.native.close,))
        _live_stores.add(self)
        try:
            start_threads([self._thread])
        except ThreadStartError as error:
            self.obstacle = str(error)
        if not is_built:
            self.shared_as = _name_of(path, max_bytes)

    def close(self) -> bool:
        """Publishes what was kept and waits for that; returns whether it is done after CLOSE_SECONDS."""
        self.native.close()
        return join_threads([self._thread], CLOSE_SECONDS)

    def warn_of_trouble(self) -> None:
        """Warns once for each reason why nothing is kept or looked up any more."""
        counters = self.native.counters()
        if self.obstacle == NOT_WRITABLE:
            self._warn(f"nothing new is kept in the cache {str(self.path)!r}: {self.obstacle}")
        for errno, what in ((counters["write_error"], "kept in"), (counters["read_error"], "looked for in")):
            if errno > 0:
                self._warn(f"nothing more is {what} the cache {str(self.path)!r}: {os.strerror(errno)}")

    def _warn(self, text: str) -> None:
        if text not in self._warned_of:
            self._warned_of.add(text)
            ending = "Batches are the same; images of which nothing is known are decoded from their beginning."
            warn(f"{text}. {ending}", stacklevel=2)

    def why_nothing_is_kept(self) -> str | None:
        """Returns the reason, or None where new indexes are kept."""
        errno = self.native.counters()["write_error"]
        if errno == FULL:
            return "its max_bytes are used up"
        return os.strerror(errno) if errno > 0 else self.obstacle


def open_store(path: Path, max_bytes: int) -> OpenStore:
    """Returns this process's store in the folder `path`: the same object as long as somebody holds it.

    Raises what OpenStore() raises.
    """
    name = _name_of(path, max_bytes)
    with _turn():
        held = [store for store in _live_stores.all() if store.shared_as == name]
        return held[0] if held else OpenStore(path, max_bytes)


def _name_of(path: Path, max_bytes: int) -> tuple[int, str, int]:
    return os.getpid(), str(path), max_bytes


def look_at_store(path: Path) -> _native.RecordStore:
    """Opens the store at `path` to look indexes up, and changes nothing. Raises what find_store_folder() raises."""
    with find_store_folder(path) as folder:
        return _native.open_record_store(folder.fd, folder.key, _ANY_BYTES, False)


def open_built_records(path: Path, kind: RecordKind) -> _native.BuiltRecords:
    """Opens the coefficients or pixels in the store at `path`, read-only. Raises what find_store_folder() raises."""
    with find_store_folder(path, is_local=True) as folder:
        return _native.open_built_records(folder.fd, folder.key, kind)


def _close_files_of_parent() -> None:
    for store in _live_stores.all():
        store.native.close_after_fork()


class _StoreThread(DaemonThread):
    def __init__(self, native: _native.RecordStore) -> None:
        super().__init__("fastload-cache")
        self._native = native

    def run(self) -> None:
        self._native.run()

    def signal_end(self) -> None:
        self._native.close()


_locks: dict[int, threading.Lock] = {}
_live_stores: LiveObjects[OpenStore] = LiveObjects()
# A child that outlives its parent would otherwise keep the parent's files from other processes.
os.register_at_fork(after_in_child=_close_files_of_parent)


def _turn() -> threading.Lock:
    """Returns the lock of this process: a forked child may find its parent's taken for ever."""
    return _locks.setdefault(os.getpid(), threading.Lock())
