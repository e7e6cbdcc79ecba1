"""Files whose contents made them fail; they are not loaded again only to fail again."""

from __future__ import annotations

import errno
import os

import numpy as np
from numpy.typing import NDArray

from fastload._errors import SampleError
from fastload._pillow import _pillow
from fastload._quarantine._failure import Failure, is_of_sample
from fastload.sources._lowering import LoweredSource

# A file that was written less than this long before its load may have had other contents when it was read: a file
# system's clock is coarser than the program's.
_CLOCK_NS = 50_000_000


# Size and modification time in nanoseconds, which tell one version of a file from another.
_Version = tuple[int, int]


class KnownFailures:
    """A run's known failures, by index; each holds while its file has the same size and time.

    All are forgotten when the data set changes, or when Pillow accepts other files than before. Errors of opening and
    reading are not kept: they may not occur the next time.
    """

    def __init__(self) -> None:
        self._source: LoweredSource | None = None
        self._accepted: object = None
        self._known: dict[int, tuple[_Version, Failure]] = {}

    def note(self, error: SampleError, failure: Failure, begun_ns: int, directory: int | None) -> None:
        """Records a sample that failed by its contents, in a load that began at `begun_ns` of time.time_ns().

        A relative path is relative to `directory`, a descriptor; None: the current directory.
        """
        is_of_contents = failure.stage in ("header", "decode", "limit") and failure.errno in (None, errno.EFBIG)
        # Memory may be available the next time, and the program decides which warnings are errors.
        if not is_of_contents or not is_of_sample(error) or isinstance(error.cause, Warning):
            return
        if self._accepted != (accepted := _pillow.accepted_files()):  # the first unidentified file loads more formats
            self._accepted = accepted
            self._known.clear()
        found = _status(error.path, directory)
        if found is None or max(found.st_mtime_ns, found.st_ctime_ns) > begun_ns - _CLOCK_NS:
            return
        self._known[failure.index] = _version(found), failure

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
