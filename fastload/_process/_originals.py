"""Functions of other packages that native code stands in for, and whether user code has put others in their place."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

# Functions of fastload that stand in the place of others, which they call. Each is known as long as it lives: a thread
# may have found it where another one has just put the original back.
stand_ins: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def original_of(function: Any) -> Any:
    """What `function` stands in for; else itself."""
    return stand_ins.get(function, function) if isinstance(function, FunctionType) else function


class Owner(NamedTuple):
    """A class or module, and names of functions in it; those that this version does not have are not looked at.

    Attributes:
        name: As users write it.
    """

    name: str
    value: Any
    functions: Sequence[str]


class Originals:
    """Functions that are asked about often: where none has changed since the last time, that takes no microsecond.

    Args:
        owners: Of the functions.
        is_original: Says of an owner's value, a name and what is there whether it is what the package has put there.
    """

    def __init__(self, owners: Sequence[Owner], is_original: Callable[[Any, str, Any], bool]) -> None:
        self._owners = [
            Owner(name, value, [function for function in functions if hasattr(value, function)])
            for name, value, functions in owners
        ]
        self._is_original = is_original
        # With one name more: of a single one it gives no tuple.
        self._gets = [(operator.attrgetter(*names, names[0]), value) for _, value, names in self._owners]
        self._seen: list[Any] = []

    def replaced(self) -> str | None:
        """The name of a function that is not the original one; None where all are."""
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
    """Whether a function or class is defined where `owner`, a class or module, is."""
    home = owner.__module__ if isinstance(owner, type) else owner.__name__
    if isinstance(found, FunctionType):
        return found.__globals__.get("__name__") == home  # not __module__, which functools.wraps copies to the wrapper
    return isinstance(found, type) and found.__module__ == home
