"""The objects that workers share, as users are told of them: rows of explain(), and warnings in certain cases."""

from __future__ import annotations

import functools
import random
import sqlite3
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from boxes import Box

from fastload._workers._objects import copies
from fastload._workers._shared import SharedObject, shared_rows
from fastload._workers._warnings import SharedMemoryWatch, changed_by_name

NAMES = "dataset", "collate_fn", "worker_init_fn"


class Slotted:
    __slots__ = ("database",)


def rows_of(dataset: Any = None, collate_fn: Any = None) -> tuple[SharedObject, ...]:
    return shared_rows((dataset, collate_fn, None), NAMES)


# ---- rows ----------------------------------------------------------------------------------------------------------


def test_a_row_says_where_what_why_and_what_to_do() -> None:
    database = sqlite3.connect(":memory:")
    (row,) = rows_of(Box(index=[None, Box(env=database)]))
    assert row == SharedObject(
        "dataset.index[1].env",
        "sqlite3.Connection",
        "an open handle cannot be copied",
        "open it when a sample is first asked for or in worker_init_fn, or use fastload.per_thread(open_it), so that "
        "each worker has its own",
    )


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda it: {"a": it}, "dataset['a']"),
        (lambda it: {3: (0, it)}, "dataset[3][1]"),
        (lambda it: Box(f=functools.partial(print, it)), "dataset.f.args[0]"),
        (lambda it: Box(f=lambda: it), "it in dataset.f"),
        (lambda it: Box(f=lambda x=it: x), "a default of dataset.f"),
        (lambda it: Box(f=Box(mine=it).__init__), "dataset.f.__self__.mine"),
        (lambda it: {it}, "an element of dataset"),
        (lambda it: Box(it=it, weak=weakref.ref(it)), "dataset.it"),
    ],
)
def test_a_path_is_what_a_user_writes(wrap: Any, path: str) -> None:
    generator = (number for number in range(3))
    (row,) = rows_of(wrap(generator))
    assert row.path == path
    assert row.type_name == "generator"
    assert row.remedy.startswith("make it in worker_init_fn")


@pytest.mark.parametrize("arguments", [("r",), ("rb",), ("rb", 0), ("r+b",)], ids=str)
def test_an_open_file_is_a_handle(arguments: tuple[Any, ...]) -> None:
    with open(__file__, *arguments) as file:  # noqa: PTH123
        (row,) = rows_of(Box(file=file))
    assert row.reason == "an open handle cannot be copied"
    assert row.remedy.startswith("open it when a sample is first asked for")


def test_slots_and_other_roots_have_paths() -> None:
    slotted = Slotted()
    slotted.database = sqlite3.connect(":memory:")
    assert [row.path for row in rows_of(slotted)] == ["dataset.database"]
    assert [row.path for row in rows_of(None, Box(inner=slotted))] == ["collate_fn.inner.database"]


def test_large_arrays_and_containers_have_rows() -> None:
    dataset = Box(big=np.zeros((17, 1 << 20), np.uint8), weights=torch.zeros(5 << 20))
    dataset.samples = [[number] for number in range(100_001)]
    rows = {row.path: row for row in rows_of(dataset)}
    assert set(rows) == {"dataset.big", "dataset.weights", "dataset.samples"}
    assert rows["dataset.big"].reason == "it has 17825792 bytes, more than 16 MiB"
    assert rows["dataset.samples"].reason == "its 100001 elements are shared: there are more than 100000 objects"
    assert {row.remedy for row in rows.values()} == {"where workers only read it, nothing is to be done"}


def test_a_dataset_of_which_all_is_copied_has_no_row() -> None:
    assert rows_of(Box(paths=["a"], transform=torch.nn.Linear(2, 2), generator=np.random.default_rng(3))) == ()


# ---- memory that changes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: np.zeros((20, 1 << 20)), lambda: torch.zeros(20, 1 << 20)])
def test_a_large_array_that_a_first_batch_changes_is_warned_of_once(make: Any) -> None:
    dataset = Box(inner=Box(cache=make()), other=np.zeros(20 << 20, np.uint8))
    (own,) = copies((dataset, None, None), 1)
    watch = SharedMemoryWatch(own)
    watch.begin()
    own.roots[0].inner.cache[:] = 0.3
    text = watch.changes(own.roots, NAMES)
    kind = type(dataset.inner.cache)
    size = 160 if kind is np.ndarray else 80
    assert text is not None
    assert text.startswith(f"dataset.inner.cache ({kind.__module__}.{kind.__qualname__}, {size} MiB) was changed")
    assert "worker_init_fn" in text
    assert watch.changes(own.roots, NAMES) is None


