"""A loader's record of its iterations in workers."""

from __future__ import annotations

from typing import Any

from fastload._decode_cache._worker_cache import WorkerCaches
from fastload._iteration.python._counters import WorkerCounters
from fastload._iteration.python._worker_group import WorkerGroup
from fastload._planning._worker_form import FormMemory
from fastload._process._exit import LiveObjects
from fastload._process._worker_process import SentWarnings


class LoaderWorkers:
    """A loader's record of its iterations in workers: the running ones, and what the workers of all have reported."""

    def __init__(self) -> None:
        self.counters = WorkerCounters()
        self.caches = WorkerCaches()
        self.warnings = SentWarnings()
        self.forms = FormMemory()
        self.num_closes = 0
        self._groups: LiveObjects[WorkerGroup] = LiveObjects()

    def add(self, group: WorkerGroup) -> None:
        self._groups.add(group)

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
