"""Files that datasets open lazily in each worker; for lmdb the real package, and a stand-in that opens a path once."""

from __future__ import annotations

import sqlite3
import sys
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


def fake_lmdb() -> types.ModuleType:
    module = types.ModuleType("lmdb")
    open_paths: set[str] = set()

    class Error(Exception):
        pass

    class Environment:
        """Opens a path once in a process."""

        def __init__(self, path: str, map_size: int = 10, **options: Any) -> None:
            self._path, self._is_open = path, False
            self._flags = {"readonly": False, "lock": True, "subdir": True} | options
            if path in open_paths:
                raise Error(f"The environment {path!r} is already open in this process.")
            open_paths.add(path)
            self._is_open, self._data = True, {b"a": b"1"}

        def _check(self) -> None:
            if not self._is_open:
                raise Error("Attempt to operate on closed/deleted/dropped object.")

        def flags(self) -> dict[str, Any]:
            self._check()
            return self._flags

        def path(self) -> str:
            return self._path

        def begin(self, **options: Any) -> Any:
            self._check()
            return self

        def get(self, key: bytes) -> bytes | None:
            return self._data.get(key)

        def close(self) -> None:
            if self._is_open:
                open_paths.discard(self._path)
            self._is_open = False

        __del__ = close

        def __reduce__(self) -> Any:
            raise TypeError("cannot pickle 'Environment' object")

    module.Environment = module.open = Environment  # type: ignore[attr-defined]
    module.Error = Error  # type: ignore[attr-defined]
    return module


@pytest.fixture(params=["real", "fake"])
def lmdb(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "real":
        return pytest.importorskip("lmdb")
    module = fake_lmdb()
    monkeypatch.setitem(sys.modules, "lmdb", module)
    return module


@pytest.fixture
def path(lmdb: Any, tmp_path: Path) -> str:
    if lmdb.__spec__ is not None:
        with lmdb.open(str(tmp_path)) as environment, environment.begin(write=True) as transaction:
            transaction.put(b"a", b"1")
    return str(tmp_path)


@pytest.fixture
def exchange(lmdb: Any) -> Iterator[LmdbExchange]:
    exchange = LmdbExchange(lambda: threading.current_thread() is not threading.main_thread())
    exchange.begin()
    yield exchange
    exchange.end()


def in_threads(function: Any, number: int = 4) -> list[Any]:
    with ThreadPoolExecutor(number) as pool:
        return [future.result() for future in [pool.submit(function) for _ in range(number)]]


def test_workers_that_open_one_path_share_its_environment(lmdb: Any, path: str, exchange: LmdbExchange) -> None:
    handles = in_threads(lambda: lmdb.open(path, readonly=True, lock=False))
    assert [handle.begin().get(b"a") for handle in handles] == [b"1"] * 4
    assert all(isinstance(handle, lmdb.Environment) for handle in handles)
    assert handles[0].path() == path


def test_arguments_may_have_no_names(lmdb: Any, path: str, exchange: LmdbExchange) -> None:
    handles = in_threads(lambda: lmdb.open(path, 1 << 20, True, True, lock=False))
    assert [handle.flags()["readonly"] for handle in handles] == [True] * 4


def test_a_worker_that_closes_its_handle_closes_no_others(lmdb: Any, path: str, exchange: LmdbExchange) -> None:
    one, other = in_threads(lambda: lmdb.Environment(path, readonly=True, lock=False), 2)
    one.close()
    assert other.begin().get(b"a") == b"1"
    with pytest.raises(lmdb.Error, match="closed"):
        one.begin()
    with other as handle:
        assert handle.begin().get(b"a") == b"1"
    del one, other, handle
    lmdb.open(path).close()  # nothing has it open


def test_other_flags_and_other_threads_get_lmdbs_own_answer(lmdb: Any, path: str, exchange: LmdbExchange) -> None:
    (kept,) = in_threads(lambda: lmdb.open(path, readonly=True, lock=False), 1)
    with pytest.raises(lmdb.Error, match="already open"):
        in_threads(lambda: lmdb.open(path), 1)
    with pytest.raises(lmdb.Error, match="already open"):
        lmdb.open(path, readonly=True, lock=False)
    kept.close()


def test_a_worker_waits_for_an_environment_that_is_being_closed(lmdb: Any, path: str, exchange: LmdbExchange) -> None:
    """Its weak reference is dead before lmdb has closed it: the last epoch's copies end beside the next one's."""
    closing = lmdb.open(path, readonly=True, lock=False)
    timer = threading.Timer(0.2, closing.close)
    timer.start()
    (handle,) = in_threads(lambda: lmdb.open(path, readonly=True, lock=False), 1)
    timer.join()
    assert handle.begin().get(b"a") == b"1"


def test_an_environment_that_the_dataset_has_open_is_given_to_workers(
    lmdb: Any, path: str, exchange: LmdbExchange
) -> None:
    if lmdb.__spec__ is None:
        pytest.skip("a class of Python's, which is copied")
    exchange.end()
    environment = lmdb.open(path, readonly=True, lock=False)
    exchange.begin()
    (mine,) = copies((types.SimpleNamespace(environment=environment), None, None), 1)
    assert mine.roots[0].environment is environment
    (handle,) = in_threads(lambda: lmdb.open(path, readonly=True, lock=False), 1)
    assert handle.begin().get(b"a") == b"1"
    environment.close()


def test_the_names_are_lmdbs_own_again_at_the_last_end(lmdb: Any) -> None:
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
