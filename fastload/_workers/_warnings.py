"""Warns of objects that worker threads certainly share and worker processes would not: see dataloader-contract.md."""

from __future__ import annotations

import dis
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fastload._process._interrupts import equal_arrays
from fastload._workers._objects import OwnObjects
from fastload._workers._user_functions import codes_in, functions_of_workers
from fastload._workers._walk import walk

_NUM_SAMPLED_BYTES = 4096


class SharedMemoryWatch:
    """Finds out whether a worker's first batch changes large arrays and tensors, which all workers share.

    Call `begin` before the batch and `changes` after it. It keeps the arrays until then.
    """

    def __init__(self, own: OwnObjects) -> None:
        self._arrays = [(thing, memory) for thing, _ in own.shared if (memory := _sampled(thing)) is not None]
        self._before: list[Any] = []

    def begin(self) -> None:
        self._before = [memory.copy() for _, memory in self._arrays]

    def changes(self, roots: tuple[Any, ...], names: tuple[str, ...]) -> str | None:
        """Returns the text of one warning; None: no change was found. Drops the arrays.

        Args:
            roots: The worker's copies, or the originals.
            names: Their names, with which paths begin.
        """
        changed = [
            thing
            for (thing, memory), before in zip(self._arrays, self._before, strict=False)
            if not equal_arrays(memory, before)
        ]
        self._arrays, self._before = [], []
        if not changed:
            return None
        thing = changed[0]
        path = next((path for path, found in walk(roots, names) if found is thing), "an array")
        size = thing.nbytes >> 20
        return (
            f"{path} ({type(thing).__module__}.{type(thing).__qualname__}, {size} MiB) was changed while a worker made "
            "its first batch. All worker threads share arrays above 16 MiB, so each changes the array of the others; "
            "torch's worker processes have a copy each. Make it in worker_init_fn, which each worker calls, or copy "
            "the part that is changed."
        )


def _sampled(thing: Any) -> Any | None:
    """Returns a view of some bytes of a large array or tensor; None if it is none, or cannot be changed."""
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


# ---- objects found by name -----------------------------------------------------------------------------------------


def changed_by_name(roots: tuple[Any, ...]) -> tuple[str, ...]:
    """Returns the names of objects that workers change and have no copy of, since their code finds them by name.

    These are globals that the code rebinds, and generators that are global, or that a global object, a closure or a
    default of a method or global function holds. Looks at the user's own code that can be reached from `roots`, not at
    installed packages.

    Returns:
        Names as users write them: `module.name`, `module.name.generator`. Only the first generator below a name counts.
    """
    copied = {id(thing) for _, thing in walk(roots, tuple("" for _ in roots)) if type(thing) is types.FunctionType}
    found: dict[str, None] = {}
    named: dict[str, Any] = {}
    for function in functions_of_workers(roots):
        names_here = function.__globals__
        module = names_here.get("__name__", "?")
        for operation, name in _global_operations(function.__code__):
            if operation == "STORE_GLOBAL":
                found.setdefault(f"{module}.{name}")
            elif type(names_here.get(name)) is not types.FunctionType:  # its own names are looked at
                named.setdefault(f"{module}.{name}", names_here.get(name))
        if id(function) not in copied:
            named.setdefault(f"{module}.{function.__qualname__}", function)
    told: set[str] = set()  # names with a generator found already
    for path, thing in walk(tuple(named.values()), tuple(named)):
        if _is_generator(thing) and (name := max((name for name in named if name in path), key=len)) not in told:
            told.add(name)
            found.setdefault(path)
    return tuple(found)


def _is_generator(value: Any) -> bool:
    if value is random._inst or value is np.random.mtrand._rand or value is torch.default_generator:
        return False
    kinds = random.Random, np.random.Generator, np.random.RandomState, torch.Generator
    return issubclass(type(value), kinds) and not issubclass(type(value), random.SystemRandom)


def _global_operations(code: types.CodeType) -> Iterator[tuple[str, str]]:
    for inner in codes_in(code):
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("STORE_GLOBAL", "LOAD_GLOBAL"):
                yield instruction.opname, instruction.argval
