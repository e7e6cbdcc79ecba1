"""The snapshots that the workers of an iteration took after their batches, as far back as a state may be asked for."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from fastload._iteration.threads._worker_draws import GeneratorSnapshot


class _Entry(NamedTuple):
    """The snapshot that a worker took after batch `number`.

    Attributes:
        mark: Smallest later position at which a state may begin; None: there is none.
        is_end: Whether the snapshot was taken at the end of the worker's stream, which followed that batch.
    """

    number: int
    mark: int | None
    snapshot: GeneratorSnapshot
    is_end: bool


class MomentLog:
    """The snapshots of one epoch at the positions where a state may begin.

    Every step can be repeated, because an interrupt may fall between any two.

    Args:
        num_workers: At least 1.
        every: A state begins at a multiple of this number; 0: at none.
        depth: The most batches that have arrived and are not yet handed out.
    """

    def __init__(self, num_workers: int, every: int, depth: int) -> None:
        self._every = every
        # Each worker has one snapshot for each mark that may still be asked for, and one before.
        self._entries: list[deque[_Entry]] = [deque(maxlen=depth + 3) for _ in range(num_workers)]
        self._turns: deque[tuple[int, int]] = deque(maxlen=depth + 3)

    def note(self, number: int, worker: int, snapshot: GeneratorSnapshot | None, *, is_end: bool = False) -> None:
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

    def at(self, position: int, worker: int) -> GeneratorSnapshot | None:
        """Returns the worker's last snapshot before `position`; None: it has taken none after a batch."""
        entry = self._entry_at(position, worker)
        return None if entry is None else entry.snapshot

    def is_known(self, position: int, worker: int) -> bool:
        """Returns whether the worker took a snapshot right after the batch before `position`."""
        entry = self._entry_at(position, worker)
        return entry is not None and entry.number == position - 1

    def has_ended(self, position: int, worker: int) -> bool:
        """Returns whether the worker's stream is known to have ended before `position`."""
        entry = self._entry_at(position, worker)
        return entry is not None and entry.is_end

    def worker_before(self, position: int) -> int | None:
        """Returns the worker that made the batch before `position`; None: this log has no such batch."""
        return dict(self._turns).get(position)

    def _entry_at(self, position: int, worker: int) -> _Entry | None:
        return next((entry for entry in reversed(self._entries[worker]) if entry.number < position), None)
