"""Whose turn it is to make a sample, so that each is made once.

Note [who makes a sample]
The first to ask for a sample makes it, and others who ask for the same wait: threads here, processes at a lock of the
file, see Note [claims] in _claims.py. Who makes a sample waits for nobody: a data set may ask for other samples of
its own cache while it makes one, and two that wait for each other's would wait for ever. So such a sample may be made
twice.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from fastload._process._locked import Locked


class _Turn:
    """Of one sample: held by the thread that makes it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.num_waiting = 0


class Turns(Locked):
    """Those of one process. Thread-safe; a forked child begins with none."""

    def __init__(self) -> None:
        super().__init__()
        self._turns: dict[bytes, _Turn] = {}
        self._makers: dict[int, int] = {}  # threads that make samples, and how many

    def after_fork(self) -> None:
        """See Locked."""
        super().after_fork()
        self._turns = {}
        self._makers = {}

    def is_maker(self) -> bool:
        """Whether the calling thread makes a sample."""
        return threading.get_ident() in self._makers

    def locked(self) -> AbstractContextManager[Any]:
        """Held while what is kept is changed."""
        return self._lock

    @contextlib.contextmanager
    def turn(self, key: bytes, *, waits: bool = True) -> Iterator[bool]:
        """In it the calling thread makes the sample `key`.

        Args:
            key: Of the sample.
            waits: For another thread that makes it.

        Yields:
            Whether it is this thread's turn. If not, another thread makes the sample just now.
        """
        waits = waits and not self.is_maker()
        with self._lock:
            turns = self._turns
            turn = turns.setdefault(key, _Turn())
            turn.num_waiting += 1
        try:
            is_mine = turn.lock.acquire(blocking=waits)
            try:
                with self._making() if is_mine else contextlib.nullcontext():
                    yield is_mine
            finally:
                if is_mine:
                    turn.lock.release()
        finally:
            with self._lock:
                turn.num_waiting -= 1
                if turn.num_waiting == 0 and turns.get(key) is turn:
                    del turns[key]

    @contextlib.contextmanager
    def _making(self) -> Iterator[None]:
        thread, makers = threading.get_ident(), self._makers
        makers[thread] = makers.get(thread, 0) + 1  # no other thread changes its number
        try:
            yield
        finally:
            makers[thread] -= 1
            if makers[thread] == 0:
                del makers[thread]
