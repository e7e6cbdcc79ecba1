"""Programs that depend on who refers to whom: closures, methods, back references, sentinels and odd classes."""

from __future__ import annotations

import abc
import contextlib
import copy
import copyreg
import enum
import functools
import operator
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from numbered import Numbered
from program import Chapter, Setting, Transformed
from torch.utils.data import get_worker_info

REFERENCES = Chapter()


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _index: int) -> int:
        self.calls += 1
        return self.calls


@REFERENCES.program
def a_lambda_on_self() -> Any:
    """lambda x: self.f(x), which has the dataset in its closure."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.transform = lambda index: self.count(index)

        def count(self, index: int) -> Any:
            self.calls += 1
            return index, self.calls

        def sample(self, index: int) -> Any:
            return *self.transform(index), self.calls

    data = Data()
    return Setting(data, after_epoch=lambda: data.calls)


@REFERENCES.program
def a_bound_method_on_self() -> Any:
    """self.transform = self.count."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.transform = self.count

        def count(self, index: int) -> Any:
            self.calls += 1
            return index, self.calls

        def sample(self, index: int) -> Any:
            return *self.transform(index), self.calls, self.transform.__self__ is self

    return Data()


@REFERENCES.program
def a_built_in_bound_method_on_self() -> Any:
    """self.add = self.items.append."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.items: list[int] = []
            self.add, self.known = self.items.append, {}
            self.look_up = self.known.get

        def sample(self, index: int) -> Any:
            self.add(index)
            self.known[index % 4] = index
            return index, len(self.items), self.look_up((index + 1) % 4, -1)

    data = Data()
    return Setting(data, after_epoch=lambda: data.items)


@REFERENCES.program
def a_back_reference() -> Any:
    """dataset.transform.owner is dataset."""

    class Step:
        owner: Any = None

        def __call__(self, index: int) -> Any:
            self.owner.calls += 1
            return self.owner.calls, self.owner.transform is self, index

    data = Transformed(Step(), calls=0)
    data.transform.owner = data  # type: ignore[attr-defined]
    return data


@REFERENCES.program
def the_worker_infos_dataset() -> Any:
    """get_worker_info().dataset is the dataset that is asked, and what its transform belongs to."""

    class Data(Numbered):
        def sample(self, index: int) -> Any:
            info = get_worker_info()
            return index, info is None or info.dataset is self, -1 if info is None else info.id

    return Data()


@REFERENCES.program
def a_partial_on_a_list() -> Any:
    """functools.partial whose arguments are a list and a counter."""
    seen: list[int] = []

    def add(seen: list[int], index: int, *, counter: Counter) -> Any:
        seen.append(index)
        return len(seen), counter(index)

    return Setting(Transformed(functools.partial(add, seen, counter=Counter())), after_epoch=lambda: seen)


@REFERENCES.program
def a_partial_of_a_partial() -> Any:
    """Partials of partials of a bound method, and a partialmethod."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.total = 0
            self.step = functools.partial(functools.partial(self.add, 1), factor=3)

        def add(self, offset: int, index: int, factor: int) -> int:
            self.total += (offset + index) * factor
            return self.total

        add_twice = functools.partialmethod(add, 2, factor=2)

        def sample(self, index: int) -> Any:
            return index, self.step(index), self.add_twice(index)

    return Data()


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
    """A function that calls itself by its cell and remembers."""
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
    """A closure whose variable the first sample sets."""

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
    """operator.attrgetter, itemgetter and methodcaller on the worker's objects."""
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
    """A list that dataset, transform and collate_fn hold."""
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
def the_collate_function_is_a_method_of_the_dataset() -> Any:
    """collate_fn=dataset.collate, which reads what samples have left."""

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.lengths: list[int] = []

        def sample(self, index: int) -> Any:
            self.lengths.append(index % 5)
            return index

        def collate(self, samples: list[int]) -> Any:
            lengths, self.lengths = self.lengths, []
            return samples, lengths

    data = Data()
    return Setting(data, {"collate_fn": data.collate}, after_epoch=lambda: data.lengths)


