"""The positions of an iteration's workers after their batches, as far back as a state may be asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastload._iteration._maker import WorkerStates
from fastload._iteration._saved_worker import SavedWorker, user_path
from fastload._iteration.python._worker_draws import WorkerStart
from fastload._resume._user_state import UserState


class _Entry(NamedTuple):
    """The snapshot that a worker took after batch `number`."""

    number: int
    mark: int | None  # the smallest later position at which a state may begin; None: there is none
    snapshot: SavedWorker
    is_end: bool  # the worker's stream has ended after that batch


class SnapshotLog:
    """The snapshots of one epoch at the positions where a state may begin.

    Every step can be repeated, because an interrupt may fall between any two.

    Args:
        starts: The position at which each worker began the epoch.
        every: A state begins at a multiple of this number; 0: at none.
        depth: The most batches that have arrived and are not yet handed out.
        first: Number of the iteration's first batch; not 0 if the iteration continues an epoch.
        first_worker: The worker that makes the first batch of a stream; None: there is no stream.
        timeout_seconds: Limit of each wait for a worker that has not begun; 0: no limit.
    """

    def __init__(
        self,
        starts: Sequence[WorkerStart],
        *,
        every: int,
        depth: int,
        first: int,
        first_worker: int | None,
        timeout_seconds: float,
    ) -> None:
        self._starts = starts
        self._every = every
        self._first, self._first_worker = first, first_worker
        self._timeout_seconds = timeout_seconds
        # Each worker has one snapshot for each mark that may still be asked for, and one before.
        self._entries: list[deque[_Entry]] = [deque(maxlen=depth + 3) for _ in starts]
        self._turns: deque[tuple[int, int]] = deque(maxlen=depth + 3)

    def note(self, number: int, worker: int, snapshot: SavedWorker | None, *, is_end: bool = False) -> None:
        """Adds the snapshot taken after batch `number`; with `is_end`, the stream has ended after that batch."""
        mark = None if self._every == 0 else (number // self._every + 1) * self._every
        if mark == number + 1 and not is_end and (number + 1, worker) not in self._turns:
            self._turns.append((number + 1, worker))
        entries = self._entries[worker]
        entry = None if snapshot is None else _Entry(number, mark, snapshot, is_end)
        last = entries[-1] if entries else None
        if entry is None or (last is not None and (last.number, last.is_end) >= (number, is_end)):
            return
        if last is not None and last.mark == mark:
            entries[-1] = entry  # nobody asks for a position between the two
        else:
            entries.append(entry)

    def states_before(self, begins_at: int, position: int, *, is_over: bool) -> Callable[[], WorkerStates]:
        """Returns a function that gives the workers' states before batch `begins_at`.

        It may be called after the iteration has gone on, and waits for workers that have not begun. `position` is the
        number of the first batch that was not handed out; with `is_over`, the epoch is over.
        """
        found = [self._entry_at(begins_at, worker) for worker in range(len(self._starts))]
        if self._first_worker is None:
            return lambda: self._states(found, position - begins_at, None)
        last = [self._entry_at(position, worker) for worker in range(len(self._starts))]
        has_ended = [entry is not None and entry.is_end for entry in last]
        next_worker = 0 if is_over else self._worker_at(begins_at)

        def of_stream() -> WorkerStates:
            for start in self._starts:
                start.wait(self._timeout_seconds)
            if is_over or all(start.is_stateful for start in self._starts):
                return self._states(found, position - begins_at, next_worker)
            from_first = self._states([None] * len(found), position - self._first, self._first_worker)
            workers = zip(from_first.workers or (), has_ended, strict=True)
            return from_first._replace(
                workers=tuple(worker._replace(user=UserState(has_ended=ended)) for worker, ended in workers)
            )

        return of_stream

    def _states(self, found: Sequence[_Entry | None], replayed: int, next_worker: int | None) -> WorkerStates:
        """Returns the states at these entries, and at the start of a worker that has none."""
        snapshots = [
            start.wait(self._timeout_seconds) if entry is None else entry.snapshot
            for start, entry in zip(self._starts, found, strict=True)
        ]
        saved = (snapshot.saved(user_path(len(snapshots), worker)) for worker, snapshot in enumerate(snapshots))
        return WorkerStates(None, tuple(saved), replayed, next_worker)

    def _entry_at(self, position: int, worker: int) -> _Entry | None:
        """Returns the worker's last entry before `position`; None: it has taken no snapshot after a batch."""
        return next((entry for entry in reversed(self._entries[worker]) if entry.number < position), None)

    def _worker_at(self, position: int) -> int | None:
        """Returns the worker whose turn it is at `position` of a stream."""
        worker = dict(self._turns).get(position)
        return self._first_worker if worker is None else (worker + 1) % len(self._starts)
