"""What a worker's copies are, and what they are of: the same as a forked process has."""

from __future__ import annotations

import array
import collections
import enum
import functools
import gc
import io
import itertools
import logging
import multiprocessing
import os
import random
import sqlite3
import sys
import threading
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from boxes import Box, copy_of, own
from forked import in_fork

import fastload
from fastload._worker_state._objects import copies


class Slotted:
    __slots__ = ("first", "second")


class SlottedChild(Slotted):
    __slots__ = ("__weakref__", "third")


class ListOfBoxes(list):
    pass


class Mapping(dict):
    def __iter__(self) -> Any:
        raise AssertionError

    def keys(self) -> Any:
        raise AssertionError

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError


class Point(NamedTuple):
    x: Any
    y: Any


class Text(str):
    pass


SENTINEL = object()


class _Missing:
    pass


MISSING = _Missing()


class Color(enum.Enum):
    RED = "red"


# ---- containers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "container",
    [
        [[1], 2],
        {"a": [1], 2: 3},
        {1: [2], (1, 2): [3], None: []},
        {1, "a", (2, 3)},
        collections.deque([[1], 2], maxlen=3),
        collections.OrderedDict(z=[1], a=[2]),
        collections.Counter("aab"),
        collections.defaultdict(list, a=[1]),
        ListOfBoxes([[1], 2]),
        bytearray(b"abc"),
        array.array("d", [1, 2]),
        types.SimpleNamespace(a=[1]),
        ([1], 2),
        Point([1], 2),
    ],
    ids=lambda container: type(container).__name__,
)
def test_a_container_is_equal_and_of_the_same_type_but_another(container: Any) -> None:
    copy = copy_of(container)
    assert type(copy) is type(container)
    assert copy == container
    assert copy is not container


def test_elements_that_can_change_are_copied_in_every_container() -> None:
    inner = [1]
    for container in ([inner], (inner,), {"a": inner}, collections.deque([inner]), Point(inner, 0)):
        copied = copy_of(container)
        element = copied["a"] if isinstance(copied, dict) else copied[0]
        assert element == [1]
        assert element is not inner


def test_what_cannot_change_is_shared() -> None:
    samples = [("a.jpg", 1), ("b.jpg", (2, 3.0)), Point(1, 2), frozenset([1, 2]), b"x", 10**30]
    copy = copy_of(samples)
    assert copy is not samples
    assert all(one is other for one, other in zip(copy, samples, strict=True))


def test_a_deque_keeps_its_length_and_a_defaultdict_its_factory() -> None:
    box = Box(made=[])
    box.queue = collections.deque([1, 2], maxlen=2)
    box.by_name = collections.defaultdict(box.made.copy)
    copy = copy_of(box)
    assert copy.queue.maxlen == 2
    copy.made.append(5)
    assert copy.by_name["new"] == [5]
    assert "new" not in box.by_name


def test_an_ordered_dict_keeps_the_order_to_which_keys_were_moved() -> None:
    ordered = collections.OrderedDict(a=[1], b=[2])
    ordered.move_to_end("a")
    assert list(copy_of(ordered)) == ["b", "a"]


def test_a_set_is_iterated_in_the_order_of_the_original() -> None:
    names = {f"class{number}" for number in range(1000)}
    for number in range(0, 1000, 3):
        names.discard(f"class{number}")
    assert list(copy_of(names)) == list(names)


def test_keys_that_are_found_by_identity_are_found_under_their_copies() -> None:
    key = Box(name="key")
    box = Box(key=key, table={key: 1, (key, 2): 3}, names={key}, frozen=frozenset([key, (key, 1)]))
    copy = copy_of(box)
    assert copy.key is not key
    assert copy.table[copy.key] == 1
    assert copy.table[copy.key, 2] == 3
    assert copy.key in copy.names
    assert copy.key in copy.frozen
    assert (copy.key, 1) in copy.frozen
    assert key not in copy.names


def test_tensors_are_found_as_keys_under_their_copies() -> None:
    key = torch.ones(2)
    copy = copy_of(Box(key=key, table={key: "value"}))
    assert copy.table[copy.key] == "value"


def test_keys_with_a_hash_of_their_own_stay_under_it() -> None:
    class Key:
        def __init__(self, name: str) -> None:
            self.name = name
            self.seen: list[int] = []

        def __hash__(self) -> int:
            return hash(self.name)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and other.name == self.name

    table = {Key("a"): [1], Key("b"): [2]}
    names = {Key("a"), Key("b")}
    copy = copy_of(Box(table=table, names=names))
    assert copy.table[Key("a")] == [1]
    assert Key("b") in copy.names
    assert all(one is not other for one, other in zip(copy.table, table, strict=True))


