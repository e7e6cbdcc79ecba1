"""CachedDataset with files that are damaged, foreign, full or busy: right samples, and at most one warning."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import random
import re
import shutil
import sqlite3
import time
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from child_loader import wait_for
from children import RunChild
from made_samples import MadeSamples, check_samples, in_threads, once

import fastload
from fastload._cached import _file_samples, _sqlite_file
from fastload._cached._sqlite_file import SqliteFile

NUM_SAMPLES = 30


@pytest.fixture
def made(tmp_path: Path) -> MadeSamples:
    return MadeSamples(tmp_path / "log", NUM_SAMPLES)


@pytest.fixture
def path(tmp_path: Path, made: MadeSamples) -> Path:
    """Returns the path of a closed file with all samples."""
    path = tmp_path / "kept" / "s"
    fastload.CachedDataset(made, path).fill()
    Path(made.log).unlink()
    return path


def changed(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


def plant(path: Path, data: bytes) -> None:
    """Writes `data` instead of every sample, with the right checksums."""
    with changed(path) as connection:
        for (key,) in connection.execute("SELECT key FROM samples").fetchall():
            checksum = _sqlite_file._checksum(key, data)
            connection.execute("UPDATE samples SET data = ?, checksum = ? WHERE key = ?", (data, checksum, key))


@contextlib.contextmanager
def warned(number: int, pattern: str = "") -> Iterator[None]:
    """Checks that fastload gives this number of warnings, with this text."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    texts = [str(warning.message) for warning in found if warning.category is RuntimeWarning]
    assert len(texts) == number, texts
    assert all(re.search(pattern, text) for text in texts), texts


# ---- rows ----------------------------------------------------------------------------------------------------------

SPOILT = {
    "a bit": lambda data, choose: flipped(data, choose.randrange(8 * len(data))),
    "its end": lambda data, choose: data[: choose.randrange(len(data))],
    "more than it": lambda data, choose: data + b"\0",
    "nothing": lambda data, choose: b"",
    "a text": lambda data, choose: "text",
    "noise": lambda data, choose: choose.randbytes(len(data)),
}


