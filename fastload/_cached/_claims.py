"""Which process makes a sample of a file of samples.

Note [claims]
A claim is a POSIX lock on one byte of a file beside the samples: the byte is named by the sample's key. The system lets
go of it when its process ends, however it ends, so that nobody waits for a process that was killed, and no rule has to
tell who is alive. Such locks are the process's: a forked child has none of them, threads do not exclude each other by
them (Turns does that), and to close any descriptor of the file lets go of all. So a process has one descriptor of it,
which lives as long as what uses the file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_BUSY = (errno.EACCES, errno.EAGAIN)
_FIRST_PAUSE_SECONDS = 0.0005
_LONGEST_PAUSE_SECONDS = 0.02
_SETTING_UP = 1 << 62  # behind all samples


class Claims:
    """Those of this process on the samples of one file.

    Args:
        path: Of the file with the locks. It is made where it is missing.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        os.close(self._fd)

    @contextlib.contextmanager
    def claim(self, key: bytes, *, waits: bool = True) -> Iterator[bool]:
        """In it no other process makes the sample `key`, if it asks before.

        Args:
            key: Of the sample; its first bytes are as good as random.
            waits: For another process that makes it.

        Yields:
            Whether that is so. Where the file system has no locks, it always is.
        """
        with self._locked(int.from_bytes(key[:8], "big") >> 2, waits) as is_mine:
            yield is_mine

    @contextlib.contextmanager
    def setting_up(self) -> Iterator[None]:
        """In it no other process makes the file of samples."""
        with self._locked(_SETTING_UP, waits=True):
            yield

    @contextlib.contextmanager
    def _locked(self, byte: int, waits: bool) -> Iterator[bool]:
        is_mine = self._lock(byte, waits)
        try:
            yield is_mine
        finally:
            if is_mine:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)

    def _lock(self, byte: int, waits: bool) -> bool:
        """Asks again and again: the system refuses to wait where it takes threads that wait for a deadlock."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except OSError as error:
                if error.errno not in _BUSY:
                    return True
            else:
                return True
            if not waits:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
