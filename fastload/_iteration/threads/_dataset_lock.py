"""One lock for each object that one thread at a time may ask, however many loaders ask it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

# By identity: equal data sets may be different ones, and many have no hash.
_locks: dict[int, tuple[weakref.ref[Any], threading.RLock]] = {}


def lock_of(item: Any) -> threading.RLock:
    """The same one for `item` as long as it lives.

    Raises:
        TypeError: `item` is of a type that cannot be weakly referenced.
    """
    number = id(item)
    reference = weakref.ref(item, lambda _: _locks.pop(number, None))
    return _locks.setdefault(number, (reference, threading.RLock()))[1]  # in one step


# A thread that has not come along into a child may hold one of its parent's.
os.register_at_fork(after_in_child=_locks.clear)
