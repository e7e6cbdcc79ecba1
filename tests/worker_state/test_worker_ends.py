"""How workers begin and end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from both_loaders import Threads
from numbered import Numbered


def test_an_iterator_is_there_before_worker_init_fn_is_done() -> None:
    is_made = threading.Event()
    waited: list[bool] = []

    def wait(_worker_id: int) -> None:
        waited.append(is_made.wait(10))

    iterator = iter(Threads(Numbered(), num_workers=2, worker_init_fn=wait))
    is_made.set()
    assert list(iterator)
    assert waited == [True, True]


def test_a_worker_that_gets_no_event_loop_says_so_and_nothing_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    iterator = iter(Threads(Numbered(), num_workers=2))
    with pytest.raises(OSError, match="Too many open files"):
        next(iterator)
