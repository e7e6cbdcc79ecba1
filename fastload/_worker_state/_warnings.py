"""Warnings for what threads cannot have as processes have it, where it is sure: see dataloader-contract.md."""

from __future__ import annotations

import dis
import functools
import random
import site
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fastload._worker_state._objects import OwnObjects
from fastload._worker_state._walk import walk

_NUM_SAMPLED_BYTES = 4096


class SharedMemoryWatch:
    """Whether large arrays and tensors, which all workers share, are changed by the first batch of one.

    Call `begin` before the batch and `changes` after it. It keeps the arrays until then.
    """

    def __init__(self, own: OwnObjects) -> None:
        self._arrays = [(thing, memory) for thing, _ in own.shared if (memory := _sampled(thing)) is not None]
        self._before: list[Any] = []

    def begin(self) -> None:
        self._before = [memory.copy() for _, memory in self._arrays]

    def changes(self, roots: tuple[Any, ...], names: tuple[str, ...]) -> str | None:
        """The text of one warning; None: nothing has changed that is looked at. Lets go of the arrays.

        Args:
            roots: The worker's copies, or what they are copies of.
            names: Of these, for paths.
        """
        changed = [
            thing
            for (thing, memory), before in zip(self._arrays, self._before, strict=False)
            if not np.array_equal(memory, before)
        ]
        self._arrays, self._before = [], []
        if not changed:
            return None
        thing = changed[0]
        path = next((path for path, found in walk(roots, names) if found is thing), "an array")
        size = thing.nbytes >> 20
        return (
            f"{path} ({type(thing).__module__}.{type(thing).__qualname__}, {size} MiB) was changed while a worker made "
            "its first batch. Arrays above 16 MiB are shared by all worker threads, where torch's worker processes "
            "have a copy each, so that the workers change each other's. Make it in worker_init_fn, which each worker "
            "calls, or copy the part that is changed."
        )


def _sampled(thing: Any) -> Any | None:
    """A view of some bytes of the memory of a large array or tensor; None where it is none, or cannot be changed."""
    if issubclass(type(thing), torch.Tensor) and thing.device.type == "cpu" and thing.layout is torch.strided:
        with torch._C.DisableTorchFunction():
            memory = torch.empty(0, dtype=torch.uint8, device="cpu").set_(thing.untyped_storage()).numpy()
    elif (
        issubclass(type(thing), np.ndarray) and not thing.dtype.hasobject and thing.flags.writeable and thing.flags.forc
    ):
        memory = np.ndarray.view(thing, np.ndarray).ravel("K").view(np.uint8)
    else:
        return None
    # An odd step, so that no byte of a number is left out.
    return memory[:: memory.size // _NUM_SAMPLED_BYTES | 1] if memory.size > _NUM_SAMPLED_BYTES else memory


# ---- globals -------------------------------------------------------------------------------------------------------

# What a worker calls of a class; more are found by their names in these.
_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "__len__", "forward")


def changing_globals(roots: tuple[Any, ...]) -> tuple[str, ...]:
    """`module.name` of globals that workers change: generators, and what their code rebinds with `global`.

    Looks at the user's own code that can be reached from `roots`, not at installed packages.
    """
    found: dict[str, None] = {}
    for function in _functions_of_workers(roots):
        names_here = function.__globals__
        module = names_here.get("__name__", "?")
        for operation, name in _global_operations(function.__code__):
            is_changed = operation == "STORE_GLOBAL" or _is_generator(names_here.get(name))
            if is_changed:
                found.setdefault(f"{module}.{name}")
    return tuple(found)


def _is_generator(value: Any) -> bool:
    if value is random._inst or value is np.random.mtrand._rand or value is torch.default_generator:
        return False
    kinds = random.Random, np.random.Generator, np.random.RandomState, torch.Generator
    return issubclass(type(value), kinds) and not issubclass(type(value), random.SystemRandom)


def _functions_of_workers(roots: tuple[Any, ...]) -> Iterator[types.FunctionType]:
    """Functions of the user's own that workers may call."""
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
    """A code with those of the functions that are made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _names_in(code: types.CodeType) -> set[str]:
    return {name for inner in _codes_in(code) for name in inner.co_names}


def _global_operations(code: types.CodeType) -> Iterator[tuple[str, str]]:
    for inner in _codes_in(code):
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("STORE_GLOBAL", "LOAD_GLOBAL"):
                yield instruction.opname, instruction.argval
