"""A worker's copies are the same containers, instances and functions as a forked process has."""

from __future__ import annotations

import array
import collections
import functools
import threading
import types
import weakref
from typing import Any

import pytest
import torch
from boxes import Box, Point, copy_of, own
from forked import in_fork


class ListOfBoxes(list):
    pass


class Text(str):
    pass


# ---- containers ------------------------------------------------------------------------------------------------------


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


# ---- instances and functions -----------------------------------------------------------------------------------------


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


def test_a_copied_function_has_the_names_of_the_original() -> None:
    def counted(extra: list[int] = []) -> Any:  # noqa: B006 - what is copied
        return extra

    copied = copy_of(counted)
    assert copied() is not counted()
    names = "__name__", "__qualname__", "__module__"
    assert [getattr(copied, name) for name in names] == [getattr(counted, name) for name in names]


def test_functions_that_keep_nothing_are_shared() -> None:
    functions = [in_fork, torch.mean, len, Box.__init__, lambda x=1, f=torch.mean: x]
    assert all(one is other for one, other in zip(copy_of(functions), functions, strict=True))
    assert copy_of(functools.partial(in_fork)).func is in_fork


def test_decorated_functions_that_keep_nothing_are_shared() -> None:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            return function(*args)

        return call

    function = decorated(own)
    assert copy_of(Box(function=function)).function is function
    function.calls = 0
    assert copy_of(Box(function=function)).function is not function
    keeps = decorated(lambda items=[]: items)
    assert copy_of(Box(function=keeps)).function is not keeps


def test_a_method_of_a_slot_is_of_the_copy() -> None:
    items: list[int] = []
    copied_items, length = copy_of([items, items.__len__])
    copied_items.append(1)
    assert length() == 1
    assert items == []


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


class Local(threading.local):
    def __init__(self, items: list[int]) -> None:
        self.items = items


def plain_local(items: list[int]) -> threading.local:
    local = threading.local()
    local.items = items
    return local


@pytest.mark.parametrize("make", [plain_local, Local])
def test_thread_locals_have_in_the_workers_thread_what_the_caller_sees(make: Any) -> None:
    """No class is initialised again."""
    local = make([1])
    mine = own(local)
    seen: list[Any] = []

    def work() -> None:
        mine.enter()
        seen.append((type(mine.roots[0]), mine.roots[0].items))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(type(local), [1])]
    assert seen[0][1] is not local.items
