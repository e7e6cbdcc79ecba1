"""A worker shares some objects with the program, and its copies of others continue as in a forked process."""

from __future__ import annotations

import collections
import enum
import functools
import io
import itertools
import logging
import os
import random
import sqlite3
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest
import torch
from boxes import Box, copy_of, own
from forked import in_fork

import fastload

SENTINEL = object()


class _Missing:
    pass


MISSING = _Missing()


class _Transform:
    def __call__(self, value: Any) -> Any:
        self.last = value
        return value


NAMED_TRANSFORM = _Transform()


class Color(enum.Enum):
    RED = "red"


# ---- shared objects --------------------------------------------------------------------------------------------------


def test_sentinels_and_what_is_named_is_shared() -> None:
    box = Box(mark=SENTINEL, missing=MISSING, color=Color.RED, kind=Box, module=os, log=logging.getLogger("x"))
    copy = copy_of(box)
    assert all(vars(copy)[name] is value for name, value in vars(box).items())


def test_an_empty_instance_that_is_called_is_copied_though_it_is_named() -> None:
    copy = copy_of(Box(transform=NAMED_TRANSFORM))
    assert copy.transform is not NAMED_TRANSFORM


def test_an_empty_instance_that_is_not_named_is_copied() -> None:
    box = Box(state=_Missing())
    assert copy_of(box).state is not box.state


def test_handles_and_locks_are_shared_and_handles_are_named(tmp_path: Any) -> None:
    with (tmp_path / "file").open("w") as file, sqlite3.connect(":memory:") as database:
        generator = (number for number in range(3))
        box = Box(lock=threading.Lock(), file=file, database=database, generator=generator)
        mine = own(box)
        assert all(vars(mine.roots[0])[name] is value for name, value in vars(box).items())
        named = [thing for thing, reason in mine.shared]
        assert all(any(thing is one for one in named) for thing in (file, database, generator))
        assert all(reason for _, reason in mine.shared)


def test_a_function_of_cpp_stays_one() -> None:
    function = fastload._native.set_thread_generators
    copy = copy_of(Box(function=function, items=[]))
    assert copy.function is function


def test_what_deepcopy_makes_another_kind_of_is_shared() -> None:
    class Reader(io.BytesIO):
        def __deepcopy__(self, memo: Any) -> str:
            return "another"

    reader = Reader()
    mine = own(Box(reader=reader))
    assert mine.roots[0].reader is reader
    assert [reason for thing, reason in mine.shared if thing is reader] == ["copy.deepcopy() makes a str of it"]


@pytest.mark.parametrize(
    "make",
    [
        lambda items: itertools.count(3),
        lambda items: iter(items),
        lambda items: reversed(items),
        lambda items: enumerate(items, 5),
        lambda items: zip(items, items, strict=True),
        lambda items: map(str, items),
        lambda items: iter({"a": 1, "b": 2, "c": 3}.items()),
        lambda items: itertools.chain([0], items),
        lambda items: itertools.cycle(items),
        lambda items: itertools.islice(items, 1, None),
        lambda items: iter(collections.deque(items)),
    ],
)
def test_an_iterator_of_the_standard_library_goes_on_as_in_a_forked_child(make: Any) -> None:
    iterator = make([1, 2, 3, 4])
    next(iterator)
    if "__reduce__" not in vars(type(iterator)):  # Python 3.14 cannot copy iterators of itertools
        assert sys.version_info >= (3, 14)
        assert copy_of(iterator) is iterator
        return
    copy = copy_of(iterator)
    expected = in_fork(lambda: list(itertools.islice(iterator, 2)))
    assert list(itertools.islice(copy, 2)) == expected
    assert list(itertools.islice(iterator, 2)) == expected


def test_an_iterator_is_over_the_copy_of_its_list() -> None:
    items = [1]
    copied_items, iterator = copy_of([items, iter(items)])
    copied_items.append(2)
    assert list(iterator) == [1, 2]


def test_views_of_a_dict_are_of_its_copy() -> None:
    table = {"a": 1}
    ordered = collections.OrderedDict(a=1)
    copied_table, copied_ordered, *views = copy_of(
        [table, ordered, table.keys(), table.values(), table.items(), ordered.keys(), types.MappingProxyType(table)]
    )
    copied_table["b"] = copied_ordered["b"] = 2
    assert [list(view) for view in views] == [["a", "b"], [1, 2], [("a", 1), ("b", 2)], ["a", "b"], ["a", "b"]]


