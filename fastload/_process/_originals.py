"""Functions of other packages that native code replaces, and whether user code has replaced them."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

# Stand-in -> the original function that it calls. An entry lives as long as its stand-in: a thread may still hold a
# stand-in when another thread has put the original back.
stand_ins: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def original_of(function: Any) -> Any:
    """Returns the function that `function` stands in for; otherwise `function` itself."""
    return stand_ins.get(function, function) if isinstance(function, FunctionType) else function


class Replacements:
    """Functions that stand-ins replace until they are put back."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces a function of a class or module by the stand-in that `make` makes of the original."""
        original = original_of(vars(owner)[name])  # may be a stand-in, if other code put it back late
        stand_in = functools.wraps(original)(make(original))
        stand_ins[stand_in] = original
        setattr(owner, name, stand_in)
        self._before.append((owner, name, original, stand_in))

    def restore(self) -> None:
        before, self._before = self._before, []
        for owner, name, original, stand_in in before:
            if vars(owner).get(name) is stand_in:  # otherwise other code has replaced it, and may put it back
                setattr(owner, name, original)


class Owner(NamedTuple):
    """A class or module, its name as users write it, and names of functions in it; names that it lacks are ignored."""

    name: str
    value: Any
    functions: Sequence[str]


class Originals:
    """Functions that are checked often: a check takes less than a microsecond if none has changed since the last one.

    `is_original` takes an owner's value, a function's name and the current object, and tells whether that object is the
    package's own.
    """

    def __init__(self, owners: Sequence[Owner], is_original: Callable[[Any, str, Any], bool]) -> None:
        self._owners = [
            Owner(name, value, [function for function in functions if hasattr(value, function)])
            for name, value, functions in owners
        ]
        self._is_original = is_original
        # The extra name makes attrgetter return a tuple even for a single function.
        self._gets = [(operator.attrgetter(*names, names[0]), value) for _, value, names in self._owners]
        self._seen: list[Any] = []

    def replaced(self) -> str | None:
        """Returns the name of a function that has been replaced; None if all are original."""
        try:
            seen = [get(value) for get, value in self._gets]
        except AttributeError as error:
            return f"{error.name}"
        if seen == self._seen:
            return None
        for owner, functions in zip(self._owners, seen, strict=True):
            for name, found in zip(owner.functions, functions, strict=False):
                if not self._is_original(owner.value, name, original_of(found)):
                    return f"{owner.name}.{name}"
        self._seen = seen
        return None


def is_of_module(owner: Any, _: str, found: Any) -> bool:
    """Returns whether `found`, a function or class, is defined where `owner`, a class or module, is."""
    home = owner.__module__ if isinstance(owner, type) else owner.__name__
    if isinstance(found, FunctionType):
        return found.__globals__.get("__name__") == home  # not __module__, which functools.wraps copies to the wrapper
    return isinstance(found, type) and found.__module__ == home
