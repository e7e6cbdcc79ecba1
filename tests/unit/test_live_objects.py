"""Live objects are found while other threads add to them and objects end."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from both_loaders import Threads

import fastload
from fastload._process import _exit
from fastload._process._exit import DaemonThread, ExitState, LiveObjects


class Item:
    def __eq__(self, other: object) -> Any:
        raise TypeError("it has no equals")

    __hash__ = None  # type: ignore[assignment]


def interleaved(action: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """Returns the result of `action`, with a call of `other` before each of its lines, like another thread's."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            sys.settrace(None)
            other()
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return action()
    finally:
        sys.settrace(before)


def test_objects_are_known_by_identity_and_as_long_as_they_live() -> None:
    live: LiveObjects[Item] = LiveObjects()
    kept, gone = Item(), Item()
    for item in (kept, gone, kept):
        live.add(item)
    assert list(map(id, live.all())) == [id(gone), id(kept)]
    del gone, item
    gc.collect()
    assert list(map(id, live.all())) == [id(kept)]


def test_objects_may_come_and_go_during_a_look() -> None:
    live: LiveObjects[Item] = LiveObjects()
    kept = [Item() for _ in range(5)]
    for item in kept:
        live.add(item)

    def change() -> None:
        kept.append(Item())
        live.add(kept[-1])
        live.add(Item())

    first = list(map(id, kept))
    assert list(map(id, interleaved(live.all, change)))[:5] == first
    assert len(live.all()) == len(kept) > 5


def test_counters_of_a_loader_can_be_read_while_another_thread_begins_epochs() -> None:
    loader = Threads([1, 2, 3], num_workers=1)
    iterators = [iter(loader)]
    workers = loader._fastload.workers
    found = interleaved(workers.stats, lambda: len(iterators) > 20 or iterators.append(iter(loader)))
    assert len(iterators) > 2
    assert found["batches_in_flight"] >= 2
    loader.close()


def test_a_loader_can_be_closed_while_another_thread_begins_epochs() -> None:
    loader = Threads([1, 2, 3], num_workers=1)
    iterators = [iter(loader)]
    interleaved(loader.close, lambda: len(iterators) > 20 or iterators.append(iter(loader)))
    with pytest.raises(fastload.LoaderClosedError):
        next(iterators[0])
    loader.close()


def test_threads_that_begin_while_the_interpreter_exits_keep_no_other_from_being_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_exit, "_live_threads", LiveObjects())
    monkeypatch.setattr(_exit, "exit_state", ExitState())

    class Waiting(DaemonThread):
        def __init__(self) -> None:
            super().__init__("waiting")
            self.end = threading.Event()

        def run(self) -> None:
            self.end.wait()

        def signal_end(self) -> None:
            self.end.set()

    threads = [Waiting() for _ in range(3)]
    for thread in threads:
        thread.start()
    later: list[Waiting] = []

    def begin_another() -> None:
        later.append(Waiting())
        later[-1].start()

    interleaved(_exit._exit, lambda: len(later) > 20 or begin_another())
    assert later
    assert not any(thread.is_alive() for thread in threads)
    for thread in later:
        thread.signal_end()
        thread.join()
