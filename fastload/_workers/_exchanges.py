"""The functions that draw random numbers, exchanged so that a worker's thread draws from generators of its own.

Note [what is exchanged]
While anybody holds `exchanged()`, and never otherwise, these have other functions in the tables of their types: five
methods of ``random._inst``, the methods of ``numpy.random.mtrand._rand`` and of ``torch.default_generator``, the three
functions of numpy.random that use its object themselves, and torch's functions that draw. The class of
``random._inst`` is a subclass of random.Random. In a thread that has entered its WorkerGenerators these functions work
on them. In all other threads they do what they did before, on the process's state. In a forked child nothing is
exchanged, unless a worker's thread has forked it.

All functions are exchanged where they are, in C, since programs keep them in names, objects and closures of their own.
A Python, NumPy or torch that calls its functions in another way cannot have worker threads: the error says so.
"""

from __future__ import annotations

import _random
import contextlib
import random
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import torch

from fastload import _native
from fastload._process._held import HeldChange
from fastload._workers import _seeding, _torch_draws

process_random: random.Random = random._inst
process_numpy: Any = np.random.mtrand._rand

# Tells a probe's generators from the program's: no program seeds with it.
_PROBE_SEED = 3_141_592_653


class Exchange(ABC):
    """The functions of one library, exchanged together.

    Attributes:
        name: The library and its generator, as an error names them.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        """Raises NotImplementedError: a function is not written in C as expected, or its table is read-only."""
        self._methods = _native.MethodExchange()

    def make(self) -> None:
        self._methods.make()

    def undo(self) -> None:
        """Does nothing if there is nothing to undo."""
        self._methods.undo()

    @abstractmethod
    def is_obeyed(self) -> bool:
        """Returns whether the calling thread now draws from generators of its own. Called while it is made."""


class RandomExchange(Exchange):
    """Python's random module.

    All its functions end in five methods of one hidden object. ``gauss`` keeps a value in an attribute of that object,
    so its class is exchanged for one in which the attribute is the thread's own.
    """

    name = "Python's random module"
    _METHODS = ("random", "getrandbits", "seed", "getstate", "setstate")

    def __init__(self) -> None:
        super().__init__()
        stand_in = _native.StandIn(process_random, "random")
        for name in self._METHODS:
            self._methods.add_method(getattr(_random.Random, name), name, stand_in)
        self._class: type[random.Random] | None = None
        # Each made once: a class refers to itself, and only the garbage collector would end it.
        self._classes: dict[type[random.Random], Any] = {}

    def make(self) -> None:
        self._class = type(process_random)
        if self._class not in self._classes:
            self._classes[self._class] = _with_own_gauss(self._class)
        super().make()
        process_random.__class__ = self._classes[self._class]

    def undo(self) -> None:
        if self._class is not None:
            process_random.__class__ = self._class
        super().undo()
        self._class = None

    def is_obeyed(self) -> bool:
        expected = random.Random(_PROBE_SEED)
        with _probing() as probe:
            if process_random.getstate() != expected.getstate():
                return False
            drawn = [process_random.random(), random.Random.random(process_random), process_random.getrandbits(40)]
            process_random.seed(2)
            process_random.setstate(process_random.getstate())
            process_random.gauss(0.0, 1.0)
        wanted = [expected.random(), expected.random(), expected.getrandbits(40)]
        expected.seed(2)
        expected.gauss(0.0, 1.0)
        return drawn == wanted and probe.random.getstate() == expected.getstate()


def _with_own_gauss(base: type[random.Random]) -> Any:
    """Returns a subclass that passes for `base`: its objects are pickled and copied as objects of `base`."""

    def reduce(self: random.Random) -> Any:
        return (base, *base.__reduce__(self)[1:])

    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    new_class: Any = type(base.__name__, (base,), {**names, "__reduce__": reduce})
    new_class.gauss_next = _native.make_gauss_next(new_class)
    return new_class


class NumpyExchange(Exchange):
    """NumPy's legacy functions: the methods of one object, and three functions that use it."""

    name = "numpy.random"

    def __init__(self) -> None:
        super().__init__()
        stand_in = _native.StandIn(process_numpy, "numpy")
        for name, method in vars(np.random.RandomState).items():
            if type(method).__name__ in ("cython_function_or_method", "method_descriptor"):
                self._methods.add_method(method, name, stand_in)
        self._methods.add_attribute(vars(np.random.RandomState)["_bit_generator"], "_bit_generator", stand_in)
        for name, replacement in _NUMPY_FUNCTIONS.items():
            function = getattr(np.random.mtrand, name, None)
            # Before NumPy 1.24 there is only seed(), a method.
            if function is not None and getattr(function, "__self__", None) is not process_numpy:
                self._methods.add_function(function, name, replacement)

    def is_obeyed(self) -> bool:
        expected, numpys = np.random.RandomState(_PROBE_SEED), process_numpy
        with _probing() as probe:
            if _seeding.bit_generator_of(numpys) is not _seeding.bit_generator_of(probe.numpy):
                return False
            drawn = [numpys.random_sample(), numpys.standard_normal(), *numpys.permutation(9)]
            np.random.mtrand.seed(2)
            numpys.set_state(numpys.get_state())
            drawn += [numpys.normal(), numpys.randint(99)]
        wanted = [expected.random_sample(), expected.standard_normal(), *expected.permutation(9)]
        expected.seed(2)
        return drawn == [*wanted, expected.normal(), expected.randint(99)]


