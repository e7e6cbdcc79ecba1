"""Programs that depend on references: closures, methods, back references, sentinels and weak references."""

from __future__ import annotations

import contextlib
import enum
import functools
import operator
import weakref
from collections.abc import Callable
from typing import Any

from numbered import Numbered
from program import Chapter, Counter, Setting, Transformed
from torch.utils.data import get_worker_info

REFERENCES = Chapter()


@REFERENCES.program
def functions_on_self_that_lead_back_to_it() -> Any:
    """Keeps a lambda that uses self, a method of it, and a built-in method of its list."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.items = 0, [0]
            self.by_lambda = lambda index: self.count(index)
            self.by_method = self.count
            self.add = self.items.append

        def count(self, index: int) -> Any:
            self.calls += 1
            return index, self.calls

        def sample(self, index: int) -> Any:
            self.add(index)
            counted = *self.by_lambda(index), *self.by_method(index), self.calls, len(self.items)
            return *counted, self.by_method.__self__ is self

    data = Data()
    return Setting(data, after_epoch=lambda: (data.calls, data.items))


@REFERENCES.program
def the_worker_infos_dataset() -> Any:
    """Checks that get_worker_info().dataset is the dataset asked for samples, and the owner of its transform."""

    class Data(Numbered):
        def sample(self, index: int) -> Any:
            info = get_worker_info()
            return index, info is None or info.dataset is self, -1 if info is None else info.id

    return Data()


@REFERENCES.program
def a_partial_on_a_list() -> Any:
    """Uses functools.partial with a list and a counter as arguments."""
    seen: list[int] = []

    def add(seen: list[int], index: int, *, counter: Counter) -> Any:
        seen.append(index)
        return len(seen), counter(index)

    return Setting(Transformed(functools.partial(add, seen, counter=Counter())), after_epoch=lambda: seen)


@REFERENCES.program
def composed_closures() -> Any:
    """Functions of functions, each with a counter."""

    def counted(function: Callable[[int], int]) -> Callable[[int], int]:
        calls = 0

        @functools.wraps(function)
        def wrapper(value: int) -> int:
            nonlocal calls
            calls += 1
            return function(value) + calls

        return wrapper

    @counted
    @counted
    def transform(index: int) -> int:
        return index * 10

    return Transformed(transform)


@REFERENCES.program
def a_recursive_closure() -> Any:
    """Uses a function that calls itself by its cell and remembers."""
    known: dict[int, int] = {}
    calls = 0

    def fibonacci(number: int) -> int:
        nonlocal calls
        calls += 1
        if number < 2:
            return number
        if number not in known:
            known[number] = fibonacci(number - 1) + fibonacci(number - 2)
        return known[number]

    return Transformed(lambda index: (fibonacci(index), calls))


@REFERENCES.program
def an_empty_cell() -> Any:
    """Sets the variable of a closure in the first sample."""

    def make() -> Callable[[int], Any]:
        def transform(index: int) -> Any:
            nonlocal first
            with contextlib.suppress(NameError):
                return first
            first = index
            return -1

        first: int
        if False:
            first = 0
        return transform

    return Transformed(make())


@REFERENCES.program
def methods_of_the_operator_module() -> Any:
    """Uses operator.attrgetter, itemgetter and methodcaller on the worker's objects."""
    counter, table = Counter(), {"calls": [0]}
    calls_of, first_of = operator.attrgetter("calls"), operator.itemgetter("calls")
    call = operator.methodcaller("__call__", 0)

    def transform(index: int) -> Any:
        call(counter)
        table["calls"][0] += index
        return calls_of(counter), first_of(table)[0]

    return Transformed(transform)


@REFERENCES.program
def one_list_by_three_names() -> Any:
    """Uses a list that dataset, transform and collate_fn hold."""
    seen: list[int] = []

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.seen, self.step = seen, functools.partial(list.append, seen)

        def sample(self, index: int) -> Any:
            self.step(index)
            return index, len(self.seen)

    data = Data()
    collate = functools.partial(lambda seen, samples: (samples, list(seen)), seen)
    return Setting(data, {"collate_fn": collate}, after_epoch=lambda: seen)


