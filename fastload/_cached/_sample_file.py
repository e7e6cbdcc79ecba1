"""One SQLite file with samples, as one process uses it.

Note [connections]
A thread takes a connection for each look at the file, and gives it back: threads read side by side, and a thread that
ends leaves nothing open. None is open while the process forks. SQLite counts the locks that the process has on a file,
and a child that found them counted would take itself to have them, too, when the system has given it none: others would
then take the journal away under its feet. So a fork waits until no thread is inside of SQLite, all connections are
closed, and parent and child open new ones when they need them. Where a thread does not come out in time, the child
leaves the file alone, and keeps what is open as it is until it ends, whatever ends it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sqlite3
import threading
import time
import urllib.parse
import warnings
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path

from fastload._cached._forks import forks
from fastload._cached._turns import Turns
from fastload._display._units import in_bytes
from fastload._process._locked import Locked

# "fls1", of PRAGMA application_id; and what raises when rows mean something else.
_APPLICATION = 0x666C7331
_FORMAT = 1
# Rows are large, and SQLite reads page by page.
_PAGE_BYTES = 16 << 10
# What a row takes besides its sample: the key twice, and half a page that is not full.
_ROW_BYTES = _PAGE_BYTES // 2
_MAX_SAMPLE_BYTES = 10**9 - _ROW_BYTES  # SQLite's own limit of a row
_BUSY_SECONDS = 30.0
_BUSY_PAUSE_SECONDS = 0.002
_TABLE = "CREATE TABLE samples (key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, data BLOB NOT NULL)"
# In one statement, because another process may make the table at the same time.
_HEAD = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_application_id, pragma_user_version"
)

# Python cannot say all that SQLite says of a damaged file.
FAULTS = (sqlite3.Error, UnicodeDecodeError)

# Connections of parents, in use when they forked. Each has a reference more than this one, so that no end of the
# interpreter closes it.
_inherited: list[list[sqlite3.Connection]] = []


class ForeignFileError(ValueError):
    """A file that is not one of samples."""


def open_sample_file(path: Path) -> SampleFile:
    """The file of this process; see SampleFile."""
    with _opening:
        with contextlib.suppress(FileNotFoundError):
            if (found := _opened.get(_identity(path))) is not None:
                return found
        opened = SampleFile(path)
        _opened[_identity(path)] = opened
        return opened


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


# By device and inode, so that two names of a file are one, and another file of the same name is another one.
_opened: weakref.WeakValueDictionary[tuple[int, int], SampleFile] = weakref.WeakValueDictionary()
_opening = threading.RLock()


class SampleFile(Locked):
    """One file, of which a process has one object. Thread-safe.

    Args:
        path: Of the file, which is made where it is missing.

    Attributes:
        path: The same.
        turns: Whose turn it is in this process.
        problem: Why nothing is kept any more; None: it is.

    Raises:
        ForeignFileError: It is a file of something else.
        OSError, sqlite3.Error, UnicodeDecodeError: It cannot be opened, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.turns = Turns()
        self.problem: str | None = None
        self._first_warning = threading.Lock()  # taken once and never released
        self._is_lost = False
        self._idle: list[sqlite3.Connection] = []
        self._all: list[sqlite3.Connection] = []
        forks.add(self)
        self._set_up()

    def before_fork(self) -> None:
        """See Note [connections]."""
        with self._lock:
            self._close(self._idle)
            self._all = [connection for connection in self._all if connection not in self._idle]
            self._idle = []

    def after_fork(self) -> None:
        """See Locked, and Note [connections]."""
        super().after_fork()
        if not self._all:
            return
        for connection in self._all:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        _inherited.append(self._all)
        self._idle, self._all = [], []
        self._is_lost = True
        self.problem = "the process was forked while another thread was inside of SQLite"

    def __del__(self) -> None:
        self._close(getattr(self, "_all", []))

    @staticmethod
    def _close(connections: list[sqlite3.Connection]) -> None:
        for connection in connections:
            with contextlib.suppress(*FAULTS):
                connection.close()

    # ---- rows ------------------------------------------------------------------------------------------------------

    def has(self, key: bytes) -> bool:
        """Whether there is a row."""
        if self._is_lost:
            return False
        with self._failing_softly("read"), self._connection() as connection:
            return connection.execute("SELECT 1 FROM samples WHERE key = ?", (key,)).fetchone() is not None
        return False

    def get(self, key: bytes) -> bytes | None:
        """The bytes of a sample; None where there are none, or they are not those that were put."""
        if self._is_lost:
            return None
        with self._failing_softly("read"), self._connection() as connection:
            found = connection.execute("SELECT checksum, data FROM samples WHERE key = ?", (key,)).fetchone()
            if found is not None and type(found[1]) is bytes and found[0] == _checksum(key, found[1]):
                data: bytes = found[1]
                return data
        return None

    def put(self, key: bytes, data: bytes, max_bytes: int | None) -> bool:
        """Keeps a sample, in the place of a row with this key.

        Returns:
            Whether the file has room for it, in `max_bytes`. It may have none for another reason: see `problem`.
        """
        if self.problem is not None:
            return True
        if len(data) > _MAX_SAMPLE_BYTES:
            self._warn(f"has no room for a sample of {in_bytes(len(data))}, as SQLite's rows have 1 GB at most")
            return True
        with self._failing_softly("written to"), self._connection() as connection, _transaction(connection):
            if max_bytes is not None and _used_bytes(connection) + len(data) + _ROW_BYTES > max_bytes:
                return False
            connection.execute("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", (key, _checksum(key, data), data))
        return True

    def clear(self) -> None:
        """Removes all rows. The file keeps its size, and what is put next uses it."""
        if self._is_lost:
            return
        self.problem = None
        with self._failing_softly("written to"), self._connection() as connection, _transaction(connection):
            connection.execute("DELETE FROM samples")

    # ---- connections -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with forks.kept_away():
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._open()
            try:
                yield connection
            finally:
                with self._lock:
                    self._idle.append(connection)

    def _open(self) -> sqlite3.Connection:
        # The other characters of a name are a question, a fragment and an escape to SQLite.
        name = urllib.parse.quote(os.fsencode(self.path.absolute()))
        connection = sqlite3.connect(
            f"file:{name}?mode=rw",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # A power failure may take the last samples, and leaves the others whole.
            connection.execute("PRAGMA synchronous = NORMAL")
            # Somebody else may have written the file.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._all.append(connection)
        return connection

    def _set_up(self) -> None:
        """Makes the file, unless it is there. One that is is opened by SQLite alone: to close any descriptor of it lets
        go of the locks that SQLite has."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        except FileExistsError:
            if not os.access(self.path, os.R_OK | os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path)) from None
        try:
            with self._connection() as connection:
                self._make(connection)
        except sqlite3.OperationalError:
            raise
        except FAULTS as error:
            # Of a file that was ours the head says so.
            if self._application() == _APPLICATION:
                raise
            raise ForeignFileError(self._refused(f"it is no file of samples ({error})")) from error

    def _make(self, connection: sqlite3.Connection) -> None:
        """Makes the table if there is none. Several processes may do so at once."""
        is_new = self._is_empty(connection)
        if is_new:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        _begin_journal(connection)
        if not is_new:
            return
        with _transaction(connection):
            if self._is_empty(connection):
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")

    def _is_empty(self, connection: sqlite3.Connection) -> bool:
        """Whether nothing is in the file yet, or what a process left that was killed while it made it."""
        application, version, num_tables = connection.execute(_HEAD).fetchone()
        if application == version == num_tables == 0:
            return True
        if application != _APPLICATION:
            raise ForeignFileError(self._refused("it is a database of another program"))
        if version != _FORMAT:
            raise ForeignFileError(self._refused(f"it was made by another version of fastload (format {version})"))
        return False

    def _application(self) -> int:
        """What the head of the file says, where SQLite does not read it."""
        with self.path.open("rb") as file:
            return int.from_bytes(file.read(72)[68:], "big")

    def _refused(self, reason: str) -> str:
        return (
            f"path={str(self.path)!r} is not used: {reason}. Name another file, or remove this one if nobody needs it"
        )

    # ---- faults ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _failing_softly(self, what: str) -> Iterator[None]:
        """What SQLite cannot do is said once, and costs time only: the samples are made anew."""
        try:
            yield
        except FAULTS as error:
            if what == "written to":
                self.problem = str(error)
            self._warn(f"cannot be {what} ({error})")

    def _warn(self, problem: str) -> None:
        if not self._first_warning.acquire(blocking=False):
            return
        warnings.warn(
            f"the file of samples {str(self.path)!r} {problem}: samples that are not in it are made anew each time. "
            "Make room on its disk, or remove the file and start again",
            RuntimeWarning,
            stacklevel=2,
        )


def _begin_journal(connection: sqlite3.Connection) -> None:
    """Switches the file to write-ahead logging. SQLite itself does not wait while another process does the same."""
    end = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if str(error) != "database is locked" or time.monotonic() > end:
                raise
            time.sleep(_BUSY_PAUSE_SECONDS)
        else:
            return


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # some faults have ended it
            connection.execute("ROLLBACK")
        raise


def _used_bytes(connection: sqlite3.Connection) -> int:
    """Of the file, with what is still in its journal, and without what can be used anew."""
    return (_asked(connection, "page_count") - _asked(connection, "freelist_count")) * _asked(connection, "page_size")


def _asked(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _checksum(key: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(key))
