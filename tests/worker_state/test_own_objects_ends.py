"""When a worker's copies end, no finalizer runs, and nothing is kept."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from boxes import Box, own

from fastload._workers import _objects
from fastload._workers._objects import copies


def test_finalizers_of_copies_do_not_run_at_the_end() -> None:
    ended: list[str] = []

    class Handle:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            ended.append(self.name)

    box = Box(handle=Handle("kept"), other=Handle("dropped"), circle=[])
    box.circle.append(box)
    mine = own(box)
    mine.roots[0].other = None
    assert ended == ["dropped"]  # as in a child that drops it
    mine.end()
    gc.collect()
    assert ended == ["dropped"]
    del box
    gc.collect()
    assert sorted(ended) == ["dropped", "dropped", "kept"]


def test_finalize_of_a_copy_does_nothing() -> None:
    ended: list[int] = []
    box = Box()
    box.finalizer = weakref.finalize(box, ended.append, 1)
    mine = own(box)
    mine.roots[0].finalizer()
    mine.end()
    del mine
    assert ended == []
    assert box.finalizer.alive
    box.finalizer.detach()


def test_finalizers_do_not_run_where_a_copy_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    class Handle:
        def __del__(self) -> None:
            ended.append(1)

    handle = Handle()

    def refuse(state: Any) -> Any:
        raise MemoryError

    box = Box(handle=handle, iterator=iter([1]))
    monkeypatch.setattr("fastload._workers._rare.when_copied", lambda parts, finish: (None, parts, refuse))
    with pytest.raises(MemoryError):
        copies((box, None, None), 1)
    assert gc.isenabled()
    assert ended == []
    del box, handle
    assert ended == [1]


def test_finalizers_do_not_run_where_a_later_workers_copies_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    class Handle:
        def __del__(self) -> None:
            ended.append(1)

    makings = [_objects.Making(lambda _: False)]  # and no second one
    monkeypatch.setattr(_objects, "Making", lambda _: makings.pop())
    handle = Handle()
    with pytest.raises(IndexError):
        copies((Box(handle=handle), None, None), 2)
    assert ended == []


def test_nothing_is_left_of_copies_that_are_gone() -> None:
    box = Box(items=[Box(value=number) for number in range(50)], generator=np.random.default_rng(3))
    box.method = box.items.append
    box.function = lambda: box
    counts = []
    gc.collect()
    gc.freeze()  # existing objects need not be counted each time
    try:
        for _ in range(100):
            for mine in copies((box, box.function, None), 2):
                mine.end()
            del mine
            gc.collect()
            counts.append(len(gc.get_objects()))
    finally:
        gc.unfreeze()
    assert counts[-1] - counts[0] < 50, "less than one for each time"


def test_what_is_copied_does_not_keep_the_original_alive() -> None:
    box = Box(items=[Box()])
    box.circle = box
    mine = own(box)
    gone = weakref.ref(box)
    del box
    gc.collect()
    assert gone() is None
    assert len(mine.roots[0].items) == 1
