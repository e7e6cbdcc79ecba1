"""One lmdb environment for all worker threads: lmdb opens a path once in a process.

Datasets open theirs in each worker when they are first asked for a sample. While workers live, ``lmdb.open`` and
``lmdb.Environment`` of a path that is open with the same flags give a worker a handle of the open environment. Each
handle is closed for itself; the environment is closed when the last one is. Other threads, and names taken from lmdb
before (``from lmdb import open``), get lmdb's own.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FLAGS = {
    **dict.fromkeys(("subdir", "metasync", "sync", "readahead", "meminit", "lock"), True),
    **dict.fromkeys(("readonly", "map_async", "writemap"), False),
}
# The arguments after the path, in their order: lmdb.readthedocs.io.
_ARGUMENTS = (
    *("map_size", "subdir", "readonly", "metasync", "sync", "map_async", "mode", "create", "readahead", "writemap"),
    *("meminit", "max_readers", "max_dbs", "max_spare_txns", "lock"),
)
_NAMES = ("open", "Environment")
# The open environments by path, and a lock so that two workers do not open one at once.
_opened: weakref.WeakValueDictionary[Path, Any] = weakref.WeakValueDictionary()
_opening = threading.Lock()
_CLOSING_SECONDS = 1.0


def is_environment(instance: Any) -> bool:
    module = sys.modules.get("lmdb")
    return module is not None and isinstance(instance, module.Environment)


def remember(environment: Any) -> None:
    """Notes an environment that the program has opened, which workers get then."""
    with contextlib.suppress(sys.modules["lmdb"].Error):  # it is closed
        _opened[Path(environment.path()).resolve()] = environment


class LmdbExchange:
    """Exchanges the two names of the module while at least one `begin` has had no `end`.

    Args:
        is_worker: Tells whether the calling thread is a worker.
    """

    def __init__(self, is_worker: Callable[[], bool]) -> None:
        self._is_worker = is_worker
        self._lock = threading.Lock()
        self._num_users = 0
        self._originals: dict[str, Any] = {}

    def begin(self) -> None:
        """Exchanges the names if lmdb is imported; else a later call does."""
        with self._lock:
            self._num_users += 1
            module = sys.modules.get("lmdb")
            if module is None or self._originals:
                return
            self._originals = {name: vars(module)[name] for name in _NAMES if name in vars(module)}
            for name, original in self._originals.items():
                setattr(module, name, _stand_in(original, self._is_worker))

    def end(self) -> None:
        with self._lock:
            self._num_users -= 1
            if self._num_users == 0:
                module = sys.modules.get("lmdb")
                for name, original in self._originals.items():
                    setattr(module, name, original)
                self._originals = {}


def _stand_in(original: Any, is_worker: Callable[[], bool]) -> Any:
    """Returns what is called, and asked for instances, instead of the class."""

    class StandIn(type):
        def __call__(cls, path: Any, *args: Any, **options: Any) -> Any:
            if not is_worker() or len(args) > len(_ARGUMENTS):
                return original(path, *args, **options)
            return _open(original, path, {**dict(zip(_ARGUMENTS, args, strict=False)), **options})

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (original, Handle)) if isinstance(original, type) else False

        def __getattr__(cls, name: str) -> Any:
            return getattr(original, name)

    return StandIn(original.__name__, (), {"__doc__": original.__doc__, "__module__": "lmdb"})


def _open(original: Any, path: Any, options: dict[str, Any]) -> Handle:
    place = Path(path if isinstance(path, str) else bytes(path).decode(sys.getfilesystemencoding())).resolve()
    with _opening:
        environment = _opened.get(place)
        if environment is None or not _is_open_with(environment, options):
            seconds = _CLOSING_SECONDS if environment is None else 0.0
            environment = _open_when_closed(lambda: original(path, **options), seconds)
            _opened[place] = environment
        return Handle(environment)


def _open_when_closed(opening: Callable[[], Any], seconds: float) -> Any:
    """Waits for an environment that nothing refers to and another thread still closes, as a worker of the last epoch
    may. If it stays open, lmdb's error is raised."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return opening()
        except sys.modules["lmdb"].Error as error:
            if "already open" not in str(error) or time.monotonic() >= deadline:
                raise
        time.sleep(0.001)


def _is_open_with(environment: Any, options: dict[str, Any]) -> bool:
    try:
        flags = environment.flags()
    except sys.modules["lmdb"].Error:  # it is closed
        return False
    return all(bool(options.get(name, _FLAGS[name])) == is_set for name, is_set in flags.items() if name in _FLAGS)


class Handle:
    """An environment that other workers have open, too. It has the attributes and methods of lmdb's class."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._environment)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes this handle. From now on its methods fail as the methods of a closed lmdb environment do."""
        self._environment = _Closed(type(self._environment))


class _Closed:
    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._kind, name):
            raise AttributeError(f"an environment of lmdb has no attribute {name!r}")
        raise sys.modules["lmdb"].Error("Attempt to operate on closed/deleted/dropped object.")
