"""NumPy's legacy functions, drawing from the calling thread's own RandomState.

They are all methods of one object, which are exchanged in their type's table, or functions beside it that use it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fastload import _native
from fastload._workers import _seeding
from fastload._workers._module_names import ModuleNames

process_state: Any = np.random.mtrand._rand


class MethodTable:
    """The exchange in the table of methods.

    Raises:
        NotImplementedError: NumPy's methods are not as they were in any version that was tried.
    """

    description = "method table"

    def __init__(self) -> None:
        self._methods = _native.MethodExchange()
        stand_in = _native.StandIn(process_state, "numpy")
        for name, method in vars(np.random.RandomState).items():
            if type(method).__name__ in ("cython_function_or_method", "method_descriptor"):
                self._methods.add_method(method, name, stand_in)
        self._methods.add_attribute(vars(np.random.RandomState)["_bit_generator"], "_bit_generator", stand_in)
        for name, replacement in _REPLACEMENTS.items():
            function = getattr(np.random, name, None)
            # Before 1.24 there is only seed(), which was a method.
            if function is not None and getattr(function, "__self__", None) is not process_state:
                self._methods.add_function(function, name, replacement)

    def make(self) -> None:
        self._methods.make()

    def undo(self) -> None:
        self._methods.undo()


def _own_state() -> Any:
    generators = _native.thread_generators()
    assert generators is not None, "called in threads with generators of their own only"
    return generators.numpy


def _seed(seed: Any = None) -> None:
    _seeding.seed_numpy(_own_state(), seed)


def _get_bit_generator() -> Any:
    return _seeding.bit_generator_of(_own_state())


def _set_bit_generator(bitgen: Any) -> None:
    _own_state().__init__(bitgen)


# Functions that reach into NumPy's object -> what they are in a thread with its own.
_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "seed": _seed,
    "get_bit_generator": _get_bit_generator,
    "set_bit_generator": _set_bit_generator,
}


class Names:
    """The exchange where the table is not obeyed: names of modules. It does not reach the object's own methods."""

    description = "names of modules"

    def __init__(self) -> None:
        self._names = ModuleNames()

    def make(self) -> None:
        methods = [name for name in dir(np.random.RandomState) if not name.startswith("_") and hasattr(np.random, name)]
        functions = [(name, getattr(np.random, name)) for name in methods]
        self._names.exchange([(function, _on_own_state(name, function)) for name, function in functions])

    def undo(self) -> None:
        self._names.undo()


def _on_own_state(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        generators = _native.thread_generators()
        return (original if generators is None else getattr(generators.numpy, name))(*args, **kwargs)

    return call
