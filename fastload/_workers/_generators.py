"""Generators of a worker's own, and what changes in the process so that everybody's functions draw from them.

Note [what is exchanged]. While `exchanged` is held anywhere, and in no other way, these have other functions in the
tables of their types: five methods of ``random._inst``, and those of ``numpy.random.mtrand._rand`` and of
``torch.default_generator``, with the three functions of numpy.random that use that object themselves, and torch's
functions that draw. ``random._inst`` has a class derived from random.Random.
In a thread that has entered its WorkerGenerators they work on these. In all others they do what they did before, on the
process's state. In a forked child nothing is exchanged, except where a worker's thread forks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

import numpy as np
import torch

from fastload import _native
from fastload._process._held import HeldChange
from fastload._workers import _numpy_exchange, _random_exchange, _seeding, _torch_draws, _torch_exchange


class WorkerGenerators(_native.ThreadGenerators):
    """The three generators of one worker, seeded as the installed torch seeds them in its worker process.

    Args:
        base_seed: That of torch's iterator.
        worker_id: From 0.

    Attributes:
        random: A random.Random.
        numpy: A numpy.random.RandomState, with a bit generator of the kind that the process's has.
        torch: A torch.Generator of the CPU.
    """

    def __init__(self, base_seed: int, worker_id: int) -> None:
        seed = base_seed + worker_id
        super().__init__(
            _seeding.new_random(seed),
            _seeding.new_numpy(base_seed, worker_id, _numpy_exchange.process_state),
            _seeding.new_torch(seed),
        )

    def seed(self, seed: int) -> None:
        """Seeds all three in place, in 10 us. To be called by the thread that draws from them.

        Args:
            seed: In [0, 2**64). NumPy's takes 32 bits of it: with all of them, seeding would take twice as long.
        """
        self.random.seed(seed)
        _seeding.seed_numpy(self.numpy, (seed ^ seed >> 32) & 0xFFFFFFFF)
        self.torch.manual_seed(seed)

    def entered(self) -> AbstractContextManager[None]:
        """Until it is left, the thread that enters it draws from these. `exchanged` must be held."""
        return _Entered(self)


class _Entered(AbstractContextManager[None]):
    def __init__(self, generators: WorkerGenerators) -> None:
        self._generators = generators
        self._before: _native.ThreadGenerators | None = None

    def __enter__(self) -> None:
        self._before = _native.set_thread_generators(self._generators)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _native.set_thread_generators(self._before)
        self._before = None


class drawing(AbstractContextManager[None]):
    """While it is entered, torch's functions that are called in this thread without a generator draw from one of its
    own: Note [how torch draws here]. `exchanged` must be held. May be entered again inside of itself.

    Args:
        take_generator: Called at each draw; gives the generator of the CPU that this thread has to itself now.
    """

    def __init__(self, take_generator: _torch_draws.TakeGenerator) -> None:
        self._take_generator = take_generator
        self._before: list[_torch_draws.TakeGenerator | _torch_draws.GeneratorMode | None] = []

    def __enter__(self) -> None:
        if _of_process.descriptions[_TORCH_DRAWS] != _torch_draws.Mode.description:
            self._before.append(_native.set_thread_draws(self._take_generator))
        else:
            mode = _torch_draws.GeneratorMode(self._take_generator)
            mode.__enter__()  # type: ignore[no-untyped-call]
            self._before.append(mode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        before = self._before.pop()
        if isinstance(before, _torch_draws.GeneratorMode):
            before.__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        else:
            _native.set_thread_draws(before)


class _Exchange(Protocol):
    """What is exchanged for one of the three. undo() has no effect where there is nothing to undo."""

    description: str

    def make(self) -> None: ...
    def undo(self) -> None: ...


# Mechanisms that miss something.
BY_NAMES, NOT_EXCHANGED = _random_exchange.Names.description, _torch_exchange.Nothing.description

_TORCH_DRAWS = "torch's functions"
_CHOICES: dict[str, tuple[Callable[[], _Exchange], ...]] = {
    "random": (_random_exchange.MethodTable, _random_exchange.Names),
    "numpy": (_numpy_exchange.MethodTable, _numpy_exchange.Names),
    "torch": (_torch_exchange.MethodTable, _torch_exchange.Nothing),
    _TORCH_DRAWS: (_torch_draws.MethodTable, _torch_draws.Mode),
}


class Exchanges(HeldChange):
    """All exchanges of the process.

    Attributes:
        descriptions: Which mechanism is in use for which generator; empty before the first time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._chosen: dict[str, _Exchange] = {}

    @property
    def descriptions(self) -> dict[str, str]:
        return {name: exchange.description for name, exchange in self._chosen.items()}

    def make(self) -> None:
        for name in _CHOICES:
            if name in self._chosen:
                self._chosen[name].make()
            else:
                self._chosen[name] = self._choose(name)

    def _choose(self, name: str) -> _Exchange:
        """The first that shows that it is obeyed, made."""
        *better, last = _CHOICES[name]
        for kind in better:
            try:
                exchange = kind()
            except NotImplementedError:
                continue
            try:
                exchange.make()
                if _PROBES[name]():
                    return exchange
            except NotImplementedError:
                pass
            except BaseException:
                exchange.undo()
                raise
            exchange.undo()
        exchange = last()
        exchange.make()
        return exchange

    def undo(self) -> None:
        errors = []
        for exchange in self._chosen.values():
            try:
                exchange.undo()
            except BaseException as error:  # noqa: BLE001 - the others are undone all the same
                errors.append(error)
        if errors:
            raise errors[0]

    def num_in_child(self) -> int:
        return 0 if _native.thread_generators() is None else 1  # of a worker's thread


