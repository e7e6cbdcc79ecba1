"""Walks the objects that can be reached from some, with their paths as a user writes them: `dataset.index[3].env`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

# Only the first elements of long containers are looked at: the others are like them.
_MAX_ELEMENTS = 100
_MAX_OBJECTS = 20_000
_PLAIN = (str, bytes, int, float, bool, complex, type(None), type, types.ModuleType)


def walk(roots: tuple[Any, ...], names: tuple[str, ...], max_objects: int = _MAX_OBJECTS) -> Iterator[tuple[str, Any]]:
    """Yields (path, object) for each object that can be reached, nearest first and each once, without plain values.

    Calls no method of the user's. Ends after `max_objects`.
    """
    left = deque(part for part in zip(names, roots, strict=True) if type(part[1]) not in _PLAIN)
    seen: dict[int, Any] = {}  # keeps the objects alive, so that no two of them have one address
    while left and len(seen) < max_objects:
        path, thing = left.popleft()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            yield path, thing
            left.extend(part for part in _parts(path, thing) if type(part[1]) not in _PLAIN)


def _parts(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    kind = type(thing)
    if issubclass(kind, dict):
        for key, value in _first(dict.items(thing)):
            yield f"{path}[{_shown(key)}]", value
            if type(key) not in _PLAIN:
                yield f"a key of {path}", key
    elif issubclass(kind, (list, tuple, deque)):
        base = next(base for base in (list, tuple, deque) if issubclass(kind, base))
        yield from ((f"{path}[{number}]", value) for number, value in enumerate(_first(base.__iter__(thing))))
    elif issubclass(kind, (set, frozenset)):
        elements = set.__iter__ if issubclass(kind, set) else frozenset.__iter__
        yield from ((f"an element of {path}", value) for value in _first(elements(thing)))
    elif kind is types.FunctionType:
        yield from _parts_of_function(path, thing)
    elif kind is types.MethodType:
        yield f"{path}.__self__", thing.__self__
        yield f"{path}.__func__", thing.__func__
    elif kind is types.BuiltinMethodType:
        yield f"{path}.__self__", thing.__self__
    elif issubclass(kind, functools.partial):
        for name in ("func", "args", "keywords"):
            yield f"{path}.{name}", functools.partial.__dict__[name].__get__(thing)
    elif issubclass(kind, weakref.ref):
        yield f"{path}()", weakref.ref.__call__(thing)
    yield from _attributes(path, thing)


def _attributes(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    attributes = attributes_of(thing)
    if attributes is not None:
        yield from ((f"{path}.{name}", value) for name, value in _first(dict.items(attributes), 10_000))
    for base in type.__dict__["__mro__"].__get__(type(thing)):
        content = type.__dict__["__dict__"].__get__(base)
        slots = content.items() if "__slots__" in content else ()
        for name, member in slots:
            if type(member) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # it is empty
                    yield f"{path}.{name}", member.__get__(thing)


def attributes_of(thing: Any) -> dict[str, Any] | None:
    """Returns the ``__dict__`` of an instance; None if it has none."""
    for base in type.__dict__["__mro__"].__get__(type(thing)):
        found = type.__dict__["__dict__"].__get__(base).get("__dict__")
        if isinstance(found, types.GetSetDescriptorType) and base is not type:
            attributes = found.__get__(thing)
            return attributes if isinstance(attributes, dict) else None
    return None


def _parts_of_function(path: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is empty
            yield f"{name} in {path}", cell.cell_contents
    yield from ((f"a default of {path}", value) for value in function.__defaults__ or ())
    yield from ((f"the default of {name} in {path}", value) for name, value in (function.__kwdefaults__ or {}).items())


def _first(values: Any, number: int = _MAX_ELEMENTS) -> list[Any]:
    return list(itertools.islice(values, number))


def _shown(key: Any) -> str:
    return repr(key) if type(key) in (str, int) else f"<{type(key).__name__}>"