@REFERENCES.program
def the_loaders_functions_are_methods_of_the_dataset() -> Any:
    """Uses dataset.collate, which reads what samples have left, and worker_init_fn=dataset.begin."""

    class Data(Numbered):
        offset = 0

        def __init__(self) -> None:
            super().__init__()
            self.lengths: list[int] = []

        def begin(self, worker_id: int) -> None:
            self.offset = 100 * (worker_id + 1)

        def sample(self, index: int) -> Any:
            self.lengths.append(index % 5)
            return index + self.offset

        def collate(self, samples: list[int]) -> Any:
            lengths, self.lengths = self.lengths, []
            return samples, lengths

    data = Data()
    arguments = {"collate_fn": data.collate, "worker_init_fn": data.begin}
    return Setting(data, arguments, after_epoch=lambda: (data.lengths, data.offset))


# ---- sentinels and objects compared by `is` -----------------------------------------------------------------------

MISSING = object()
_TOMBSTONES = ["deleted"]


class Unset:
    """An empty class whose one instance means something."""


UNSET = Unset()


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag):
    FIRST = enum.auto()
    SECOND = enum.auto()


@REFERENCES.program
def sentinels_of_the_module() -> Any:
    """Defaults that are compared by `is` with globals."""
    table: dict[int, Any] = {0: MISSING, 1: UNSET}

    def transform(index: int) -> Any:
        found = table.get(index % 4, MISSING)
        if found is MISSING or found is UNSET:
            table[index % 4] = index
            return -1 if found is MISSING else -2
        return found

    return Transformed(transform)


@REFERENCES.program
def a_sentinel_in_a_closure() -> Any:
    """Keeps an object() of a function in a default, a list and a closure."""
    missing = object()
    values: list[Any] = [missing, 3]

    def transform(index: int, fallback: Any = missing) -> Any:
        return fallback is missing, values[index % 2] is missing, values[0] is fallback

    return Transformed(transform)


@REFERENCES.program
def an_empty_object_that_gets_attributes() -> Any:
    """Sets attributes on an instance that has none."""
    state = Unset()
    return Setting(
        Transformed(lambda index: (len(vars(state)), setattr(state, f"name{index % 4}", index))[0]),
        after_epoch=lambda: sorted(vars(state)),
    )


@REFERENCES.program
def objects_of_which_there_is_one() -> Any:
    """Members of enums as values and keys, and singletons, types and functions in containers, all by `is`."""
    levels, counts = [Level.LOW, Level.HIGH], dict.fromkeys(Level, 0)
    flags = [Flags.FIRST, Flags.SECOND, Flags.FIRST | Flags.SECOND]
    table: dict[Any, Any] = {None: Ellipsis, int: NotImplemented, "fn": len, "type": Numbered}

    def transform(index: int) -> Any:
        level = levels[index % 2]
        counts[level] += 1
        members = level is Level.LOW, counts[Level.HIGH], flags[index % 3] is Flags.FIRST
        singletons = table[None] is Ellipsis, table[int] is NotImplemented, table["fn"] is len
        return *members, *singletons, table["type"] is Numbered

    return Transformed(transform)


# ---- weak references ----------------------------------------------------------------------------------------------


@REFERENCES.program
def weak_references() -> Any:
    """Uses a weakref.ref to the dataset, a proxy of it and a WeakMethod."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.itself, self.proxy = weakref.ref(self), weakref.proxy(self)
            self.method = weakref.WeakMethod(self.count)

        def count(self) -> int:
            self.calls += 1
            return self.calls

        def sample(self, index: int) -> Any:
            method = self.method()
            assert method is not None
            return index, self.itself() is self, method(), self.proxy.calls

    data = Data()
    return Setting(data, after_epoch=lambda: (data.calls, data.itself() is data))


@REFERENCES.program
def weak_containers() -> Any:
    """Uses WeakValueDictionary, WeakKeyDictionary and WeakSet of objects that the dataset keeps."""
    nodes = [Counter() for _ in range(3)]
    by_name = weakref.WeakValueDictionary(enumerate(nodes))
    counts = weakref.WeakKeyDictionary(dict.fromkeys(nodes, 0))
    known = weakref.WeakSet(nodes)

    def transform(index: int) -> Any:
        node = by_name[index % 3]
        counts[node] += 1
        return node is nodes[index % 3], node(0), node in known, len(known), list(counts.values())

    return Transformed(transform)


@REFERENCES.program
def a_dead_weak_reference() -> Any:
    """Uses a reference whose object is gone before the loader begins."""
    reference = weakref.ref(Counter())
    return Transformed(lambda index: (reference() is None, index))


# ---- contexts and modules -------------------------------------------------------------------------------------------