def flipped(data: bytes, bit: int) -> bytes:
    spoilt = bytearray(data)
    spoilt[bit // 8] ^= 1 << bit % 8
    return bytes(spoilt)


@pytest.mark.parametrize("kind", SPOILT)
def test_a_damaged_row_is_made_anew_and_kept_again(path: Path, made: MadeSamples, kind: str) -> None:
    choose = random.Random(kind)
    with changed(path) as connection:
        rows = connection.execute("SELECT rowid, data FROM samples ORDER BY rowid").fetchall()
        spoilt = sorted(choose.sample(range(NUM_SAMPLES), 5))
        for number in spoilt:
            row, data = rows[number]
            connection.execute("UPDATE samples SET data = ? WHERE rowid = ?", (SPOILT[kind](data, choose), row))
    with warned(0):
        for _ in range(2):
            check_samples(fastload.CachedDataset(made, path), range(NUM_SAMPLES))
    assert made.made() == once(spoilt)


def test_rows_that_were_exchanged_are_not_believed(path: Path, made: MadeSamples) -> None:
    with changed(path) as connection:
        rows = connection.execute("SELECT rowid, data, checksum FROM samples ORDER BY rowid").fetchall()
        for (row, _, _), (_, data, checksum) in ((rows[3], rows[7]), (rows[7], rows[3])):
            connection.execute("UPDATE samples SET data = ?, checksum = ? WHERE rowid = ?", (data, checksum, row))
    check_samples(fastload.CachedDataset(made, path), range(NUM_SAMPLES))
    assert made.made() == once([3, 7])


def test_a_damaged_checksum_costs_a_sample_and_no_more(path: Path, made: MadeSamples) -> None:
    with changed(path) as connection:
        connection.execute("UPDATE samples SET checksum = checksum + 1 WHERE rowid = 4")
    check_samples(fastload.CachedDataset(made, path), range(NUM_SAMPLES))
    assert made.made() == once([3])


# ---- pages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_never_gives_a_wrong_sample(path: Path, made: MadeSamples, seed: int) -> None:
    choose = random.Random(seed)
    contents = bytearray(path.read_bytes())
    begin = 0 if seed % 8 == 0 else 100  # after the header, which is checked when the file is opened
    for _ in range(choose.choice([1, 20, 2000])):
        contents[choose.randrange(begin, len(contents))] = choose.randrange(256)
    if seed % 5 == 0:
        del contents[choose.randrange(200, len(contents)) :]
    path.write_bytes(contents)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            cached = fastload.CachedDataset(made, path)
        except ValueError as error:
            assert "is not used: it" in str(error)  # noqa: PT017 - not each seed raises
            return
        check_samples(cached, range(NUM_SAMPLES))
        check_samples(cached, range(NUM_SAMPLES))
    assert len(found) <= 1


def test_a_damaged_file_is_said_once_and_reads_on(path: Path, made: MadeSamples) -> None:
    contents = bytearray(path.read_bytes())
    contents[16384 * 2 : 16384 * 3] = bytes(16384)
    path.write_bytes(contents)
    with warned(1, r"the file of samples '.*/s' cannot be .* are made anew each time"):
        cached = fastload.CachedDataset(made, path)
        for _ in range(3):
            check_samples(cached, range(NUM_SAMPLES))


def test_a_journal_that_is_damaged_or_of_another_file_changes_no_sample(tmp_path: Path, made: MadeSamples) -> None:
    (tmp_path / "new").mkdir()
    cached = fastload.CachedDataset(made, tmp_path / "s")
    check_samples(cached, range(20))
    names = ["s", "s-wal"]
    for number in range(12):
        choose = random.Random(number)
        for name in names:
            shutil.copy(tmp_path / name, tmp_path / "new" / name)
        journal = tmp_path / "new" / "s-wal"
        contents = bytearray(journal.read_bytes())
        for _ in range(choose.choice([1, 50])):
            contents[choose.randrange(len(contents))] ^= 1 + choose.randrange(255)
        journal.write_bytes(contents[: choose.randrange(len(contents))] if number % 3 == 0 else contents)
        check_samples(fastload.CachedDataset(made, tmp_path / "new" / "s"), range(NUM_SAMPLES))
        for file in (tmp_path / "new").iterdir():
            file.unlink()


# ---- foreign -------------------------------------------------------------------------------------------------------


def test_a_file_of_something_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    database = tmp_path / "database"
    with changed(database) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    marked = tmp_path / "marked"
    with changed(marked) as connection:
        connection.execute("PRAGMA application_id = 77")
        connection.execute("CREATE TABLE samples (key, checksum, data)")
    newer = tmp_path / "newer"
    fastload.CachedDataset([1], newer)
    with changed(newer) as connection:
        connection.execute("PRAGMA user_version = 2")
    text = tmp_path / "text"
    text.write_text("this is no database " * 100)
    for file, reason in (
        (database, "it is a database of another program"),
        (marked, "it is a database of another program"),
        (newer, "it was made by another version of fastload (format 2)"),
        (text, "it is no file of samples (file is not a database)"),
    ):
        before = file.read_bytes()
        with pytest.raises(ValueError, match=re.escape(f"path='{file}' is not used: {reason}. Name another file")):
            fastload.CachedDataset([1], file)
        assert file.read_bytes() == before


def test_a_file_that_was_begun_and_not_made_is_made(tmp_path: Path, made: MadeSamples) -> None:
    with changed(tmp_path / "s") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    (tmp_path / "empty").touch()
    for name in ("s", "empty"):
        cached = fastload.CachedDataset(made, tmp_path / name)
        cached.fill()
        check_samples(cached, range(NUM_SAMPLES))
    assert made.made() == once(range(NUM_SAMPLES)) + once(range(NUM_SAMPLES))


def test_a_file_that_another_process_is_creating_is_waited_for(
    tmp_path: Path, made: MadeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    with changed(path) as other, warned(0):
        other.execute("BEGIN IMMEDIATE")  # until its end, SQLite refuses to switch the journal
        monkeypatch.setattr(time, "sleep", lambda seconds: other.close())
        assert fastload.CachedDataset(made, path).fill() == NUM_SAMPLES


class Planted:
    """Runs code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_file_that_somebody_else_has_written_runs_no_code(path: Path, made: MadeSamples, tmp_path: Path) -> None:
    written = io.BytesIO()
    torch.save(Planted(tmp_path / "was run"), written)
    plant(path, written.getvalue())
    with warned(1, r"a sample in '.*/s' cannot be read \(UnpicklingError: .* such samples are made anew"):
        cached = fastload.CachedDataset(made, path)
        for _ in range(2):
            check_samples(cached, range(NUM_SAMPLES))
    assert not (tmp_path / "was run").exists()
    assert made.made() == once(range(NUM_SAMPLES))  # the first epoch has replaced the planted ones


@pytest.mark.parametrize("spoilt", [b"", b"PK", b"\x80\x02]."])
def test_what_says_nothing_of_a_sample_is_made_anew(path: Path, made: MadeSamples, spoilt: bytes) -> None:
    strange = io.BytesIO()
    torch.save(["array", 3], strange)
    for data in (spoilt, strange.getvalue()):
        plant(path, data)
        with warned(1, "such samples are made anew"):
            check_samples(fastload.CachedDataset(made, path), range(NUM_SAMPLES))


def test_pickles_that_others_may_have_written_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fastload.CachedDataset([1], path, serializer="pickle").fill()
    for name in ("s", "s-wal"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o664)
        with pytest.raises(ValueError, match=re.escape("serializer='pickle', because other users can write to it")):
            fastload.CachedDataset([1], path, serializer="pickle")
        fastload.CachedDataset([1], path)
        with contextlib.suppress(FileNotFoundError):  # the journal
            (tmp_path / name).chmod(0o644)


def test_a_new_file_can_be_written_by_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        fastload.CachedDataset([1], tmp_path / "s").fill()
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o022 for file in tmp_path.iterdir()} == {0}


def test_a_class_that_is_gone_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    fastload.CachedDataset([Planted(tmp_path / "x")], path, serializer="pickle", key=lambda index: "a")
    kept = fastload.CachedDataset([ForAWhile()], path, serializer="pickle", key=lambda index: "a")
    kept.fill()
    monkeypatch.delitem(globals(), "ForAWhile")
    with warned(1, r"cannot be read \(AttributeError: .* version= if the classes of samples have changed"):
        assert fastload.CachedDataset(["new"], path, serializer="pickle", key=lambda index: "a")[0] == "new"
    with warned(0):
        assert fastload.CachedDataset(["newer"], path, serializer="pickle", key=lambda index: "a")[0] == "new"


class ForAWhile:
    pass


# ---- no room -------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_once_and_costs_time_only(
    tmp_path: Path, made: MadeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqliteFile._open

    def with_little_room(self: SqliteFile) -> sqlite3.Connection:
        connection = real(self)
        connection.execute("PRAGMA max_page_count = 5")
        return connection

    monkeypatch.setattr(SqliteFile, "_open", with_little_room)
    with warned(1, r"cannot be written to \(database or disk is full\): .* Make room on its disk"):
        cached = fastload.CachedDataset(made, tmp_path / "s")
        for _ in range(2):
            in_threads(3, lambda thread, cached=cached: check_samples(cached, range(NUM_SAMPLES)))  # type: ignore[misc]
    num_kept = sum(count == 1 for count in made.made().values())
    assert 5 < num_kept < NUM_SAMPLES - 5
    assert cached.fill() == num_kept
    dropped = weakref.ref(cached)
    del cached
    assert wait_for(lambda: gc.collect() >= 0 and dropped() is None)  # else the next one would use its connection
    # The samples in the file stay, and are found when there is room again.
    monkeypatch.setattr(SqliteFile, "_open", real)
    before = made.made()
    again = fastload.CachedDataset(made, tmp_path / "s")
    assert again.fill() == NUM_SAMPLES
    assert sum((made.made() - before).values()) == NUM_SAMPLES - num_kept


@pytest.mark.slow
def test_a_limit_of_the_system_on_files_is_a_full_disk(run_child: RunChild) -> None:
    child = run_child(
        """
        import resource, warnings
        from pathlib import Path
        import fastload
        from made_samples import MadeSamples, check_samples
        made = MadeSamples(Path("log"), 400)
        cached = fastload.CachedDataset(made, "s")
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        for _ in range(2):
            check_samples(cached, range(400))
        kept = sum(count == 1 for count in made.made().values())
        assert 1 <= kept < 390, kept
        assert cached.fill() == kept
        """,
        warm=True,
    )
    assert child.stderr.count("RuntimeWarning") == 1
    assert "/s' cannot be written to (disk I/O error): samples that are not in it are made anew" in child.stderr


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), sqlite3.OperationalError("disk I/O error")]
)
def test_a_disk_that_is_full_at_the_start_is_said_and_nothing_is_kept(
    tmp_path: Path, made: MadeSamples, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(path: Path) -> Any:
        raise error

    monkeypatch.setattr(_file_samples, "open_sqlite_file", fail)
    with warned(1, r"cannot be opened \(.*\): samples are made anew each time. Make room on its disk"):
        cached = fastload.CachedDataset(made, tmp_path / "s")
        for _ in range(2):
            check_samples(cached, range(NUM_SAMPLES))
        cached.clear()
        assert cached.fill() == 0
    assert repr(cached) == "CachedDataset(MadeSamples, no samples)"
    error = PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(PermissionError):
        fastload.CachedDataset(made, tmp_path / "s")


def test_a_file_that_somebody_else_keeps_locked_is_said_once(
    path: Path, made: MadeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_file, "_BUSY_SECONDS", 0.01)
    with changed(path) as connection, warned(1, r"cannot be written to \(database is locked\)"):
        cached = fastload.CachedDataset(made, path, version="new")
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            check_samples(cached, range(NUM_SAMPLES))
        connection.execute("ROLLBACK")
    assert set(made.made().values()) == {2}


def test_a_file_that_is_removed_while_it_is_used_costs_time_only(path: Path, made: MadeSamples) -> None:
    cached = fastload.CachedDataset(made, path)
    shutil.rmtree(path.parent)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        in_threads(4, lambda thread: check_samples(cached, range(NUM_SAMPLES)))
    assert len(found) <= 1


def test_a_sample_that_is_larger_than_a_row_may_be_is_not_kept(
    tmp_path: Path, made: MadeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_file, "_MAX_SAMPLE_BYTES", 3000)
    samples = [torch.zeros(10), torch.ones(5000), torch.ones(7)]
    with warned(1, r"has no room for a sample of 2\d.\d kB, as SQLite's rows have 1 GB at most"):
        cached = fastload.CachedDataset(samples, tmp_path / "s")
        assert cached.fill() == 2
        assert cached[1].sum() == 5000
