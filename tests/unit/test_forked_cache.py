"""Results that forked processes share: computed once, by whichever process asks first, and never trusted unread."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from forked import in_fork
from made_samples import in_threads

from fastload._process import _forked_cache
from fastload._process._forked_cache import _SharedResults


@pytest.fixture
def results() -> _SharedResults:
    return _SharedResults()


def fail() -> Any:
    raise AssertionError("it is known")


def assert_known(results: _SharedResults, key: Any, value: Any) -> None:
    assert results.get(key, fail) == value


def test_a_result_of_a_child_is_known_to_its_parent_and_to_other_children(results: _SharedResults) -> None:
    in_fork(lambda: len(results.get(("a", 1.5), lambda: b"large" * 200_000)))
    in_fork(lambda: assert_known(results, ("a", 1.5), b"large" * 200_000))
    assert_known(results, ("a", 1.5), b"large" * 200_000)
    assert results.get(("a", 2.5), lambda: None) is None
    in_fork(lambda: assert_known(results, ("a", 2.5), None))


def test_threads_that_read_at_once_read_whole_records(results: _SharedResults, monkeypatch: pytest.MonkeyPatch) -> None:
    in_fork(lambda: sum(len(results.get(key, lambda key=key: "x" * key)) for key in range(20)))
    read = os.pread

    def read_while_others_do(*arguments: Any) -> bytes:
        time.sleep(0.001)
        return read(*arguments)

    monkeypatch.setattr(os, "pread", read_while_others_do)
    in_threads(4, lambda _: [assert_known(results, key, "x" * key) for key in range(20)])


@pytest.mark.parametrize("cut", [b"\x05", (2**62).to_bytes(8, "little") + b"no such size"])
def test_a_size_that_is_none_is_not_believed(results: _SharedResults, cut: bytes) -> None:
    os.write(results._descriptor, cut)
    assert results.get("key", lambda: 7) == 7


def test_a_process_that_asks_meanwhile_waits_for_the_result(results: _SharedResults) -> None:
    begun, begin = os.pipe()

    def compute_slowly() -> str:
        os.write(begin, b"x")
        time.sleep(0.2)
        return "slow"

    pid = os.fork()
    if pid == 0:
        results.get("key", compute_slowly)
        os._exit(0)
    os.read(begun, 1)
    assert_known(results, "key", "slow")
    os.waitpid(pid, 0)


def test_a_record_that_was_cut_off_ends_the_sharing_and_nothing_else(
    results: _SharedResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_fork(lambda: results.get("first", lambda: 1))
    os.write(results._descriptor, (1000).to_bytes(8, "little") + b"the process was killed here")
    assert_known(results, "first", 1)
    assert results.get("second", lambda: 2) == 2
    in_fork(lambda: assert_known(results, "second", 2))


def test_a_process_that_keeps_the_lock_delays_the_others_and_stops_none(
    results: _SharedResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_forked_cache, "_WAIT_SECONDS", 0.05)
    begun, begin = os.pipe()
    pid = os.fork()
    if pid == 0:
        results.get("key", lambda: (os.write(begin, b"x"), signal.pause()))
    os.read(begun, 1)
    assert results.get("key", lambda: 3) == 3
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_descriptor_that_has_become_another_file_is_left_alone(results: _SharedResults, tmp_path: Path) -> None:
    path = tmp_path / "the program's own"
    with path.open("wb") as file:
        os.dup2(file.fileno(), results._descriptor)
        assert results.get("key", lambda: 4) == 4
    os.close(results._descriptor)
    assert results.get("other", lambda: 5) == 5
    assert path.read_bytes() == b""


def test_without_memory_files_each_process_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> int:
        raise PermissionError("seccomp")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert _SharedResults().get("key", lambda: 6) == 6
