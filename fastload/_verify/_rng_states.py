"""States of random generators, so that two loaders can run side by side without disturbing each other or the caller.

Note [own states]: each loader has states of its own of the process's generators (torch's default CPU generator,
``random``, NumPy's global one) and of every generator that either loader holds. They are installed before the loader
does anything and taken out afterwards, so two loaders that share a generator both begin at the state it was found in.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

# How deep and how wide generators are looked for: deep enough for a sampler in a batch sampler or a transform in a
# Compose in a Subset, narrow enough to pass by lists of samples.
_MAX_DEPTH = 8
_MAX_ITEMS = 64


@dataclass(frozen=True)
class _Generator:
    """One generator: how its state is read and written."""

    get_state: Callable[[], Any]
    set_state: Callable[[Any], object]


_GLOBAL = (
    _Generator(torch.default_generator.get_state, torch.default_generator.set_state),
    _Generator(random.getstate, random.setstate),
    _Generator(np.random.get_state, np.random.set_state),
)


class Generators:
    """The generators that matter to some loaders, and the way to swap their states. See Note [own states].

    Args:
        owners: loaders; their generators are found in them, their samplers, data sets and transforms.
    """

    def __init__(self, owners: Iterable[object]) -> None:
        found: dict[int, _Generator] = {}
        for owner in owners:
            _collect(owner, found, set(), _MAX_DEPTH)
        self._generators = (*_GLOBAL, *found.values())

    def states(self) -> list[Any]:
        """A copy of the state of each generator."""
        return [generator.get_state() for generator in self._generators]

    def install(self, states: list[Any]) -> None:
        """Puts every generator where `states()` found it."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)

    def have_drawn_since(self, states: list[Any]) -> bool:
        """Whether one of them has given numbers since `states` were read."""
        return any(_key(now) != _key(then) for now, then in zip(self.states(), states, strict=True))

    @contextmanager
    def scratch(self, seed: int) -> Iterator[None]:
        """The process's generators seeded, for as long as it lasts; then everything is as it was."""
        before = self.states()
        try:
            seed_process(seed)
            yield
        finally:
            self.install(before)


class OwnStates:
    """One loader's states; `entered()` makes them the process's for as long as it lasts. See Note [own states].

    Begins where the generators are found, the process's ones seeded with `seed`.
    """

    def __init__(self, generators: Generators, seed: int) -> None:
        self._generators = generators
        with generators.scratch(seed):
            self._states = generators.states()

    def digests(self) -> list[bytes]:
        """A digest of each generator's present state."""
        return [hashlib.sha1(repr(_key(state)).encode()).digest() for state in self._states]

    @contextmanager
    def entered(self) -> Iterator[None]:
        outside = self._generators.states()
        self._generators.install(self._states)
        try:
            yield
        finally:
            self._states = self._generators.states()
            self._generators.install(outside)


def seed_process(seed: int) -> None:
    """Seeds torch's default CPU generator, ``random`` and NumPy's global generator."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _key(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return state.numpy().tobytes()
    if isinstance(state, np.ndarray):
        return state.tobytes()
    if isinstance(state, (tuple, list)):
        return [_key(part) for part in state]
    return {name: _key(part) for name, part in state.items()} if isinstance(state, dict) else state


def _collect(owner: object, found: dict[int, _Generator], seen: set[int], depth: int) -> None:
    """Adds the generators that `owner` holds, directly or in what it is made of."""
    if id(owner) in seen or depth == 0:
        return
    seen.add(id(owner))
    if (generator := _as_generator(owner)) is not None:
        found[id(owner)] = generator
        return
    for part in _parts(owner):
        _collect(part, found, seen, depth - 1)


def _as_generator(value: object) -> _Generator | None:
    if isinstance(value, torch.Generator):
        return _Generator(value.get_state, value.set_state)
    if isinstance(value, random.Random):
        return _Generator(value.getstate, value.setstate)
    if isinstance(value, np.random.RandomState):
        return _Generator(value.get_state, value.set_state)
    if isinstance(value, np.random.Generator):
        bits: Any = value.bit_generator
        return _Generator(lambda: bits.state, lambda state: setattr(bits, "state", state))
    return None


def _parts(owner: object) -> Iterable[object]:
    """What may hold generators: short lists, and attributes of loaders, samplers, data sets and transforms."""
    if isinstance(owner, (list, tuple)):
        return owner if len(owner) <= _MAX_ITEMS else ()
    if isinstance(owner, torch.nn.Module):
        return [*owner.children(), *vars(owner).values()]
    if isinstance(owner, (DataLoader, Sampler, Dataset)) or _is_plain_callable(owner):
        return list(vars(owner).values())
    return ()


def _is_plain_callable(value: object) -> bool:
    """An object of a class with ``__call__``, as transforms are; not a function, a class or a method."""
    return (
        callable(value)
        and not isinstance(value, type)
        and hasattr(value, "__dict__")
        and not hasattr(value, "__code__")
    )