def test_arrays_that_stay_or_are_copied_are_not_warned_of() -> None:
    dataset = Box(large=np.zeros(20 << 20, np.uint8), small=np.zeros(10))
    (own,) = copies((dataset, None, None), 1)
    watch = SharedMemoryWatch(own)
    watch.begin()
    own.roots[0].small[:] = 1
    assert watch.changes(own.roots, NAMES) is None


def test_memory_that_is_meant_to_be_shared_is_not_warned_of() -> None:
    dataset = Box(cache=torch.zeros(20 << 20).share_memory_())
    (own,) = copies((dataset, None, None), 1)
    watch = SharedMemoryWatch(own)
    watch.begin()
    own.roots[0].cache[:] = 1
    assert watch.changes(own.roots, NAMES) is None


# ---- objects found by name -----------------------------------------------------------------------------------------

generator = np.random.default_rng(3)
handle: Any = None
counts: list[int] = []
LIMIT = 3


def open_it() -> Any:
    global handle
    if handle is None:
        handle = 3
    return handle


def unused() -> None:
    global LIMIT
    LIMIT = 4


class Drawing:
    def __getitem__(self, index: int) -> Any:
        return self._draw()

    def _draw(self) -> Any:
        return generator.random() + LIMIT


class Opening:
    def __init__(self) -> None:
        unused()

    def __getitem__(self, index: int) -> Any:
        def inner() -> Any:
            return open_it()

        return inner()


class Reading:
    def __getitem__(self, index: int) -> Any:
        return LIMIT + counts[0] + random.random() + np.random.rand() + handle


def collate(batch: Any) -> Any:
    return [generator.random() for _ in batch]


def test_generators_and_rebound_names_that_workers_reach_are_found() -> None:
    module = __name__
    assert changed_by_name((Drawing(), None, None)) == (f"{module}.generator",)
    assert changed_by_name((Opening(), None, None)) == (f"{module}.handle",)
    assert changed_by_name((Box(inner=[Drawing()]), None, None)) == (f"{module}.generator",)
    assert changed_by_name((None, collate, None)) == (f"{module}.generator",)
    assert changed_by_name((None, functools.partial(collate), None)) == (f"{module}.generator",)


class Jittering:
    """A transform with a state of its own, as many are written."""

    def __init__(self) -> None:
        self.state = np.random.RandomState(1)
        self.other = random.Random(1)

    def __call__(self, value: float) -> float:
        return value + self.state.rand()


jittering = Jittering()
steps = {"all": [len, jittering]}


class ByName:
    def __getitem__(self, index: int) -> Any:
        return jittering(index)


class ByNameInParts:
    def __getitem__(self, index: int) -> Any:
        return steps["all"][1](index)


def jittered(value: Any, state: Any = np.random.RandomState(2)) -> Any:  # noqa: B008 - as users write it
    return value + state.rand()


class ByDefault:
    def __getitem__(self, index: int) -> Any:
        return jittered(index)


def test_generators_in_what_is_found_by_name_are_found() -> None:
    module = __name__
    state = np.random.default_rng(4)

    class ByClosure:
        def __getitem__(self, index: int) -> Any:
            return state.random()

    def drawing(_: Any) -> Any:
        return state.random()

    assert changed_by_name((ByName(), None, None)) == (f"{module}.jittering.state",)
    assert changed_by_name((ByNameInParts(), None, None)) == (f"{module}.steps['all'][1].state",)
    assert changed_by_name((ByDefault(), None, None)) == (f"a default of {module}.jittered",)
    (closure,) = changed_by_name((ByClosure(), None, None))
    assert closure.startswith(f"state in {module}.")
    # Each worker has a copy of these.
    assert changed_by_name((Box(inner=jittering, draw=drawing), drawing, None)) == ()


def test_globals_that_are_only_read_are_not_found() -> None:
    assert changed_by_name((Reading(), len, Box().__init__)) == ()


def test_installed_packages_are_not_looked_at() -> None:
    dataset = torch.utils.data.TensorDataset(torch.ones(3))
    assert changed_by_name((dataset, torch.utils.data.default_collate, None)) == ()
