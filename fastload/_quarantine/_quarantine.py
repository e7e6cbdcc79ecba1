"""Counts the bad samples of delivered batches, writes them to the ledger, and ends a run with too many."""

from __future__ import annotations

import collections
import errno
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastload._errors import SampleError, TooManyErrors
from fastload._pillow import _pillow
from fastload._quarantine._failure import Account, Failure, is_of_sample
from fastload._quarantine._policy import ErrorPolicy
from fastload.sources._lowering import LoweredSource

# This many end no run, however small the run is.
_FEW = 100
_COMMONEST = 5
# A file that was written less than this long before its load may have had other contents when it was read: a file
# system's clock is coarser than the program's.
_CLOCK_NS = 50_000_000
# Size and modification time in nanoseconds, which tell one version of a file from another.
_Version = tuple[int, int]


class Ledger:
    """Appends lines to a file. A write error causes one warning and is otherwise ignored.

    The file is created with the first line. The lines of one batch are written by one call. Each of several ranks has
    its own file: bad.jsonl -> bad.rank0003.jsonl.
    """

    def __init__(self, path: str | os.PathLike[str], rank: int = 0, world_size: int = 1) -> None:
        if world_size > 1:
            path = Path(path).with_stem(f"{Path(path).stem}.rank{rank:04d}")
        self.path = os.fspath(path)
        self._has_begun = self._has_failed = False

    def append(self, entries: Iterable[Mapping[str, Any]]) -> None:
        lines = "".join(json.dumps(entry, ensure_ascii=True) + "\n" for entry in entries)
        if not lines:
            return
        try:
            self._write(lines.encode())
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                warnings.warn(
                    f"the ledger {self.path!r} cannot be written: {error}. Training continues without it",
                    stacklevel=2,
                )

    def _write(self, lines: bytes) -> None:
        """Appends `lines` in one call, so that several programs on one machine can share the file.

        A run that was killed while it wrote may have left a line without an end, which is completed first.
        """
        with open(self.path, "a+b", buffering=0) as file:  # noqa: PTH123 - a path may be bytes
            size = os.fstat(file.fileno()).st_size
            if not self._has_begun and size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n":
                lines = b"\n" + lines
            if file.write(lines) != len(lines):
                raise OSError("the disk took only a part of the lines")
        self._has_begun = True


class KnownFailures:
    """Files whose contents made them fail, by index; each is known while it has the same size and time.

    They are not loaded again only to fail again. All are forgotten when the data set changes, or when Pillow accepts
    other files than before. Errors of opening and reading are not kept: they may not occur the next time.
    """

    def __init__(self) -> None:
        self._source: LoweredSource | None = None
        self._accepted: object = None
        self._known: dict[int, tuple[_Version, Failure]] = {}

    def note(self, error: SampleError, begun_ns: int, directory: int | None) -> None:
        """Records a sample that failed by its contents, in a load that began at `begun_ns` of time.time_ns().

        A relative path is relative to `directory`, a descriptor; None: the current directory.
        """
        is_of_contents = error.stage in ("header", "decode", "limit") and error.errno in (None, errno.EFBIG)
        # Memory may be available the next time, and the program decides which warnings are errors.
        if not is_of_contents or not is_of_sample(error) or isinstance(error.cause, Warning):
            return
        if self._accepted != (accepted := _pillow.accepted_files()):  # the first unidentified file loads more formats
            self._accepted = accepted
            self._known.clear()
        found = _status(error.path, directory)
        if found is None or max(found.st_mtime_ns, found.st_ctime_ns) > begun_ns - _CLOCK_NS:
            return
        self._known[error.index] = _version(found), Failure.of(error, error.index, 0)

    def among(self, indices: NDArray[np.int64], source: LoweredSource) -> list[int]:
        """Returns the positions of samples that have failed before; none for another data set."""
        accepted = _pillow.accepted_files()
        if self._source is not source or self._accepted != accepted:
            self._source, self._accepted = source, accepted
            self._known.clear()
        if not self._known:
            return []
        return [position for position, index in enumerate(indices.tolist()) if index in self._known]

    def find(self, index: int, directory: int | None) -> Failure | None:
        """Returns a sample's known failure, or None; its position and role are from another batch."""
        if index not in self._known:
            return None
        version, failure = self._known[index]
        found = None if failure.path is None else _status(failure.path, directory)
        if found is None or _version(found) != version:
            del self._known[index]
            return None
        return failure


def _version(status: os.stat_result) -> _Version:
    return status.st_size, status.st_mtime_ns


def _status(path: str, directory: int | None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=directory)
    except OSError:
        return None


class Quarantine:
    """The account of one loader in one process, for the iterating thread. `add` gets counters of LoaderStats to add."""

    def __init__(self, policy: ErrorPolicy, rank: int, world_size: int, add: Callable[[dict[str, Any]], None]) -> None:
        self.policy = policy
        self._rank = rank
        self._ledger = None if policy.ledger is None else Ledger(policy.ledger, rank, world_size)
        self._add = add
        self._num_samples = self._num_failed = 0
        self._kinds: collections.Counter[str] = collections.Counter()
        self.known = KnownFailures()

    def count(self, account: Account, epoch: int, step: int) -> None:
        """Counts a batch that is delivered, number `step` of its epoch."""
        self._num_samples += account.num_samples
        if not account.failures:
            return
        bad = [failure for failure in account.failures if not failure.is_substitute]
        self._num_failed += len(bad)
        self._kinds.update(failure.kind for failure in account.failures)
        self._add({"samples_replaced" if self.policy.on_error == "replace" else "samples_skipped": len(bad)})
        if self._ledger is not None:
            now = {"time": time.time(), "rank": self._rank, "epoch": epoch, "step": step}
            self._ledger.append({**now, **failure.as_dict()} for failure in account.failures)

    def check(self) -> None:
        """Raises TooManyErrors if more samples have failed than max_errors allows."""
        if self._num_failed <= max(_FEW, self.policy.max_errors * self._num_samples):
            return
        raise TooManyErrors(
            self._num_failed,
            self._num_samples,
            self.policy.max_errors,
            tuple(self._kinds.most_common(_COMMONEST)),
        )
