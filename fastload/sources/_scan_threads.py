"""Threads for calls that wait for a disk or a network."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from fastload._process._started_thread import StartedThread

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_Call = tuple[Future[Any], Callable[[Any], Any], Any]


class ScanThreads:
    """At most `most` threads, started when they are needed; fewer if the system refuses more.

    A context manager. At its end the threads end and are joined. If an exception ends it, such as an interrupt, calls
    that have not begun are dropped, and those that have are not waited for.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._threads: list[threading.Thread] = []
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()

    def __enter__(self) -> ScanThreads:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with contextlib.suppress(queue.Empty):
                while True:
                    self._calls.get_nowait()
        for _thread in self._threads:
            self._calls.put(None)
        if kind is None:
            for thread in self._threads:
                thread.join()

    def map(self, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """Yields `function` of each item, in order; the caller's thread calls it if there is no other."""
        self._start(min(len(items), self._most))
        if not self._threads:
            return map(function, items)
        futures: list[Future[_Result]] = []
        for item in items:
            futures.append(Future())
            self._calls.put((futures[-1], function, item))
        return (future.result() for future in futures)

    def _start(self, count: int) -> None:
        while len(self._threads) < count:
            thread = StartedThread(target=_run, args=(self._calls,), name="fastload-scan")
            try:
                thread.start()
            except RuntimeError:  # a limit on processes; the existing threads do the work
                self._most = len(self._threads)
                return
            self._threads.append(thread)


def _run(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        future, function, item = call
        try:
            future.set_result(function(item))
        except BaseException as error:  # noqa: BLE001 - a thread has no caller; the reader of the result gets it
            future.set_exception(error)
        del call, future, item
