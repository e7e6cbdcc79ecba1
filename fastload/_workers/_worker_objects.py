"""The user's objects that a worker works with: its own copies of them, or what the program has."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fastload import _native
from fastload._workers._lmdb import LmdbExchange
from fastload._workers._objects import OwnObjects, copies
from fastload._workers._shared import shared_rows
from fastload._workers._warnings import SharedMemoryWatch, changed_by_name


class UserCode(NamedTuple):
    """What the user has given a loader, as far as threads call it.

    Attributes:
        dataset: Asked for samples.
        collate_fn: Called with the list of samples, or with one sample where there are no batches.
        init_fn: worker_init_fn.
        python_part: The transforms of a sample that native code begins.
        transform: All transforms of such a sample.
        target_transform: Of its label.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    init_fn: Callable[[int], None] | None = None
    python_part: tuple[Callable[[Any], Any], ...] = ()
    transform: Any = None
    target_transform: Callable[[Any], Any] | None = None


_NO_CODE = UserCode(None, list)
# Of UserCode's attributes, as a user writes them.
NAMES = ("dataset", "collate_fn", "worker_init_fn", "transforms", "transform", "target_transform")
_lmdb = LmdbExchange(lambda: _native.thread_generators() is not None)


class WorkerObjects:
    """Those of one worker.

    Attributes:
        code: What it runs.
        generators: Generators of random numbers among its copies, always in the same order.
        fetcher: What makes its batches; None before worker_init_fn was called, and in the end.
    """

    def __init__(self, code: UserCode, own: OwnObjects | None, *, is_watched: bool = False) -> None:
        self.code = code if own is None else UserCode(*own.roots)
        self.generators: list[Any] = [] if own is None else own.generators
        self.fetcher: Any = None
        self._own = own
        self._watch = SharedMemoryWatch(own) if own is not None and is_watched else None
        self._until_end = contextlib.ExitStack()

    @property
    def is_copied(self) -> bool:
        """Whether these are its own."""
        return self._own is not None

    def enter(self) -> None:
        """Called first, in the worker's thread."""
        if self._own is not None:
            _lmdb.begin()
            self._until_end.callback(_lmdb.end)
            self._own.enter()

    def end(self) -> None:
        """Called last, perhaps again: copies end as those of a process do, without their finalizers."""
        self.fetcher = None
        self.code = _NO_CODE
        if self._own is not None:
            self._own.end()
        self._until_end.close()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Around each batch: warns of large arrays that all workers share and the first batch has changed."""
        watch, self._watch = self._watch, None
        if watch is None:
            yield
            return
        watch.begin()
        yield
        if (text := watch.changes(tuple(self.code), NAMES)) is not None:
            warnings.warn(text, stacklevel=2)


def make_worker_objects(code: UserCode, num_workers: int, *, copied: bool) -> list[WorkerObjects]:
    """Of all workers, as the user's objects are now."""
    if not copied:
        return [WorkerObjects(code, None) for _ in range(num_workers)]
    own = copies(tuple(code), num_workers)
    return [WorkerObjects(code, each, is_watched=number == 0) for number, each in enumerate(own)]


def warn_of_changing_globals(code: UserCode) -> None:
    """Names what the user's own code finds by name and workers change: processes have one each, and threads share."""
    if names := changed_by_name(tuple(code)):
        warnings.warn(
            f"{', '.join(names)}: what the dataset's own code finds by name, as a global variable, and changes or "
            "draws from is shared by all worker threads, where torch's worker processes have one each. Keep it in the "
            "dataset, of which each worker has a copy.",
            stacklevel=2,
        )


def sharing_rows(code: UserCode, *, copied: bool) -> list[str]:
    """Of explain(): what all workers have in common."""
    if not copied:
        return [f"{'shared':<10} all objects: copy=False"]
    found = shared_rows(tuple(code), NAMES)
    rows = [f"{'shared':<10} {row.path} ({row.type_name}): {row.reason}; {row.remedy}" for row in found[:_MAX_ROWS]]
    if len(found) > _MAX_ROWS:
        rows.append(f"{'shared':<10} and {len(found) - _MAX_ROWS} more")
    return rows


_MAX_ROWS = 8