@REFERENCES.program
def the_init_function_is_a_method_of_the_dataset() -> Any:
    """worker_init_fn=dataset.begin, which sets attributes."""

    class Data(Numbered):
        offset = 0

        def begin(self, worker_id: int) -> None:
            self.offset = 100 * (worker_id + 1)

        def sample(self, index: int) -> Any:
            return index + self.offset

    data = Data()
    return Setting(data, {"worker_init_fn": data.begin}, after_epoch=lambda: data.offset)


# ---- sentinels and what is compared by `is` -----------------------------------------------------------------------

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
    """object() of a function, in a default, a list and a closure."""
    missing = object()
    values: list[Any] = [missing, 3]

    def transform(index: int, fallback: Any = missing) -> Any:
        return fallback is missing, values[index % 2] is missing, values[0] is fallback

    return Transformed(transform)


@REFERENCES.program
def an_empty_object_that_gets_attributes() -> Any:
    """An instance without attributes that samples set some on."""
    state = Unset()
    return Setting(
        Transformed(lambda index: (len(vars(state)), setattr(state, f"name{index % 4}", index))[0]),
        after_epoch=lambda: sorted(vars(state)),
    )


@REFERENCES.program
def enum_members() -> Any:
    """Members of enums as values and keys, by `is`."""
    levels, counts = [Level.LOW, Level.HIGH], dict.fromkeys(Level, 0)
    flags = [Flags.FIRST, Flags.SECOND, Flags.FIRST | Flags.SECOND]

    def transform(index: int) -> Any:
        level = levels[index % 2]
        counts[level] += 1
        return level is Level.LOW, counts[Level.HIGH], flags[index % 3] is Flags.FIRST

    return Transformed(transform)


@REFERENCES.program
def singletons_of_the_language() -> Any:
    """None, Ellipsis, NotImplemented, types and functions in containers."""
    table: dict[Any, Any] = {None: Ellipsis, int: NotImplemented, "fn": len, "type": Numbered, "range": range(3)}
    return Transformed(
        lambda _: (
            table[None] is Ellipsis,
            table[int] is NotImplemented,
            table["fn"] is len,
            table["type"] is Numbered,
            list(table["range"]),
        )
    )


@REFERENCES.program
def a_singleton_class() -> Any:
    """A class whose __new__ gives the one instance."""

    class Registry:
        instance: Any = None

        def __new__(cls) -> Any:
            if cls.instance is None:
                cls.instance = super().__new__(cls)
            return cls.instance

    registry = Registry()
    return Transformed(lambda index: (registry is not None, index))


# ---- weak references ----------------------------------------------------------------------------------------------


@REFERENCES.program
def weak_references() -> Any:
    """weakref.ref to the dataset, a proxy of it and a WeakMethod."""

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
    """WeakValueDictionary, WeakKeyDictionary and WeakSet of objects that the dataset keeps."""
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
    """A reference whose object is gone before the loader begins."""
    reference = weakref.ref(Counter())
    return Transformed(lambda index: (reference() is None, index))


# ---- classes whose methods would do wrong where a copy calls them --------------------------------------------------


class Hostile(Counter):
    """Whoever copies or pickles it loses its count."""

    def __deepcopy__(self, _memo: Any) -> Any:
        return Hostile()

    def __copy__(self) -> Any:
        return Hostile()

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return Hostile, ()

    def __getstate__(self) -> Any:
        return {"calls": -1000}

    def __setstate__(self, state: Any) -> None:
        raise RuntimeError("must not be restored")


@REFERENCES.program
def a_class_that_copies_itself_wrongly() -> Any:
    """__deepcopy__, __reduce_ex__ and __getstate__ that forget."""
    counter = Hostile()
    counter.calls = 40
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@REFERENCES.program
def a_class_that_refuses_to_be_copied() -> Any:
    """__deepcopy__ and __reduce__ that raise, as those of handles do."""

    class Refusing(Counter):
        def __deepcopy__(self, _memo: Any) -> Any:
            raise TypeError("cannot be copied")

        def __reduce__(self) -> Any:
            raise TypeError("cannot be pickled")

    counter = Refusing()
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@REFERENCES.program
def a_class_whose_copies_are_itself() -> Any:
    """__deepcopy__ that returns self."""

    class Constant(Counter):
        def __deepcopy__(self, _memo: Any) -> Any:
            return self

    counter = Constant()
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@REFERENCES.program
def a_class_that_answers_every_name() -> Any:
    """__getattr__ that gives something for any name, as proxies do."""

    class Proxy:
        def __init__(self, target: Any) -> None:
            self.target = target

        def __getattr__(self, name: str) -> Any:
            return getattr(vars(self)["target"], name)

    class Anything:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: name

    counter = Counter()
    proxy, anything = Proxy(counter), Anything()

    def transform(index: int) -> Any:
        counter(index)
        anything.count = index
        return proxy.calls, proxy.target is counter, anything.name(), len(vars(anything))

    return Setting(Transformed(transform), after_epoch=lambda: (counter.calls, len(vars(anything))))


