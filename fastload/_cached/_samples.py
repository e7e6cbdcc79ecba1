"""The samples that a CachedDataset keeps: none, or some in memory.

Note [made once]
The first thread that asks for a sample makes it, and the others that ask for the same sample wait. A thread that makes
a sample waits for no other: a data set may ask its own cache for other samples, and two threads that wait for each
other would wait for ever. So a sample may be made twice there. Processes do not wait for each other at all: two of them
that need a sample of one file at the same time both make it, and the second row replaces the first, which is equal.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

import torch

from fastload._cached._copies import finished, num_bytes, on, own_copy
from fastload._display._units import counted, in_bytes
from fastload._process._locked import Locked

# Returned instead of a sample that is not kept.
MISSING: Final = object()


class Turns(Locked):
    """The samples that the threads of this process make just now. Thread-safe; a forked child begins with none."""

    def __init__(self) -> None:
        super().__init__()
        self.after_fork()

    def after_fork(self) -> None:
        """Begins with none: their threads do not exist in a forked child."""
        super().after_fork()
        self._changed = threading.Condition(self._lock)
        self._in_progress: dict[object, tuple[bytes, int]] = {}  # by turn: key and thread

    @contextlib.contextmanager
    def turn(self, key: bytes) -> Iterator[None]:
        """Marks the sample `key` as made by the calling thread; see Note [made once] for when it waits."""
        turn, thread = object(), threading.get_ident()
        try:
            with self._changed:
                if all(maker != thread for _, maker in self._in_progress.values()):
                    self._changed.wait_for(lambda: all(made != key for made, _ in self._in_progress.values()))
                self._in_progress[turn] = key, thread
            yield
        finally:
            with self._changed:
                self._in_progress.pop(turn, None)  # a child that was forked meanwhile has none
                self._changed.notify_all()


class Samples:
    """Samples by their keys, shared by all worker threads. Thread-safe. The base class keeps none.

    Attributes:
        turns: The samples that threads make just now, if any are kept: Note [made once].
    """

    turns: Turns

    @property
    def is_full(self) -> bool:
        """Whether no further samples are kept."""
        return True

    def has(self, key: bytes) -> bool:
        """Returns whether a sample is kept; it may still turn out to be damaged."""
        return False

    def get(self, key: bytes) -> Any:
        """Returns a sample that belongs to the caller; MISSING if it is not kept."""
        return MISSING

    def put(self, key: bytes, sample: Any) -> None:
        """Keeps a sample if there is room. `sample` is not changed and still belongs to the caller."""

    def clear(self) -> None:
        """Drops all samples."""

    def describe(self) -> str:
        """Tells users how many samples there are, and where."""
        return "no samples"


class MemorySamples(Locked, Samples):
    """Samples kept as objects. A forked child has its parent's samples, and does not share those it adds.

    Args:
        max_bytes: Limit on their size; None: no limit.
        copies: Whether samples are copied when they are kept and when they are handed out.
        to: Device to which tensors are moved when they are handed out; None: they stay where they are.
    """

    def __init__(self, max_bytes: int | None, *, copies: bool, to: torch.device | None) -> None:
        super().__init__()
        self._to = to
        self._max_bytes = max_bytes
        self._copies = copies
        self._samples: dict[bytes, Any] = {}
        self._num_bytes = 0
        self._is_full = False
        self.turns = Turns()

    @property
    def is_full(self) -> bool:
        return self._is_full

    def has(self, key: bytes) -> bool:
        return key in self._samples

    def get(self, key: bytes) -> Any:
        found = self._samples.get(key, MISSING)
        if found is MISSING:
            return MISSING
        return on(own_copy(found) if self._copies else found, self._to)

    def put(self, key: bytes, sample: Any) -> None:
        """Keeps a sample if there is room. Raises TypeError if it cannot be copied."""
        if self._is_full:
            return
        kept = finished(own_copy(sample), None) if self._copies else sample
        size = 0 if self._max_bytes is None else num_bytes(kept)
        with self._lock:
            if key in self._samples:  # made twice: see Note [made once]
                return
            if self._max_bytes is not None and self._num_bytes + size > self._max_bytes:
                self._is_full = True
                return
            self._num_bytes += size
            self._samples[key] = kept

    def clear(self) -> None:
        with self._lock:
            self._samples = {}
            self._num_bytes = 0
            self._is_full = False

    def describe(self) -> str:
        most = "" if self._max_bytes is None else f" in at most {in_bytes(self._max_bytes)}"
        return f"{counted(len(self._samples), 'sample')} in memory{most}"
