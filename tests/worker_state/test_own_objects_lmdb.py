"""Files that datasets open lazily in each worker; lmdb opens a path once in a process."""

from __future__ import annotations

import sqlite3
import threading
import types
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fastload._workers._lmdb import LmdbExchange
from fastload._workers._objects import copies

lmdb = pytest.importorskip("lmdb", reason="lmdb is in tests/requirements.txt")


@pytest.fixture
def path(tmp_path: Path) -> str:
    with lmdb.open(str(tmp_path)) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"a", b"1")
    return str(tmp_path)


@pytest.fixture
def exchange() -> Iterator[LmdbExchange]:
    exchange = LmdbExchange(lambda: threading.current_thread() is not threading.main_thread())
    exchange.begin()
    yield exchange
    exchange.end()


def in_threads(function: Any, number: int = 4) -> list[Any]:
    with ThreadPoolExecutor(number) as pool:
        return [future.result() for future in [pool.submit(function) for _ in range(number)]]


def test_workers_that_open_one_path_share_its_environment(path: str, exchange: LmdbExchange) -> None:
    handles = in_threads(lambda: lmdb.open(path, readonly=True, lock=False))
    assert [handle.begin().get(b"a") for handle in handles] == [b"1"] * 4
    assert all(isinstance(handle, lmdb.Environment) for handle in handles)
    assert handles[0].path() == path


def test_arguments_may_have_no_names(path: str, exchange: LmdbExchange) -> None:
    handles = in_threads(lambda: lmdb.open(path, 1 << 20, True, True, lock=False))
    assert [handle.flags()["readonly"] for handle in handles] == [True] * 4


def test_a_worker_that_closes_its_handle_closes_no_others(path: str, exchange: LmdbExchange) -> None:
    one, other = in_threads(lambda: lmdb.Environment(path, readonly=True, lock=False), 2)
    one.close()
    assert other.begin().get(b"a") == b"1"
    with pytest.raises(lmdb.Error, match="closed"):
        one.begin()
    with other as handle:
        assert handle.begin().get(b"a") == b"1"
    del one, other, handle
    lmdb.open(path).close()  # nothing has it open


def test_other_flags_and_other_threads_get_lmdbs_own_answer(path: str, exchange: LmdbExchange) -> None:
    (kept,) = in_threads(lambda: lmdb.open(path, readonly=True, lock=False), 1)
    with pytest.raises(lmdb.Error, match="already open"):
        in_threads(lambda: lmdb.open(path), 1)
    with pytest.raises(lmdb.Error, match="already open"):
        lmdb.open(path, readonly=True, lock=False)
    kept.close()


def test_a_worker_waits_for_an_environment_that_is_being_closed(path: str, exchange: LmdbExchange) -> None:
    """Its weak reference is dead before lmdb has closed it: the last epoch's copies end beside the next one's."""
    closing = lmdb.open(path, readonly=True, lock=False)
    timer = threading.Timer(0.2, closing.close)
    timer.start()
    (handle,) = in_threads(lambda: lmdb.open(path, readonly=True, lock=False), 1)
    timer.join()
    assert handle.begin().get(b"a") == b"1"


def test_an_environment_that_the_dataset_has_open_is_given_to_workers(path: str, exchange: LmdbExchange) -> None:
    exchange.end()
    environment = lmdb.open(path, readonly=True, lock=False)
    exchange.begin()
    (mine,) = copies((types.SimpleNamespace(environment=environment), None, None), 1)
    assert mine.roots[0].environment is environment
    (handle,) = in_threads(lambda: lmdb.open(path, readonly=True, lock=False), 1)
    assert handle.begin().get(b"a") == b"1"
    environment.close()


def test_the_names_are_lmdbs_own_again_at_the_last_end() -> None:
    before = lmdb.open, lmdb.Environment
    exchange = LmdbExchange(lambda: True)
    exchange.begin()
    exchange.begin()
    exchange.end()
    assert lmdb.open is not before[0]
    exchange.end()
    assert (lmdb.open, lmdb.Environment) == before


class Lazy:
    """Opens its file when it is first asked, as a dataset does in a worker."""

    def __init__(self, opening: Any, path: Path) -> None:
        self.opening = opening
        self.path = path
        self.file: Any = None

    def __getitem__(self, read: Any) -> Any:
        if self.file is None:
            self.file = self.opening(self.path)
        return read(self.file)


def read_in_workers(dataset: Lazy, read: Any) -> list[Any]:
    workers = iter(copies((dataset, None, None), 4))
    return in_threads(lambda: next(workers).roots[0][read])


def test_zip_sqlite_and_hdf5_files_are_opened_by_each_worker(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("name", "text")
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("create table numbers as select 5 as number")
    database.commit()
    assert read_in_workers(Lazy(zipfile.ZipFile, tmp_path / "a.zip"), lambda file: file.read("name")) == [b"text"] * 4
    select = "select number from numbers"
    assert (
        read_in_workers(Lazy(sqlite3.connect, tmp_path / "a.db"), lambda file: file.execute(select).fetchall())
        == [[(5,)]] * 4
    )
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["numbers"] = [1, 2]
    assert read_in_workers(Lazy(h5py.File, tmp_path / "a.h5"), lambda file: list(file["numbers"])) == [[1, 2]] * 4