@REFERENCES.program
def a_class_that_counts_lookups() -> Any:
    """__getattribute__ and __setattr__ that count, so that a copier's own would be seen."""

    class Watched:
        def __init__(self) -> None:
            vars(self).update(reads=0, writes=0, value=0)

        def __getattribute__(self, name: str) -> Any:
            found = object.__getattribute__(self, "__dict__")
            if not name.startswith("_"):
                found["reads"] += 1
            return found[name] if name in found else object.__getattribute__(self, name)

        def __setattr__(self, name: str, value: Any) -> None:
            found = object.__getattribute__(self, "__dict__")
            found["writes"] += 1
            found[name] = value

    watched = Watched()

    def transform(index: int) -> Any:
        watched.value = index
        return watched.value, watched.reads, watched.writes

    return Transformed(transform)


@REFERENCES.program
def a_class_with_arguments_for_new() -> Any:
    """__new__ and __init__ that cannot be called without arguments, and that count."""

    class Made:
        def __new__(cls, _size: int) -> Any:
            return super().__new__(cls)

        def __init__(self, size: int) -> None:
            self.sizes = [size]

        def __call__(self, index: int) -> Any:
            self.sizes.append(index)
            return len(self.sizes)

    return Transformed(Made(3))


@REFERENCES.program
def a_class_with_a_finalizer() -> Any:
    """__del__ that closes what the program goes on to use."""

    class Handle:
        def __init__(self) -> None:
            self.opened = [True]
            self.reads = 0

        def __call__(self, _index: int) -> Any:
            self.reads += 1
            return self.opened[0], self.reads

        def __del__(self) -> None:
            self.opened[0] = False
            closed.append(self.reads)

    closed: list[int] = []
    handle = Handle()
    return Setting(Transformed(handle), after_epoch=lambda: (handle.opened, handle.reads, list(closed)))


@REFERENCES.program
def a_finalizer_on_the_dataset() -> Any:
    """A dataset that removes a file when it goes, shared by its workers."""

    class Data(Numbered):
        def __init__(self, removed: list[int]) -> None:
            super().__init__()
            self.removed = removed

        def sample(self, index: int) -> Any:
            return index, len(self.removed)

        def __del__(self) -> None:
            removed_by.append(1)

    removed_by: list[int] = []
    data = Data(removed_by)
    return Setting(data, after_epoch=lambda: len(removed_by))


@REFERENCES.program
def weakref_finalize() -> Any:
    """weakref.finalize on an object of the dataset's, which must not run for the worker's end."""
    ended: list[int] = []
    counter = Counter()
    finalizer = weakref.finalize(counter, ended.append, 1)
    return Setting(
        Transformed(lambda index: (counter(index), finalizer is not None)),
        after_epoch=lambda: (list(ended), finalizer.alive),
    )


@REFERENCES.program
def a_registered_reducer() -> Any:
    """A class for which copyreg has a function that forgets."""

    class Registered(Counter):
        pass

    counter = Registered()
    counter.calls = 5
    copyreg.pickle(Registered, lambda _: (Registered, ()))  # type: ignore[arg-type, return-value]
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@REFERENCES.program
def a_class_with_a_metaclass() -> Any:
    """Abstract classes and a metaclass that counts calls of the class."""

    class Counted(abc.ABCMeta):
        made = 0

        def __call__(cls, *arguments: Any) -> Any:
            cls.made += 1
            return super().__call__(*arguments)

    class Step(metaclass=Counted):
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self, index: int) -> Any:
            self.calls += 1
            return self.calls, type(self).made, index

    return Transformed(Step())