# ---- identity ------------------------------------------------------------------------------------------------------


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


def test_what_the_roots_have_in_common_is_one_object() -> None:
    shared: list[int] = []
    dataset, collate, _ = copies((Box(items=shared), Box(items=shared), None), 1)[0].roots
    assert dataset.items is collate.items
    assert dataset.items is not shared


def test_workers_have_nothing_in_common_that_can_change() -> None:
    one, other = copies((Box(items=[Box()]), None, None), 2)
    assert one.roots[0].items is not other.roots[0].items
    assert one.roots[0].items[0] is not other.roots[0].items[0]


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: (x, []), lambda x: Box(x=x)])
def test_depth_does_not_matter(wrap: Any) -> None:
    root: Any = []
    for _ in range(20_000):
        root = wrap(root)
    copied = copy_of(root)
    assert copied is not root
    for one in (root, copied):  # taken apart from outside: Python's own deallocation is deep as well
        parts = [one]
        while parts:
            part = parts.pop()
            if isinstance(part, list):
                parts += part
                part.clear()


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
    """The same for two graphs where their objects are alike and lead to each other in the same way."""
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
    # Numbers and text are everybody's.
    graph = [one for seed in range(5) for one in random_graph(seed) if gc.is_tracked(one)]
    for _ in range(2):
        gc.collect()
        before = [sys.getrefcount(one) for one in graph]
        for _ in range(10):
            copies((graph, None, None), 1)
        gc.collect()
    assert [sys.getrefcount(one) for one in graph] == before


# ---- instances and functions ---------------------------------------------------------------------------------------


def test_slots_are_copied_with_those_of_bases() -> None:
    slotted = SlottedChild()
    slotted.first, slotted.third = [1], [3]
    copy = copy_of(slotted)
    assert (copy.first, copy.third) == ([1], [3])
    assert copy.first is not slotted.first
    assert not hasattr(copy, "second")


def test_values_with_attributes_are_copied() -> None:
    text = Text("name")
    text.seen = [1]
    copy = copy_of(text)
    assert copy == "name"
    assert type(copy) is Text
    assert copy.seen == [1]
    assert copy.seen is not text.seen


def test_no_method_of_the_users_is_called() -> None:
    class Raising(type):
        def __call__(cls, *args: Any) -> Any:
            raise AssertionError

        def __getattribute__(cls, name: str) -> Any:
            raise AssertionError(name)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError

    names = [
        *("new", "init", "getattr", "getattribute", "setattr", "delattr", "deepcopy", "copy", "reduce", "reduce_ex"),
        *("getstate", "setstate", "hash", "eq", "iter", "len", "bool", "getitem", "contains", "next", "call", "get"),
        *("str", "repr", "int", "index", "float", "del", "class_getitem", "getnewargs", "getnewargs_ex", "dir"),
    ]
    methods = {f"__{name}__": refuse for name in names}
    for base in (object, list, dict, set, tuple, collections.deque, str, int, float, frozenset):
        kind = type.__new__(Raising, "Refusing", (base,), methods)
        instance = base.__new__(kind)
        base_dict = type.__getattribute__(kind, "__dict__")["__dict__"]
        base_dict.__set__(instance, {"items": [1]})
        copied = copy_of([instance])[0]
        assert type(copied) is kind
        assert copied is not instance
        attributes = base_dict.__get__(copied)
        assert attributes == {"items": [1]}
        assert attributes["items"] is not base_dict.__get__(instance)["items"]
        type.__delattr__(kind, "__del__")


def test_functions_have_cells_defaults_and_attributes_of_their_own() -> None:
    count = 0
    box = Box(value=[1])

    def counted(extra: list[int] = [], *, more: dict[str, int] = {}) -> Any:  # noqa: B006 - what it is about
        nonlocal count
        count += 1
        extra.append(count)
        more["count"] = count
        return box, count, extra, more

    counted.attribute = [5]  # type: ignore[attr-defined]
    copied_box, copied = copy_of([box, counted])
    assert copied()[0] is copied_box
    assert copied()[1:] == (2, [1, 2], {"count": 2})
    assert count == 0
    assert counted()[1:] == (1, [1], {"count": 1})
    assert copied.attribute == [5]
    assert copied.attribute is not counted.attribute  # type: ignore[attr-defined]
    assert (copied.__name__, copied.__qualname__, copied.__module__) == (
        counted.__name__,
        counted.__qualname__,
        counted.__module__,
    )


