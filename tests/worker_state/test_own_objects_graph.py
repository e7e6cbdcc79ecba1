"""A worker's copies lead to each other as the originals do, however deep and in whatever circles."""

from __future__ import annotations

import collections
import functools
import gc
import random
import sys
import types
import weakref
from typing import Any

import pytest
from boxes import Box, Point, copy_of

from fastload._workers._objects import copies


class Mapping(dict):
    def __iter__(self) -> Any:
        raise AssertionError

    def keys(self) -> Any:
        raise AssertionError

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError


def test_cycles_stay_cycles() -> None:
    box = Box(items=[], pair=None)
    box.pair = (box, box.items)
    box.items += [box, box.items, box.pair]
    box.self_dict = vars(box)
    copy = copy_of(box)
    assert copy is not box
    assert copy.pair[0] is copy
    assert copy.pair[1] is copy.items
    assert copy.items[0] is copy
    assert copy.items[1] is copy.items
    assert copy.items[2] is copy.pair
    assert copy.self_dict is vars(copy)


def test_a_dict_whose_attributes_are_its_keys_stays_so() -> None:
    attributes = Mapping(a=[1])
    attributes.__dict__ = attributes
    copy = copy_of(attributes)
    assert vars(copy) is copy
    assert copy.a == [1]


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda inner: [inner], lambda outer: outer[0]),
        (lambda inner: {"a": inner}, lambda outer: outer["a"]),
        (lambda inner: (inner, []), lambda outer: outer[0]),
        (lambda inner: Box(inner=inner), lambda outer: outer.inner),
    ],
    ids=["list", "dict", "tuple", "instance"],
)
def test_depth_does_not_matter(wrap: Any, unwrap: Any) -> None:
    root: Any = []
    for _ in range(20_000):
        root = wrap(root)
    copied = copy_of(root)
    for _ in range(20_000):
        assert copied is not root
        root, copied = unwrap(root), unwrap(copied)  # from outside: Python's own deallocation is deep as well
    assert copied == []
    assert copied is not root


def random_graph(seed: int) -> Any:
    """Objects of all kinds of containers that lead to each other at random."""
    draw = random.Random(seed)
    known: list[Any] = [Box(number=0), "text", 3]

    def some(number: int) -> list[Any]:
        return [draw.choice(known) for _ in range(number)]

    makers: list[Any] = [
        lambda: some(3),
        lambda: tuple(some(2)),
        lambda: dict(enumerate(some(2))),
        lambda: {draw.choice(boxes): some(1)},
        lambda: {draw.choice(boxes), draw.random()},
        lambda: frozenset([draw.choice(boxes), (draw.choice(boxes), 1)]),
        lambda: collections.deque(some(2)),
        lambda: collections.OrderedDict(a=some(1)),
        lambda: Point(*some(2)),
        lambda: Box(number=draw.random(), other=some(1)[0]),
        lambda: functools.partial(print, *some(2)),
        lambda: types.MethodType(print, draw.choice(boxes)),
        lambda: lambda x=some(1): x,  # noqa: B008
        lambda: weakref.ref(draw.choice(boxes)),
    ]
    for _ in range(60):
        boxes = [one for one in known if type(one) is Box]
        known.append(draw.choice(makers)())
        for one in known:
            if type(one) is list and draw.random() < 0.1:
                one.append(draw.choice(known))
            elif type(one) is Box and draw.random() < 0.1:
                one.late = draw.choice(known)
    return known


def place_in_set(element: Any) -> tuple[bool, float]:
    is_pair = type(element) is tuple
    return is_pair, element[0].number if is_pair else getattr(element, "number", element)


def shape_of(root: Any) -> list[Any]:
    """Returns equal values for two graphs whose objects are alike and lead to each other in the same way."""
    numbers: dict[int, int] = {}
    kept: list[Any] = []

    def number_of(thing: Any) -> Any:
        if type(thing) in (str, int, float, type(None)) or thing is print:
            return thing
        if id(thing) not in numbers:
            numbers[id(thing)] = len(kept)
            kept.append(thing)
        return "object", numbers[id(thing)]

    number_of(root)
    shape = []
    for thing in kept:  # which grows
        parts: Any = ()
        if isinstance(thing, dict):
            parts = [part for item in thing.items() for part in item]
        elif isinstance(thing, (list, tuple, collections.deque)):
            parts = thing
        elif isinstance(thing, (set, frozenset)):
            parts = sorted(thing, key=place_in_set)
            assert all(one in thing for one in thing)
        elif type(thing) is Box:
            parts = [part for item in vars(thing).items() for part in item]
        elif type(thing) is functools.partial:
            parts = thing.args
        elif type(thing) is types.MethodType:
            parts = [thing.__self__]
        elif type(thing) is types.FunctionType:
            parts = thing.__defaults__
        elif type(thing) is weakref.ref:
            parts = [thing()]
        shape.append((type(thing).__name__, [number_of(part) for part in parts]))
    return shape


@pytest.mark.parametrize("seed", range(40))
def test_objects_lead_to_each_other_as_the_originals_do(seed: int) -> None:
    graph = random_graph(seed)
    copy = copy_of(graph)
    assert shape_of(copy) == shape_of(graph)
    for one, other in zip(graph, copy, strict=True):
        if type(one) in (list, dict, set, collections.deque, Box, functools.partial):
            assert one is not other


@pytest.mark.slow
def test_references_are_counted_right() -> None:
    # Numbers and text are shared by all.
    graph = [one for seed in range(5) for one in random_graph(seed) if gc.is_tracked(one)]
    for _ in range(2):
        gc.collect()
        before = [sys.getrefcount(one) for one in graph]
        for _ in range(10):
            copies((graph, None, None), 1)
        gc.collect()
    assert [sys.getrefcount(one) for one in graph] == before
