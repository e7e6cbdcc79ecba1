"""What a loader keeps of its iterations in threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from fastload._images._array_dataset import innermost
from fastload._iteration.threads._counters import ThreadCounters
from fastload._iteration.threads._dataset_lock import lock_of
from fastload._iteration.threads._worker_group import WorkerGroup
from fastload._process._exit import LiveObjects
from fastload._workers._worker_objects import UserCode, warn_of_changing_globals


class LoaderThreads:
    """What a loader keeps of its iterations in threads: those that run, and what all of them have counted."""

    def __init__(self) -> None:
        self.counters = ThreadCounters()
        self.num_closes = 0
        self._groups: LiveObjects[WorkerGroup] = LiveObjects()
        self._has_looked_at_globals = False

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a loader begins with none and nothing counted."""
        return LoaderThreads, ()

    def dataset_lock(self, dataset: Any) -> AbstractContextManager[Any]:
        """Held by who asks a dataset that is not thread-safe.

        Loaders of the same one share it, also where they have Subsets of it; but for a dataset that cannot be weakly
        referenced, as a list, this loader has one of its own.
        """
        try:
            return lock_of(innermost(dataset))
        except TypeError:
            return lock_of(self)

    def add(self, group: WorkerGroup) -> None:
        self._groups.add(group)

    def look_at_globals(self, code: UserCode) -> None:
        """Warns, once, of those that workers change."""
        if not self._has_looked_at_globals:
            self._has_looked_at_globals = True
            warn_of_changing_globals(code)

    def close(self) -> None:
        """Ends every iteration and its threads; those that wait for a batch get LoaderClosedError."""
        self.num_closes += 1
        groups = self._groups.all()
        for group in groups:
            group.signal_end()
        for group in groups:
            group.close()

    def stats(self) -> dict[str, Any]:
        """Counters by the names of LoaderStats."""
        running = [group for group in self._groups.all() if group.is_running]
        pending = [task for group in running for task in tuple(group.pending)]
        depth = sum(task.is_done for task in pending)
        held = sum(group.memory.bytes_held for group in running)
        now = {"batches_in_flight": len(pending), "queue_depth": depth, "bytes_held": held}
        return {**self.counters.snapshot(), **now}
