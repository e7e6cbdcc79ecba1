"""functools.cache for results that forked processes share, whichever of them has computed one."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pickle
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# How long a process waits for another one that computes; then it computes, too.
_WAIT_SECONDS, _POLL_SECONDS = 5.0, 0.002
_DIGEST_BYTES = 16
_SIZE_BYTES = 8


class _SharedResults:
    """Results in a file in memory, which forked children inherit. Each is a size, a digest and a pickle."""

    def __init__(self) -> None:
        try:
            self._descriptor = os.memfd_create("fastload", os.MFD_CLOEXEC)
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, os.O_APPEND)
            self._file = self._identity()
        except OSError:  # some containers refuse it
            self._file = None
        self._known: dict[Any, Any] = {}
        self._num_read = 0

    def get(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Returns the result of `key`. If none is known yet, other processes that ask meanwhile wait for this one."""
        if self._file is None or self._file != self._identity():
            return compute()
        try:
            self._wait_for_turn()
            self._read()
            if key not in self._known:
                self._known[key] = compute()
                self._write(key)
            return self._known[key]
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _wait_for_turn(self) -> None:
        """Takes the lock, which only saves work. An interrupt may leave it with a process, so the wait has a limit."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _identity(self) -> tuple[int, int] | None:
        """Returns the file that the descriptor is of now: a program may close all descriptors and open others."""
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _read(self) -> None:
        at, end = self._num_read, os.fstat(self._descriptor).st_size
        while at < end:
            size = int.from_bytes(os.pread(self._descriptor, _SIZE_BYTES, at), "little")
            record = os.pread(self._descriptor, min(_DIGEST_BYTES + size, end), at + _SIZE_BYTES)
            data = record[_DIGEST_BYTES:]
            if record[:_DIGEST_BYTES] != _digest(data):  # its process was killed in the middle of it
                return
            key, result = pickle.loads(data)
            self._known.setdefault(key, result)
            at += _SIZE_BYTES + len(record)
            self._num_read = at  # threads that read at once set it to the end of a record, each

    def _write(self, key: Any) -> None:
        data = pickle.dumps((key, self._known[key]), 5)
        os.write(self._descriptor, len(data).to_bytes(_SIZE_BYTES, "little") + _digest(data) + data)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


_results = _SharedResults()


def forked_cache(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorates a function whose result is the same in each process that is forked from this one, and takes long.

    Arguments and results are small, can be pickled, and compare by value.
    """

    @functools.cache
    def compute_once(*arguments: Any) -> Result:
        key = function.__module__, function.__qualname__, arguments
        result: Result = _results.get(key, lambda: function(*arguments))  # type: ignore[call-arg]
        return result

    return functools.wraps(function)(compute_once)  # type: ignore[return-value]