def _own_numpy() -> Any:
    generators = _native.thread_generators()
    assert generators is not None, "called in threads with generators of their own only"
    return generators.numpy


# The functions of numpy.random that use its object, and their replacements in a thread with generators of its own.
_NUMPY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "seed": lambda seed=None: _seeding.seed_numpy(_own_numpy(), seed),
    "get_bit_generator": lambda: _seeding.bit_generator_of(_own_numpy()),
    "set_bit_generator": lambda bitgen: _own_numpy().__init__(bitgen),
}


class TorchExchange(Exchange):
    """The methods of torch.default_generator."""

    name = "torch.default_generator"

    def __init__(self) -> None:
        super().__init__()
        stand_in = _native.StandIn(torch.default_generator, "torch")
        for name, method in vars(torch._C.Generator).items():
            if isinstance(method, types.MethodDescriptorType):
                self._methods.add_method(method, name, stand_in)

    def is_obeyed(self) -> bool:
        with _probing() as probe:
            is_seeded = torch.default_generator.initial_seed() == _PROBE_SEED
            if is_seeded:
                torch.default_generator.manual_seed(2)
        return is_seeded and probe.torch.initial_seed() == 2


class TorchDrawsExchange(Exchange):
    """torch's functions that draw: Note [how torch draws here]."""

    name = "torch's random functions"

    def __init__(self) -> None:
        super().__init__()
        _torch_draws.add_functions(self._methods)

    def is_obeyed(self) -> bool:
        expected = torch.Generator().manual_seed(_PROBE_SEED)
        torchs, tensors = torch._C._VariableFunctions, torch._C.TensorBase
        # On the CPU by name: the thread may have another default device.
        empty = torch.empty(3, device="cpu")
        with _probing() as probe:
            drawn = [torchs.rand(3, device="cpu"), tensors.uniform_(empty.clone()), torchs.rand_like(empty)]
        wanted = torchs.rand(9, generator=expected, device="cpu")
        return torch.cat(drawn).equal(wanted) and probe.torch.get_state().equal(expected.get_state())


@contextlib.contextmanager
def _probing() -> Iterator[_native.ThreadGenerators]:
    """Gives the calling thread generators of its own inside, seeded with _PROBE_SEED."""
    torchs = torch.Generator().manual_seed(_PROBE_SEED)
    probe = _native.ThreadGenerators(random.Random(_PROBE_SEED), np.random.RandomState(_PROBE_SEED), torchs)
    before = _native.set_thread_generators(probe)
    try:
        yield probe
    finally:
        _native.set_thread_generators(before)


KINDS: tuple[type[Exchange], ...] = (RandomExchange, NumpyExchange, TorchExchange, TorchDrawsExchange)


class Exchanges(HeldChange):
    """All exchanges of the process."""

    def __init__(self) -> None:
        super().__init__()
        self._exchanges: list[Exchange] = []
        self._are_obeyed = False

    def make(self) -> None:
        """Raises NotImplementedError: one of them has no effect here."""
        if not self._exchanges:
            self._exchanges = [_prepare(kind) for kind in KINDS]
        for exchange in self._exchanges:
            exchange.make()
            if not self._are_obeyed and not exchange.is_obeyed():
                raise _refusal(type(exchange), "calls do not go through its method table")
        self._are_obeyed = True

    def undo(self) -> None:
        errors = []
        for exchange in self._exchanges:
            try:
                exchange.undo()
            except BaseException as error:  # noqa: BLE001 - the others are undone all the same
                errors.append(error)
        if errors:
            raise errors[0]

    def num_in_child(self) -> int:
        return 0 if _native.thread_generators() is None else 1  # held by the worker whose thread forked


def _prepare(kind: type[Exchange]) -> Exchange:
    try:
        return kind()
    except NotImplementedError as error:
        raise _refusal(kind, str(error)) from error


def _refusal(kind: type[Exchange], reason: str) -> NotImplementedError:
    return NotImplementedError(
        f"{kind.name} cannot draw from a worker thread's own generator here: {reason}. "
        'Pass workers="processes": each process has generators of its own.'
    )


_of_process = Exchanges()


def exchanged() -> AbstractContextManager[None]:
    """Returns a context in which all exchanges are made: Note [what is exchanged]. Thread-safe.

    Entering raises NotImplementedError where this Python, NumPy or torch does not obey them.
    """
    return _of_process.held()