@REFERENCES.program
def a_class_with_descriptors() -> Any:
    """A descriptor that keeps values by object in the object's own dict."""

    class Positive:
        def __set_name__(self, _owner: Any, name: str) -> None:
            self.name = f"_{name}"

        def __get__(self, instance: Any, _owner: Any = None) -> Any:
            return self if instance is None else vars(instance)[self.name]

        def __set__(self, instance: Any, value: int) -> None:
            vars(instance)[self.name] = abs(value)

    class Data(Numbered):
        level = Positive()

        def __init__(self) -> None:
            super().__init__()
            self.level = -3

        def sample(self, index: int) -> Any:
            self.level = self.level - 2 * index
            return self.level

    return Data()


@REFERENCES.program
def a_class_that_compares_equal_to_all() -> Any:
    """__eq__ and __hash__ that would confuse a memo by value."""

    class Same:
        def __init__(self) -> None:
            self.calls = 0

        def __eq__(self, _other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

        def __bool__(self) -> bool:
            raise RuntimeError("has no truth")

        def __len__(self) -> int:
            raise RuntimeError("has no length")

    first, second = Same(), Same()

    def transform(index: int) -> Any:
        first.calls += 1
        second.calls += index
        return first.calls, second.calls

    return Transformed(transform)


@REFERENCES.program
def copies_that_the_program_makes() -> Any:
    """copy.deepcopy and copy.copy in a sample, with the class's own __deepcopy__."""

    class Step(Counter):
        def __deepcopy__(self, _memo: Any) -> Any:
            made = Step()
            made.calls = self.calls * 100
            return made

    step = Step()
    return Transformed(lambda index: (step(index), copy.deepcopy(step).calls, copy.copy(step).calls))


@REFERENCES.program
def exceptions_that_are_kept() -> Any:
    """The last error, with its arguments, on the dataset."""

    class Data(Numbered):
        last: Any = None

        def sample(self, index: int) -> Any:
            before = "none" if self.last is None else str(self.last)
            try:
                raise KeyError(index)
            except KeyError as error:
                self.last = error.with_traceback(None)
            return index, before

    return Data()


@REFERENCES.program
def an_error_prepared_by_the_program() -> Any:
    """An exception object of the program's that samples add notes to by attribute."""
    error = LookupError("prepared")
    error.seen = []  # type: ignore[attr-defined]

    def transform(index: int) -> Any:
        error.seen.append(index)  # type: ignore[attr-defined]
        if len(error.seen) == 9:  # type: ignore[attr-defined]
            raise error
        return len(error.seen)  # type: ignore[attr-defined]

    return Setting(Transformed(transform), after_epoch=lambda: error.seen)  # type: ignore[attr-defined]


@REFERENCES.program
def an_open_file() -> Any:
    """A file of the program's that every sample reads from the beginning, by position."""
    file = Path(__file__).open("rb")  # noqa: SIM115 - held as long as the dataset

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.file = None

        def sample(self, index: int) -> Any:
            if self.file is None:
                self.file = Path(__file__).open("rb")  # type: ignore[assignment] # noqa: SIM115
            self.file.seek(index)  # type: ignore[attr-defined]
            return self.file.read(4)  # type: ignore[attr-defined]

    return Setting(Data(), after_epoch=lambda: (file.seek(3), file.read(2)))


@REFERENCES.program
def a_context_that_is_kept() -> Any:
    """contextlib.ExitStack and a callback on it, which the workers do not run."""
    closed: list[int] = []
    stack = contextlib.ExitStack()
    stack.callback(closed.append, 1)

    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.stack = stack

        def sample(self, index: int) -> Any:
            return index, len(closed)

    return Setting(Data(), after_epoch=lambda: list(closed))


@REFERENCES.program
def a_module_that_refers_to_itself() -> Any:
    """A torch module with a child that knows its parent, as backbones with hooks do."""

    class Child(torch.nn.Module):
        def __init__(self, parent: Any) -> None:
            super().__init__()
            object.__setattr__(self, "parent", parent)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, value: Any) -> Any:
            self.calls += 1
            self.parent.total += value
            return self.parent.total.clone()

    class Parent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(1))
            self.child = Child(self)

        def forward(self, value: Any) -> Any:
            return self.child(value), self.child.calls.clone(), self.child.parent is self

    parent = Parent()
    return Setting(Transformed(lambda index: parent(float(index))), after_epoch=lambda: parent.total)