def _probe_random() -> bool:
    """Whether the calling thread, with generators of its own, draws from them."""
    expected = random.Random(1)
    with _probing() as probe:
        drawn = [random.random(), random.Random.random(_random_exchange.process_random), random.getrandbits(40)]
        random.seed(2)
        random.setstate(random.getstate())
        random.gauss(0.0, 1.0)
    wanted = [expected.random(), expected.random(), expected.getrandbits(40)]
    expected.seed(2)
    expected.gauss(0.0, 1.0)
    return drawn == wanted and probe.random.getstate() == expected.getstate()


def _probe_numpy() -> bool:
    expected = np.random.RandomState(1)
    with _probing() as probe:
        if _seeding.bit_generator_of(_numpy_exchange.process_state) is not _seeding.bit_generator_of(probe.numpy):
            return False
        drawn = [np.random.random_sample(), np.random.standard_normal(), *np.random.permutation(9)]
        np.random.seed(2)
        np.random.set_state(np.random.get_state())
        drawn += [np.random.normal(), np.random.randint(99)]
    wanted = [expected.random_sample(), expected.standard_normal(), *expected.permutation(9)]
    expected.seed(2)
    return drawn == [*wanted, expected.normal(), expected.randint(99)]


def _probe_torch() -> bool:
    with _probing() as probe:
        is_seeded = torch.default_generator.initial_seed() == 1
        if is_seeded:
            torch.default_generator.manual_seed(2)
    return is_seeded and probe.torch.initial_seed() == 2


def _probe_torch_draws() -> bool:
    expected, probe = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    before = _native.set_thread_draws(lambda: probe)
    try:
        drawn = [torch.rand(3), torch.Tensor.uniform_(torch.empty(3)), torch.rand_like(torch.empty(3))]
    finally:
        _native.set_thread_draws(before)
    wanted = torch.rand(9, generator=expected)
    return torch.cat(drawn).equal(wanted) and probe.get_state().equal(expected.get_state())


class _probing(AbstractContextManager[_native.ThreadGenerators]):
    """The calling thread has generators, seeded with 1, for a moment."""

    def __enter__(self) -> _native.ThreadGenerators:
        probe = _native.ThreadGenerators(random.Random(1), np.random.RandomState(1), torch.Generator().manual_seed(1))
        self._before = _native.set_thread_generators(probe)
        return probe

    def __exit__(self, *error: object) -> None:
        _native.set_thread_generators(self._before)


_PROBES: dict[str, Callable[[], bool]] = {
    "random": _probe_random,
    "numpy": _probe_numpy,
    "torch": _probe_torch,
    _TORCH_DRAWS: _probe_torch_draws,
}


_of_process = Exchanges()


def exchanged() -> AbstractContextManager[None]:
    """While anybody holds it, all exchanges are made; see Note [what is exchanged]. Thread-safe."""
    return _of_process.held()


def describe() -> dict[str, str]:
    """Which mechanism is in use for `random`, `numpy` and `torch`; makes the exchange to see, the first time."""
    if not _of_process.descriptions:
        with exchanged():
            pass
    return _of_process.descriptions
