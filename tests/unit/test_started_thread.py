from __future__ import annotations

import _thread
import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from fastload._process import _started_thread
from fastload._process._exit import DaemonThread, join_threads

START = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
start_of_python: Callable[..., Any] = getattr(threading, START)


class Recorded(DaemonThread):
    has_run = False

    def run(self) -> None:
        self.has_run = True

    def signal_end(self) -> None:
        pass


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What threads would be started with; none is."""
    starts: list[tuple[Any, ...]] = []
    monkeypatch.setattr(_started_thread, "BEGIN_SECONDS", 0.01)

    def keep(*arguments: Any, **named: Any) -> None:
        starts.append((arguments, named))

    monkeypatch.setattr(threading, START, keep)
    return starts


def test_a_thread_that_does_not_begin_is_given_up(kept: list[tuple[Any, ...]]) -> None:
    thread = Recorded("lost")
    with pytest.raises(RuntimeError, match=r"the thread lost did not begin within 0\.01 s; the system may have no"):
        thread.start()
    assert thread not in threading.enumerate()
    assert not thread.is_alive()
    assert join_threads([thread], 10)
    gone = weakref.ref(thread)
    kept.clear()
    del thread
    gc.collect()
    assert gone() is None


def test_a_thread_that_begins_after_it_was_given_up_does_nothing(
    kept: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = Recorded("late")
    with pytest.raises(RuntimeError):
        thread.start()
    monkeypatch.undo()
    [(arguments, named)] = kept
    start_of_python(*arguments, **named)
    assert thread._started.wait(10)  # type: ignore[attr-defined]
    thread.join()
    assert not thread.has_run
    assert thread not in threading.enumerate()


def test_a_thread_begins_that_waits_for_the_gil_for_longer(
    kept: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_the_gil = ctypes.PyDLL(None).usleep
    has_begun = threading.Lock()

    def begin_and_keep_the_gil(arguments: Any, named: Any) -> None:
        start_of_python(*arguments, **named)
        keep_the_gil(400_000)
        has_begun.release()

    def start(*arguments: Any, **named: Any) -> None:
        has_begun.acquire()
        _thread.start_new_thread(begin_and_keep_the_gil, (arguments, named))

    monkeypatch.setattr(_started_thread, "BEGIN_SECONDS", 0.3)
    monkeypatch.setattr(threading, START, start)
    for _ in range(3):
        thread = Recorded("slow")
        thread.start()
        thread.join(10)
        assert thread.has_run
        assert has_begun.acquire(timeout=10)
        has_begun.release()


def test_a_thread_that_begins_runs_and_is_no_part_of_a_cycle() -> None:
    thread = Recorded("usual")
    thread.start()
    thread.join(10)
    assert thread.has_run
    gone = weakref.ref(thread)
    gc.disable()
    try:
        del thread
        assert gone() is None
    finally:
        gc.enable()
