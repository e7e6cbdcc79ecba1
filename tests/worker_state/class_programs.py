"""Programs of classes whose methods would do wrong where a copy calls them, and of exceptions that are kept."""

from __future__ import annotations

import abc
import copy
import copyreg
import weakref
from typing import Any

from numbered import Numbered
from program import Chapter, Counter, Setting, Transformed

CLASSES = Chapter()


class Hostile(Counter):
    """An object that loses its count when it is copied or pickled."""

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


@CLASSES.program
def a_class_that_copies_itself_wrongly() -> Any:
    """Uses a class with __deepcopy__, __reduce_ex__ and __getstate__ that forget."""
    counter = Hostile()
    counter.calls = 40
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@CLASSES.program
def a_class_that_refuses_to_be_copied() -> Any:
    """Uses a class with __deepcopy__ and __reduce__ that raise, as handles do."""

    class Refusing(Counter):
        def __deepcopy__(self, _memo: Any) -> Any:
            raise TypeError("cannot be copied")

        def __reduce__(self) -> Any:
            raise TypeError("cannot be pickled")

    counter = Refusing()
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@CLASSES.program
def a_class_whose_copies_are_itself() -> Any:
    """Uses a class with a __deepcopy__ that returns self."""

    class Constant(Counter):
        def __deepcopy__(self, _memo: Any) -> Any:
            return self

    counter = Constant()
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@CLASSES.program
def a_class_that_answers_every_name() -> Any:
    """Uses a class with a __getattr__ that returns something for any name, as proxies do."""

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


@CLASSES.program
def a_class_that_counts_lookups() -> Any:
    """Uses a class with __getattribute__ and __setattr__ that count, so that a copier's own calls would show."""

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


@CLASSES.program
def a_class_with_arguments_for_new() -> Any:
    """Uses a class with __new__ and __init__ that count and cannot be called without arguments."""

    class Made:
        def __new__(cls, _size: int) -> Any:
            return super().__new__(cls)

        def __init__(self, size: int) -> None:
            self.sizes = [size]

        def __call__(self, index: int) -> Any:
            self.sizes.append(index)
            return len(self.sizes)

    return Transformed(Made(3))


@CLASSES.program
def a_class_with_a_finalizer() -> Any:
    """Uses a class with a __del__ that closes what the program goes on using."""

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


@CLASSES.program
def a_finalizer_on_the_dataset() -> Any:
    """Uses a dataset that removes a file when it ends, and that its workers share."""

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


@CLASSES.program
def weakref_finalize() -> Any:
    """Uses weakref.finalize on an object of the dataset, which must not run when the worker ends."""
    ended: list[int] = []
    counter = Counter()
    finalizer = weakref.finalize(counter, ended.append, 1)
    return Setting(
        Transformed(lambda index: (counter(index), finalizer is not None)),
        after_epoch=lambda: (list(ended), finalizer.alive),
    )


@CLASSES.program
def a_registered_reducer() -> Any:
    """Uses a class for which copyreg has a function that forgets."""

    class Registered(Counter):
        pass

    counter = Registered()
    counter.calls = 5
    copyreg.pickle(Registered, lambda _: (Registered, ()))  # type: ignore[arg-type, return-value]
    return Setting(Transformed(counter), after_epoch=lambda: counter.calls)


@CLASSES.program
def a_class_with_a_metaclass() -> Any:
    """Uses abstract classes and a metaclass that counts calls of the class."""

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


@CLASSES.program
def a_class_with_descriptors() -> Any:
    """Uses a descriptor that keeps values by object in the object's own dict."""

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


@CLASSES.program
def a_class_that_compares_equal_to_all() -> Any:
    """Uses a class with __eq__ and __hash__ that would confuse a memo by value."""

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


@CLASSES.program
def copies_that_the_program_makes() -> Any:
    """Uses copy.deepcopy and copy.copy in a sample, with the class's own __deepcopy__."""

    class Step(Counter):
        def __deepcopy__(self, _memo: Any) -> Any:
            made = Step()
            made.calls = self.calls * 100
            return made

    step = Step()
    return Transformed(lambda index: (step(index), copy.deepcopy(step).calls, copy.copy(step).calls))


@CLASSES.program
def exceptions_that_are_kept() -> Any:
    """Keeps the last error, with its arguments, on the dataset."""

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


@CLASSES.program
def an_error_prepared_by_the_program() -> Any:
    """Keeps an exception object of the program's, to which samples add notes by attribute."""
    error = LookupError("prepared")
    error.seen = []  # type: ignore[attr-defined]

    def transform(index: int) -> Any:
        error.seen.append(index)  # type: ignore[attr-defined]
        if len(error.seen) == 9:  # type: ignore[attr-defined]
            raise error
        return len(error.seen)  # type: ignore[attr-defined]

    return Setting(Transformed(transform), after_epoch=lambda: error.seen)  # type: ignore[attr-defined]
