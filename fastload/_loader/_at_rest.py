"""Which native loaders keep their threads and memory from one epoch to the next.

Each could, and its next epoch would begin at once. But a program may have hundreds of loaders, one for each client of
federated learning or each task of a benchmark: of those that nobody iterates, the last few that were begun keep them.
"""

from __future__ import annotations

import weakref

from fastload._loader._state import LoaderState

# Training and validation data, and two more that are read in turns with them.
MOST_AT_REST = 4


class RecentLoaders:
    """Loaders by when their last epoch began. Thread-safe without a lock, as LiveObjects."""

    def __init__(self) -> None:
        self._states: dict[int, weakref.ref[LoaderState]] = {}  # the oldest first

    def begin(self, state: LoaderState) -> None:
        """An epoch of that loader has begun. Those that were begun long ago let go of what they keep."""
        states, number = self._states, id(state)
        states.pop(number, None)
        states[number] = weakref.ref(state, lambda _: states.pop(number, None))
        for reference in list(states.values())[:-MOST_AT_REST]:
            one = reference()
            if one is not None:
                one.end_engine()


recent_loaders = RecentLoaders()
