"""One lock for each object that only one thread at a time may ask, shared by all loaders."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

# The keys are identities: different data sets may be equal, and many have no hash.
_locks: dict[int, tuple[weakref.ref[Any], threading.RLock]] = {}


def lock_of(item: Any) -> threading.RLock:
    """Returns the lock of `item`, the same one as long as `item` lives.

    Raises:
        TypeError: `item` cannot be weakly referenced.
    """
    number = id(item)
    reference = weakref.ref(item, lambda _: _locks.pop(number, None))
    return _locks.setdefault(number, (reference, threading.RLock()))[1]  # atomic


# In a child, a lock may be held by a thread of the parent, which the child does not have.
os.register_at_fork(after_in_child=_locks.clear)
