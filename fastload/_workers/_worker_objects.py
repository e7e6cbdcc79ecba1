"""The user's objects that a worker works with: its own copies of them, or the program's objects themselves."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from fastload import _native
from fastload._workers._lmdb import LmdbExchange
from fastload._workers._objects import OwnObjects, copies
from fastload._workers._shared import shared_rows
from fastload._workers._warnings import SharedMemoryWatch, changed_by_name


class UserCode(NamedTuple):
    """The user's objects that worker threads call.

    Attributes:
        dataset: Asked for samples.
        collate_fn: Called with the list of samples, or with one sample if there are no batches.
        init_fn: worker_init_fn.
        samples: Asked for samples instead of the data set; None: the data set makes them. A NativeSamples.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    init_fn: Callable[[int], None] | None = None
    samples: Any = None

    @property
    def roots(self) -> tuple[Any, ...]:
        """The user's own objects, in the order of NAMES."""
        samples = self.samples
        own = (None,) * 3 if samples is None else (samples.python_part, samples.transform, samples.target_transform)
        return (self.dataset, self.collate_fn, self.init_fn, *own)

    def of_worker(self, **more: Any) -> UserCode:
        """Returns the same objects with samples of a worker's own, which have `more` as their attributes."""
        return self if self.samples is None else self._replace(samples=replace(self.samples, **more))


_NO_CODE = UserCode(None, list)
# The names that a user knows the objects of UserCode.roots by. Saved states have paths that begin with them.
NAMES = ("dataset", "collate_fn", "worker_init_fn", "transforms", "transform", "target_transform")
_lmdb = LmdbExchange(lambda: _native.thread_generators() is not None)


class WorkerObjects:
    """One worker's objects.

    Attributes:
        code: The user's objects that it calls.
        generators: The random number generators among its copies, always in the same order.
        fetcher: Makes its batches; None before worker_init_fn was called, and after the end.
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
        """Whether these are the worker's own copies."""
        return self._own is not None

    def enter(self) -> None:
        """Prepares the copies. Call it first, in the worker's thread."""
        if self._own is not None:
            _lmdb.begin()
            self._until_end.callback(_lmdb.end)
            self._own.enter()

    def end(self) -> None:
        """Drops the objects. Copies end without their finalizers, as in a process. May be called twice, at the end."""
        self.fetcher = None
        self.code = _NO_CODE
        if self._own is not None:
            self._own.end()
        self._until_end.close()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Surrounds each batch. Warns if the first batch has changed a large array that all workers share."""
        watch, self._watch = self._watch, None
        if watch is None:
            yield
            return
        watch.begin()
        yield
        if (text := watch.changes(self.code.roots, NAMES)) is not None:
            warnings.warn(text, stacklevel=2)


def make_worker_objects(code: UserCode, num_workers: int, *, copied: bool) -> list[WorkerObjects]:
    """Makes the objects of all workers, as the user's objects are now."""
    if not copied:
        return [WorkerObjects(code.of_worker(), None) for _ in range(num_workers)]
    own = copies(tuple(code), num_workers)
    return [WorkerObjects(code, each, is_watched=number == 0) for number, each in enumerate(own)]


def warn_of_changing_globals(code: UserCode) -> None:
    """Warns of objects that the user's code finds by name and changes: worker threads share them, processes do not."""
    if names := changed_by_name(code.roots):
        warnings.warn(
            f"{', '.join(names)}: the dataset's own code changes or draws from objects that it finds by name, as "
            "global variables. All worker threads share such an object, while torch's worker processes have one each. "
            "Keep it in the dataset, of which each worker has a copy.",
            stacklevel=2,
        )


def sharing_rows(code: UserCode, *, copied: bool) -> list[str]:
    """Returns the rows of explain() on objects that all workers share."""
    if not copied:
        return [f"{'shared':<10} all objects: copy=False"]
    found = shared_rows(code.roots, NAMES)
    rows = [f"{'shared':<10} {row.path} ({row.type_name}): {row.reason}; {row.remedy}" for row in found[:_MAX_ROWS]]
    if len(found) > _MAX_ROWS:
        rows.append(f"{'shared':<10} and {len(found) - _MAX_ROWS} more")
    return rows


_MAX_ROWS = 8
