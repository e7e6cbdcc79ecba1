"""Finds the user's own functions that workers call, and the names in them."""

from __future__ import annotations

import functools
import site
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastload._workers._walk import walk

# The methods that a worker calls; others are found by their names in these.
_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "__len__", "forward")


def uses_dataset(init_fn: Any, dataset: Any) -> bool:
    """Returns whether a worker_init_fn may change the dataset.

    It may if it holds the dataset or a part of it, or if `dataset` is a name in its code, as in
    `get_worker_info().dataset`. Functions of installed packages that it calls are not looked at.
    """
    parts = {id(part) for _, part in walk((dataset,), ("",)) if type(part) not in (tuple, types.FunctionType)}
    reached = [thing for _, thing in walk((init_fn,), ("",))]
    functions = [thing for thing in reached if type(thing) is types.FunctionType]
    functions += functions_of_workers((init_fn,))
    for function in functions:
        names = _names_in(function.__code__)
        if "dataset" in names:
            return True
        reached += map(function.__globals__.get, names)
    return any(id(thing) in parts for thing in reached)


def functions_of_workers(roots: tuple[Any, ...]) -> Iterator[types.FunctionType]:
    """Yields the user's own functions that workers may call."""
    methods: dict[str, list[types.FunctionType]] = {}
    left: list[types.FunctionType] = []
    kinds: set[type] = set()
    for _, thing in walk(roots, tuple("" for _ in roots)):
        if type(thing) is types.FunctionType:
            left.append(thing)
        for base in type.__dict__["__mro__"].__get__(type(thing)):
            if base not in kinds:
                kinds.add(base)
                _add_methods(base, methods)
    left += [method for name in _ENTRIES for method in methods.get(name, ())]
    seen: set[types.CodeType] = set()
    while left:
        function = left.pop()
        if function.__code__ in seen or not _is_users(function):
            continue
        seen.add(function.__code__)
        yield function
        for name in _names_in(function.__code__):
            left += methods.get(name, ())
            value: Any = function.__globals__.get(name)
            if type(value) is types.FunctionType:
                left.append(value)
            elif issubclass(type(value), type) and value not in kinds:
                kinds.add(value)
                _add_methods(value, methods)
                left += [method for entry in ("__init__", *_ENTRIES) for method in methods.get(entry, ())]


def calls_of_module(roots: tuple[Any, ...], module: str, name: str) -> bool:
    """Returns whether the user's own functions that workers may call have `name` of a module in their code."""
    for function in functions_of_workers(roots):
        names = _names_in(function.__code__)
        found = [function.__globals__.get(one) for one in names]
        modules = {one.__name__ for one in found if type(one) is types.ModuleType}
        if name in names and (module in modules or module in names):
            return True
    return False


def _add_methods(kind: type, methods: dict[str, list[types.FunctionType]]) -> None:
    for name, value in type.__dict__["__dict__"].__get__(kind).items():
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        elif type(value) is property:
            value = value.fget
        if type(value) is types.FunctionType and _is_users(value):
            methods.setdefault(name, []).append(value)


def _is_users(function: types.FunctionType) -> bool:
    file = function.__code__.co_filename
    return not file.startswith(_installed()) and not file.startswith("<frozen")


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    own = str(Path(__file__).parents[1])
    return tuple(dict.fromkeys([*paths, own, *site.getsitepackages(), site.getusersitepackages()]))


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields a code object and the code objects of the functions that are made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _names_in(code: types.CodeType) -> set[str]:
    return {name for inner in _codes_in(code) for name in inner.co_names}
