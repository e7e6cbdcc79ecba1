"""A loader's record of its iterations in workers, and the locks that all loaders share."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any

from fastload._decode_cache._worker_cache import WorkerCaches
from fastload._images._array_dataset import innermost
from fastload._iteration.threads._counters import ThreadCounters
from fastload._iteration.threads._worker_group import WorkerGroup
from fastload._process._exit import LiveObjects
from fastload._process._worker_process import SentWarnings
from fastload._workers._worker_objects import UserCode, warn_of_changing_globals


class LoaderThreads:
    """A loader's record of its iterations in workers: the running ones, and what the workers of all have reported.

    Attributes:
        counters: The counters of all workers.
        caches: The caches of worker processes.
        warnings: The warnings of worker processes.
        num_closes: How often the loader was closed.
    """

    def __init__(self) -> None:
        self.counters = ThreadCounters()
        self.caches = WorkerCaches()
        self.warnings = SentWarnings()
        self.num_closes = 0
        self._groups: LiveObjects[WorkerGroup] = LiveObjects()
        self._has_looked_at_globals = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as an empty record: a copy of a loader begins without iterations and counters."""
        return LoaderThreads, ()

    def dataset_lock(self, dataset: Any) -> AbstractContextManager[Any]:
        """Returns the lock to hold while a dataset that is not thread-safe is asked.

        All loaders of a dataset share its lock, also loaders of its Subsets. For a dataset that cannot be weakly
        referenced, such as a list, this loader has a lock of its own.
        """
        try:
            return lock_of(innermost(dataset))
        except TypeError:
            return lock_of(self)

    def add(self, group: WorkerGroup) -> None:
        self._groups.add(group)

    def look_at_globals(self, code: UserCode) -> None:
        """Warns, once, of global variables that workers change."""
        if not self._has_looked_at_globals:
            self._has_looked_at_globals = True
            warn_of_changing_globals(code)

    def close(self) -> None:
        """Ends every iteration and its threads. An iteration that waits for a batch raises LoaderClosedError."""
        self.num_closes += 1
        groups = self._groups.all()
        for group in groups:
            group.signal_end()
        for group in groups:
            group.close()

    def stats(self) -> dict[str, Any]:
        """Returns the counters by their names in LoaderStats."""
        running = [group for group in self._groups.all() if group.is_running]
        pending = [task for group in running for task in tuple(group.pending)]
        depth = sum(task.is_done for task in pending)
        held = sum(group.bytes_held for group in running)
        now = {"batches_in_flight": len(pending), "queue_depth": depth, "bytes_held": held}
        return {**self.counters.snapshot(), **now}


# The keys are identities: different data sets may be equal, and many have no hash.
_locks: dict[int, tuple[weakref.ref[Any], threading.RLock]] = {}


def lock_of(item: Any) -> threading.RLock:
    """Returns the lock of `item`, the same one as long as `item` lives.

    Raises:
        TypeError: `item` cannot be weakly referenced.
    """
    number = id(item)
    reference = weakref.ref(item, functools.partial(_locks.pop, number))  # Note [drops]
    return _locks.setdefault(number, (reference, threading.RLock()))[1]  # atomic


# In a child, a lock may be held by a thread of the parent, which the child does not have.
os.register_at_fork(after_in_child=_locks.clear)