def test_a_cached_method_is_of_the_copy() -> None:
    box = Box(calls=[])
    box.load = functools.lru_cache(2)(types.MethodType(lambda self, key: self.calls.append(key), box))
    box.load(1)
    copy = copy_of(box)
    copy.load(2)
    copy.load(2)
    assert copy.calls == [1, 2]
    assert box.calls == [1]


def test_loaders_are_copied_with_the_dataset_and_their_iterators_are_shared() -> None:
    dataset = Box(items=[1, 2])
    loader = torch.utils.data.DataLoader(dataset.items, num_workers=0)
    dataset.loader, dataset.iterator = loader, iter(loader)
    own_loader = fastload.DataLoader(dataset.items, num_workers=0)
    dataset.own_loader, dataset.own_iterator = own_loader, iter(own_loader)
    copy = copy_of(dataset)
    assert copy.loader is not loader
    assert copy.loader.dataset is copy.items
    assert copy.own_loader.dataset is copy.items
    assert copy.own_loader._fastload.threads is not own_loader._fastload.threads
    assert copy.iterator is dataset.iterator
    assert next(copy.own_iterator).tolist() == [1]
    del dataset.own_iterator
    with pytest.raises(ReferenceError):
        next(copy.own_iterator)


def test_elements_of_large_containers_are_shared_beyond_a_number_of_objects() -> None:
    many = [[number] for number in range(100_001)]
    few = [[number] for number in range(10)]
    mine = own(Box(many=many, few=few, by_number=dict(enumerate(many))))
    copy = mine.roots[0]
    assert copy.many is not many
    assert copy.many[0] is many[0]
    assert copy.by_number[5] is many[5]
    assert copy.few[0] is not few[0]
    assert any(thing is many and "100000 objects" in reason for thing, reason in mine.shared)


def test_what_elements_hold_counts_as_well() -> None:
    held = [{"boxes": [[number], [number]]} for number in range(30_000)]
    objects = [Box(sizes=[number], pair=([number], [number])) for number in range(30_000)]
    copy = copy_of(Box(held=held, objects=objects))
    assert copy.held[5] is held[5]
    assert copy.objects[5] is objects[5]


def test_what_all_elements_hold_counts_once() -> None:
    names = [[number] for number in range(1000)]
    nodes = [Box(names=names) for _ in range(20_000)]
    for one, other in itertools.pairwise(nodes):
        one.next, other.last = other, one
    copy = copy_of(nodes)
    assert copy[5] is not nodes[5]
    assert copy[5].next is copy[6]
    assert copy[5].names is copy[6].names


# ---- generators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (lambda: random.Random(3), lambda one: [one.gauss(0, 1) for _ in range(3)]),
        (lambda: np.random.default_rng(3), lambda one: one.random(3).tolist()),
        (lambda: np.random.RandomState(3), lambda one: [float(one.normal()) for _ in range(3)]),
        (lambda: np.random.Generator(np.random.MT19937(3)), lambda one: one.normal(size=3).tolist()),
        (lambda: np.random.Generator(np.random.Philox(3)), lambda one: one.normal(size=3).tolist()),
        (lambda: torch.Generator().manual_seed(3), lambda one: torch.rand(3, generator=one).tolist()),
    ],
    ids=["random", "PCG64", "RandomState", "MT19937", "Philox", "torch"],
)
def test_a_generator_goes_on_as_in_a_forked_child(make: Any, draw: Any) -> None:
    generator = make()
    draw(generator)
    mine = own(Box(generator=generator))
    expected = in_fork(lambda: draw(generator))
    assert draw(mine.roots[0].generator) == expected
    assert draw(generator) == expected
    assert any(one is mine.roots[0].generator for one in mine.generators)


def test_two_generators_on_one_bit_generator_stay_on_one() -> None:
    first = np.random.default_rng(3)
    second = np.random.Generator(first.bit_generator)
    copied_first, copied_second = copy_of([first, second])
    assert copied_first.bit_generator is copied_second.bit_generator
    copied_first.random()
    assert copied_second.random() != second.random()


def test_what_a_generator_spawns_is_the_same() -> None:
    generator = np.random.default_rng(3)
    generator.bit_generator.seed_seq.spawn(1)
    copy = copy_of(generator)
    assert copy.bit_generator.seed_seq.spawn(1)[0].spawn_key == generator.bit_generator.seed_seq.spawn(1)[0].spawn_key