def test_functions_that_keep_nothing_are_shared() -> None:
    assert copy_of([in_fork, torch.mean, len, Box.__init__, lambda x=1, f=torch.mean: x])[0] is in_fork
    assert copy_of(functools.partial(in_fork)).func is in_fork


def test_bound_methods_are_of_the_copy() -> None:
    box = Box(items=[])
    box.add = box.items.append
    box.length = box.items.__len__
    box.shown = types.MethodType(lambda self: self, box)
    copy = copy_of(box)
    copy.add(1)
    assert copy.items == [1]
    assert copy.length() == 1
    assert box.items == []
    assert copy.shown() is copy


def test_a_partial_keeps_function_arguments_and_attributes() -> None:
    box = Box(items=[])
    partial = functools.partial(box.items.append)
    partial.owner = box
    outer = functools.partial(partial, box)
    copied_box, copied = copy_of([box, outer])
    assert copied.func.owner is copied_box
    assert copied.args == (copied_box,)
    copied()
    assert copied_box.items == [copied_box]
    assert box.items == []


def test_weak_references_lead_to_the_copy_of_what_is_copied() -> None:
    seen: list[Any] = []
    child = Box()
    unreachable = Box()
    parent = Box(first=weakref.ref(child), pair=(weakref.ref(child, seen.append), 1), proxy=weakref.proxy(child))
    parent.other = weakref.ref(unreachable)
    parent.table = weakref.WeakKeyDictionary({child: [1]})
    parent.values = weakref.WeakValueDictionary(name=child)
    parent.group = weakref.WeakSet([child])
    parent.child = child
    copy = copy_of(parent)
    assert copy.child is not child
    assert copy.first() is copy.child
    assert copy.pair[0]() is copy.child
    copy.proxy.mark = 1
    assert copy.child.mark == 1
    assert copy.table[copy.child] == [1]
    assert copy.values["name"] is copy.child
    assert copy.child in copy.group
    assert copy.other is parent.other
    del copy.child
    assert copy.first() is None
    assert len(copy.table) == len(copy.values) == len(copy.group) == 0


def test_thread_locals_have_in_the_workers_thread_what_the_caller_sees() -> None:
    local = threading.local()
    local.items = [1]
    mine = own(local)
    seen: list[Any] = []

    def work() -> None:
        mine.enter()
        seen.append(mine.roots[0].items)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [[1]]
    assert seen[0] is not local.items


# ---- what is shared ------------------------------------------------------------------------------------------------


def test_sentinels_and_what_is_named_is_shared() -> None:
    box = Box(mark=SENTINEL, missing=MISSING, color=Color.RED, kind=Box, module=os, log=logging.getLogger("x"))
    copy = copy_of(box)
    assert all(vars(copy)[name] is value for name, value in vars(box).items())


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


def test_objects_of_multiprocessing_are_shared() -> None:
    box = Box(
        event=multiprocessing.Event(),
        number=multiprocessing.Value("i", 3),
        items=multiprocessing.Array("d", 4),
        raw=multiprocessing.RawArray("d", 4),
        queue=multiprocessing.SimpleQueue(),
    )
    copy = copy_of(box)
    assert all(vars(copy)[name] is value for name, value in vars(box).items())


def test_the_generators_of_the_process_are_shared() -> None:
    held = [random.random, random._inst, np.random.mtrand._rand, torch.default_generator, np.random.rand]
    assert all(one is other for one, other in zip(copy_of(held), held, strict=True))


def test_buffers_in_memory_are_copied() -> None:
    buffer = io.BytesIO(b"abc")
    buffer.seek(1)
    copy = copy_of(buffer)
    assert copy is not buffer
    assert copy.read() == b"bc"
    assert buffer.tell() == 1


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


# ---- generators ----------------------------------------------------------------------------------------------------


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


# ---- ends ----------------------------------------------------------------------------------------------------------


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
    assert ended == ["dropped"]  # as in a child that lets go of it
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

    box = Box(handle=handle, counter=itertools.count())
    monkeypatch.setattr("fastload._worker_state._rare.when_copied", lambda parts, finish: (None, parts, refuse))
    with pytest.raises(MemoryError):
        copies((box, None, None), 1)
    assert gc.isenabled()
    assert ended == []
    del box, handle
    assert ended == [1]


def test_nothing_is_left_of_copies_that_are_gone() -> None:
    box = Box(items=[Box(value=number) for number in range(50)], generator=np.random.default_rng(3))
    box.method = box.items.append
    box.function = lambda: box
    counts = []
    gc.collect()
    gc.freeze()  # what is there already need not be counted each time
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
