from __future__ import annotations

import _thread
import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from child_loader import wait_for
from children import RunChild

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
    """Records the arguments of threads, and starts none."""
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


@pytest.mark.parametrize("has_begun", [False, True], ids=["before_the_thread_begins", "once_it_runs"])
def test_an_error_that_a_handler_raises_after_the_start_is_the_programs(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], has_begun: bool
) -> None:
    """`threading` takes it for a refusal, but the thread runs."""
    thread = Recorded("interrupted")
    may_begin = threading.Lock()
    begin_in_python = Recorded._bootstrap  # type: ignore[attr-defined]

    def begin(thread: Recorded) -> None:
        with may_begin:
            pass
        begin_in_python(thread)

    def start(*arguments: Any, **named: Any) -> None:
        start_of_python(*arguments, **named)
        if has_begun:
            may_begin.release()
            assert wait_for(lambda: thread.has_run, 10)
        raise TimeoutError("of the program")

    monkeypatch.setattr(Recorded, "_bootstrap", begin)
    monkeypatch.setattr(threading, START, start)
    may_begin.acquire()
    with pytest.raises(TimeoutError, match="of the program"):
        thread.start()
    if not has_begun:
        may_begin.release()
    assert wait_for(lambda: thread.has_run, 10)
    assert join_threads([thread], 10)
    assert thread not in threading.enumerate()
    assert capfd.readouterr().err == ""


def test_threads_begin_after_starts_that_a_handler_has_interrupted(run_child: RunChild) -> None:
    """An exception may come between any two steps of `start`; it must leave no lock held."""
    run_child(
        """
        import threading
        from fastload._process._started_thread import StartedThread
        from signal_exceptions import Alarms

        def begin():
            StartedThread(target=runs.append, args=(1,)).start()

        alarms, failed, runs = Alarms(seed=1), [], []
        threading.excepthook = failed.append
        while alarms.num_raised < 1000:
            alarms.done(begin, longest_seconds=0.0002)
        last = StartedThread(target=runs.append, args=("last",))
        last.start()
        last.join(10)
        assert not last.is_alive() and "last" in runs and not failed  # threads before it may run later
        """,
        timeout=60,
    )
