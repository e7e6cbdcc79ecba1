"""Which native loaders keep their threads and memory from one epoch to the next.

If every loader kept them, its next epoch would start at once. But a program may have hundreds of loaders, one for each
client in federated learning or each task of a benchmark. So only the most recently used idle loaders keep them.
"""

from __future__ import annotations

import functools
import weakref

from fastload._loader._state import LoaderState

# Enough for training and validation data, and two more loaders that are used in turns with them.
MOST_AT_REST = 4


class RecentLoaders:
    """Loaders, ordered by the start of their last epoch. Thread-safe without a lock, like LiveObjects."""

    def __init__(self) -> None:
        self._states: dict[int, weakref.ref[LoaderState]] = {}  # the oldest first

    def begin(self, state: LoaderState) -> None:
        """Notes that an epoch of that loader has begun; older idle loaders release their threads and memory."""
        states, number = self._states, id(state)
        states.pop(number, None)
        states[number] = weakref.ref(state, functools.partial(states.pop, number))  # Note [drops]
        for reference in list(states.values())[:-MOST_AT_REST]:
            one = reference()
            if one is not None:
                one.end_engine()


recent_loaders = RecentLoaders()
