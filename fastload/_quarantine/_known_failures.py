"""Files that failed by what is in them, which are not loaded again to fail again."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastload._errors import SampleError
from fastload._pillow import _pillow
from fastload._quarantine._failure import Failure, is_of_sample
from fastload.sources._lowering import LoweredSource

# A file may have been another one when it was read, where it was written less than this before it was asked for: the
# clock of a file system is coarser than the program's.
_CLOCK_NS = 50_000_000


class _Version(NamedTuple):
    """Which contents a file has."""

    size: int
    modified_ns: int


class KnownFailures:
    """What is remembered of them for a run: by index, while the file has the same size and time.

    All of it is forgotten where the data set is another one, or Pillow has come to take other files. Errors of opening
    and reading are not kept: they may be gone the next time.
    """

    def __init__(self) -> None:
        self._source: LoweredSource | None = None
        self._accepted: object = None
        self._known: dict[int, tuple[_Version, Failure]] = {}
        self._indices = np.empty(0, dtype=np.int64)  # of these

    def __len__(self) -> int:
        return len(self._known)

    def note(self, error: SampleError, failure: Failure, begun_ns: int, directory: int | None) -> None:
        """Keeps what has failed by its contents, in a load that began at `begun_ns` of time.time_ns().

        A relative path is one in `directory`, a descriptor; None: in the current one.
        """
        is_of_contents = failure.stage in ("header", "decode", "limit") and failure.errno in (None, errno.EFBIG)
        # Memory may be there the next time, and the program says which warnings are errors.
        if not is_of_contents or not is_of_sample(error) or isinstance(error.cause, Warning):
            return
        if self._accepted != (accepted := _pillow.accepted_files()):  # the first file that is no image loads formats
            self._accepted = accepted
            self._known.clear()
        found = _status(error.path, directory)
        if found is None or max(found.st_mtime_ns, found.st_ctime_ns) > begun_ns - _CLOCK_NS:
            return
        self._known[failure.index] = _version(found), failure
        self._indices = np.fromiter(self._known, dtype=np.int64, count=len(self._known))

    def among(self, indices: NDArray[np.int64], source: LoweredSource) -> list[int]:
        """Positions of the samples that have failed before; of another data set none have."""
        accepted = _pillow.accepted_files()
        if self._source is not source or self._accepted != accepted:
            self._source, self._accepted = source, accepted
            self._known.clear()
        return np.flatnonzero(np.isin(indices, self._indices)).tolist() if self._known else []

    def find(self, index: int, directory: int | None) -> Failure | None:
        """How a sample fails, where it is known to; place and role are those of another batch."""
        if index not in self._known:
            return None
        version, failure = self._known[index]
        found = None if failure.path is None else _status(failure.path, directory)
        if found is None or _version(found) != version:
            del self._known[index]
            return None
        return failure


def _version(status: os.stat_result) -> _Version:
    return _Version(status.st_size, status.st_mtime_ns)


def _status(path: str, directory: int | None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=directory)
    except OSError:
        return None
