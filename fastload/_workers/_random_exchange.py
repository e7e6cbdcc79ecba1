"""Python's random module, drawing from the calling thread's own random.Random.

All its functions end in five methods written in C of one hidden object, which are exchanged in their type's table.
``gauss`` keeps a value in an attribute of that object, whose class is exchanged for one where it is the thread's own.
"""

from __future__ import annotations

import _random
import random
from typing import Any

from fastload import _native
from fastload._workers._module_names import ModuleNames

_METHODS = ("random", "getrandbits", "seed", "getstate", "setstate")
process_random: random.Random = random._inst


class MethodTable:
    """The exchange in the table of methods."""

    description = "method table"

    def __init__(self) -> None:
        self._methods = _native.MethodExchange()
        stand_in = _native.StandIn(process_random, "random")
        for name in _METHODS:
            self._methods.add_method(getattr(_random.Random, name), name, stand_in)
        self._class: type[random.Random] | None = None
        self._classes: dict[type[random.Random], Any] = {}

    def make(self) -> None:
        """Raises NotImplementedError: this Python does not call what the table says."""
        self._class = type(process_random)
        if self._class not in self._classes:
            self._classes[self._class] = self._new_class(self._class)
        self._methods.make()
        process_random.__class__ = self._classes[self._class]

    def _new_class(self, base: type[random.Random]) -> Any:
        """Made once: a class refers to itself, and only the collector ends it."""
        new_class = _make_class(base)
        new_class.gauss_next = _native.make_gauss_next(new_class)
        return new_class

    def undo(self) -> None:
        if self._class is not None:
            process_random.__class__ = self._class
        self._methods.undo()
        self._class = None


def _make_class(base: type[random.Random], **methods: Any) -> Any:
    """A class that tells nobody that it is not `base`: what is pickled or copied is one of `base`."""

    def reduce(self: random.Random) -> Any:
        return (base, *base.__reduce__(self)[1:])

    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (base,), {**names, "__reduce__": reduce, **methods})


class Names:
    """The exchange where the table is not obeyed: methods of the object's class, and names of modules."""

    description = "names of modules"

    def __init__(self) -> None:
        self._class: type[random.Random] | None = None
        self._classes: dict[type[random.Random], Any] = {}
        self._names = ModuleNames()

    def make(self) -> None:
        self._class = type(process_random)
        functions = [getattr(random, name) for name in _METHODS]
        if self._class not in self._classes:
            methods = {name: _on_own_random(name, getattr(self._class, name)) for name in _METHODS}
            self._classes[self._class] = _make_class(self._class, gauss_next=_GaussNext(), **methods)
        process_random.__class__ = self._classes[self._class]
        self._names.exchange([(function, getattr(process_random, function.__name__)) for function in functions])

    def undo(self) -> None:
        self._names.undo()
        if self._class is not None:
            process_random.__class__ = self._class
        self._class = None


def _on_own_random(name: str, original: Any) -> Any:
    def call(self: random.Random, *args: Any, **kwargs: Any) -> Any:
        own = _native.thread_generators()
        if own is None or self is not process_random:
            return original(self, *args, **kwargs)
        return getattr(own.random, name)(*args, **kwargs)

    call.__name__ = name
    return call


class _GaussNext:
    """The attribute of the process's object, of the calling thread's own where it has one."""

    def __get__(self, instance: random.Random, owner: type) -> Any:
        return _attributes(instance)["gauss_next"]

    def __set__(self, instance: random.Random, value: float | None) -> None:
        _attributes(instance)["gauss_next"] = value


def _attributes(instance: random.Random) -> dict[str, Any]:
    own = _native.thread_generators()
    return vars(instance if own is None else own.random)
