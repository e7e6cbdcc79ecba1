"""What the workers of an iteration have left behind their batches, as far as a state may still be asked for."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from fastload._iteration.threads._worker_draws import GeneratorSnapshot


class _Entry(NamedTuple):
    """What a worker has left behind the batch of that number.

    Attributes:
        mark: The first position from there on of which a state begins.
        is_end: Whether it is what the worker has left behind its stream's end, which came behind that batch.
    """

    number: int
    mark: int | None
    moment: GeneratorSnapshot
    is_end: bool


class MomentLog:
    """The moments of one epoch, at the positions of which a state begins.

    An interrupt falls between two of its steps, so each can be repeated.

    Args:
        num_workers: At least 1.
        every: A state begins at the multiples of it; 0: at none.
        depth: So many batches at most have come and were not handed out.
    """

    def __init__(self, num_workers: int, every: int, depth: int) -> None:
        self._every = every
        # Of each worker one moment for each mark that may still be asked for, and one before.
        self._entries: list[deque[_Entry]] = [deque(maxlen=depth + 3) for _ in range(num_workers)]
        self._turns: deque[tuple[int, int]] = deque(maxlen=depth + 3)

    def note(self, number: int, worker: int, moment: GeneratorSnapshot | None, *, is_end: bool = False) -> None:
        """Called when batch `number` has come; with `is_end` when a stream was found to have ended behind it."""
        mark = None if self._every == 0 else (number // self._every + 1) * self._every
        if mark == number + 1 and not is_end and (number + 1, worker) not in self._turns:
            self._turns.append((number + 1, worker))
        entries = self._entries[worker]
        entry = None if moment is None else _Entry(number, mark, moment, is_end)
        last = entries[-1] if entries else None
        if entry is None or (last is not None and (last.number, last.is_end) >= (number, is_end)):
            return
        if last is not None and last.mark == mark:
            entries[-1] = entry  # nobody asks for a position between the two
        else:
            entries.append(entry)

    def at(self, position: int, worker: int) -> GeneratorSnapshot | None:
        """What the worker has left before that position; None: it has not come behind a batch."""
        entry = self._entry_at(position, worker)
        return None if entry is None else entry.moment

    def is_known(self, position: int, worker: int) -> bool:
        """Whether the worker was asked right behind the batch before that position."""
        entry = self._entry_at(position, worker)
        return entry is not None and entry.number == position - 1

    def has_ended(self, position: int, worker: int) -> bool:
        """Whether its stream is known to have ended before that position."""
        entry = self._entry_at(position, worker)
        return entry is not None and entry.is_end

    def worker_before(self, position: int) -> int | None:
        """Whose the batch before that position was; None: it came in no batch of this log."""
        return dict(self._turns).get(position)

    def _entry_at(self, position: int, worker: int) -> _Entry | None:
        return next((entry for entry in reversed(self._entries[worker]) if entry.number < position), None)
