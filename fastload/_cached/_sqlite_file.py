"""One SQLite file with samples, as one process uses it.

Note [connections]
A thread takes a connection for each access to the file, and gives it back. So threads read side by side, and a thread
that ends leaves nothing open. No connection is open while the process forks: SQLite counts the locks that the process
has on a file, and a child would inherit the counts without the locks, which the system does not give to children. Other
processes would then delete the journal while the child uses it. So a fork waits until no thread is inside of SQLite,
all connections are closed, and parent and child open new ones when they need them. If a thread does not come out in
time, the child does not use the file, and keeps the inherited connections as they are until it ends in any way.
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
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path

from fastload._cached._samples import Turns
from fastload._display._units import in_bytes
from fastload._process._exit import LiveObjects
from fastload._process._locked import Locked
from fastload._process._worker_process import warn

# "fls1", for PRAGMA application_id; and the version of the rows' format.
_APPLICATION = 0x666C7331
_FORMAT = 1
# SQLite reads page by page, and rows are large.
_PAGE_BYTES = 16 << 10
# The bytes of a row besides its sample: the key twice, and half a page that is not full.
_ROW_BYTES = _PAGE_BYTES // 2
_MAX_SAMPLE_BYTES = 10**9 - _ROW_BYTES  # SQLite's own limit on a row
_BUSY_SECONDS = 30.0
_BUSY_PAUSE_SECONDS = 0.002
# A fork waits no longer: a thread inside of SQLite may wait for the disk.
_FORK_SECONDS = 1.0
_TABLE = "CREATE TABLE samples (key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, data BLOB NOT NULL)"
# In one statement, because another process may make the table at the same time.
_HEAD = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
    "FROM pragma_application_id, pragma_user_version"
)

# Python cannot decode all messages of SQLite on a damaged file.
FAULTS = (sqlite3.Error, UnicodeDecodeError)

# Connections of parents that were in use at the fork. Each has one more reference than this one, so that the end of the
# interpreter does not close it.
_inherited: list[list[sqlite3.Connection]] = []


def open_sqlite_file(path: Path) -> SqliteFile:
    """Opens a file, or returns the object that this process already has for it; see SqliteFile."""
    with _opening:
        with contextlib.suppress(FileNotFoundError):
            if (found := _opened.get(_identity(path))) is not None:
                return found
        opened = SqliteFile(path)
        _opened[_identity(path)] = opened
        return opened


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


# By device and inode: two names of one file share an object, and a new file of the same name gets its own.
_opened: weakref.WeakValueDictionary[tuple[int, int], SqliteFile] = weakref.WeakValueDictionary()
_opening = threading.RLock()


class SqliteFile(Locked):
    """One file, which is created if it is missing; a process has one object for it. Thread-safe.

    Attributes:
        turns: The samples that threads of this process make just now.
        problem: Why no samples are kept any more; None if they are.

    Raises:
        ValueError: It is a file of something else.
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
        _forks.files.add(self)
        self._set_up()

    def before_fork(self) -> None:
        """Closes the connections: Note [connections]."""
        with self._lock:
            self._close(self._idle)
            self._all = [connection for connection in self._all if connection not in self._idle]
            self._idle = []

    def after_fork(self) -> None:
        """Gives up the file in a child with inherited connections: Note [connections]."""
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

    def has(self, key: bytes) -> bool:
        """Returns whether there is a row."""
        if self._is_lost:
            return False
        with self._failing_softly("read"), self._connection() as connection:
            return connection.execute("SELECT 1 FROM samples WHERE key = ?", (key,)).fetchone() is not None
        return False

    def get(self, key: bytes) -> bytes | None:
        """Returns the bytes of a sample; None if there is no row or its checksum is wrong."""
        if self._is_lost:
            return None
        with self._failing_softly("read"), self._connection() as connection:
            found = connection.execute("SELECT checksum, data FROM samples WHERE key = ?", (key,)).fetchone()
            if found is not None and type(found[1]) is bytes and found[0] == _checksum(key, found[1]):
                data: bytes = found[1]
                return data
        return None

    def put(self, key: bytes, data: bytes, max_bytes: int | None) -> bool:
        """Keeps a sample, instead of any row with this key, and returns whether `max_bytes` has room for it.

        If it was not kept for another reason, `problem` says so.
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
        """Removes all rows. The file keeps its size for the next samples."""
        if self._is_lost:
            return
        self.problem = None
        with self._failing_softly("written to"), self._connection() as connection, _transaction(connection):
            connection.execute("DELETE FROM samples")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with _forks.kept_away():
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
        # SQLite would read other characters of a name as a query, a fragment or an escape.
        name = urllib.parse.quote(os.fsencode(self.path.absolute()))
        connection = sqlite3.connect(
            f"file:{name}?mode=rw",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # A power failure may lose the last samples; the others stay whole.
            connection.execute("PRAGMA synchronous = NORMAL")
            # Another user may have written the file.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._all.append(connection)
        return connection

    def _set_up(self) -> None:
        """Creates the file unless it exists.

        Only SQLite opens an existing file: closing any other descriptor of it would release SQLite's locks.
        """
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
            # A damaged file of samples still has our application id in its header.
            if self._application() == _APPLICATION:
                raise
            raise ValueError(self._refused(f"it is no file of samples ({error})")) from error

    def _make(self, connection: sqlite3.Connection) -> None:
        """Creates the table if there is none. Several processes may do so at once."""
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
        """Returns whether the file has no table yet, even if a process was killed while it created the file."""
        application, version, num_tables = connection.execute(_HEAD).fetchone()
        if application == version == num_tables == 0:
            return True
        if application != _APPLICATION:
            raise ValueError(self._refused("it is a database of another program"))
        if version != _FORMAT:
            raise ValueError(self._refused(f"it was made by another version of fastload (format {version})"))
        return False

    def _application(self) -> int:
        """Returns the application id in the header of a file that SQLite does not read."""
        with self.path.open("rb") as file:
            return int.from_bytes(file.read(72)[68:], "big")

    def _refused(self, reason: str) -> str:
        return (
            f"path={str(self.path)!r} is not used: {reason}. Name another file, or remove this one if nobody needs it"
        )

    @contextlib.contextmanager
    def _failing_softly(self, what: str) -> Iterator[None]:
        """Turns SQLite's errors into a single warning. They only cost time, because the samples are made anew."""
        try:
            yield
        except FAULTS as error:
            if what == "written to":
                self.problem = str(error)
            self._warn(f"cannot be {what} ({error})")

    def _warn(self, problem: str) -> None:
        if not self._first_warning.acquire(blocking=False):
            return
        warn(
            f"the file of samples {str(self.path)!r} {problem}: samples that are not in it are made anew each time. "
            "Make room on its disk, or remove the file and start again",
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
        with contextlib.suppress(sqlite3.Error):  # some faults have already ended it
            connection.execute("ROLLBACK")
        raise


def _used_bytes(connection: sqlite3.Connection) -> int:
    """Returns the used bytes of the file, including its journal and without free pages."""
    return (_asked(connection, "page_count") - _asked(connection, "freelist_count")) * _asked(connection, "page_size")


def _asked(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _checksum(key: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(key))


class _Forks:
    """Keeps forks away from blocks of code, and closes the files before a fork: Note [connections]. Thread-safe."""

    def __init__(self) -> None:
        self.files: LiveObjects[SqliteFile] = LiveObjects()
        self._begin()
        os.register_at_fork(before=self._wait, after_in_parent=self._go_on, after_in_child=self._begin)

    @contextlib.contextmanager
    def kept_away(self) -> Iterator[None]:
        """Marks a block that a fork waits for."""
        changed = self._changed
        with changed:
            changed.wait_for(lambda: not self._is_forking)
            self._num_inside += 1
        try:
            yield
        finally:
            with changed:
                self._num_inside -= 1
                changed.notify_all()

    def _begin(self) -> None:
        """Sets up a process with no thread in a block; also called in a child."""
        self._changed = threading.Condition()
        self._num_inside = 0
        self._is_forking = False

    def _wait(self) -> None:
        with self._changed:
            self._is_forking = True
            self._changed.wait_for(lambda: self._num_inside == 0, _FORK_SECONDS)
        for file in self.files.all():
            file.before_fork()

    def _go_on(self) -> None:
        with self._changed:
            self._is_forking = False
            self._changed.notify_all()


_forks = _Forks()
