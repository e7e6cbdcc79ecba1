"""States of random generators, so that two loaders can run side by side without disturbing each other or the caller.

Note [own states]: each loader has its own states for the process's generators (torch's default CPU generator,
``random``, NumPy's global one) and for every generator that either loader holds. They are installed before the loader
does anything and taken out afterwards, so two loaders that share a generator both begin at the state it was found in.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from fastload._resume._generators import set_state, state_of
from fastload._tools.verify._compare import fingerprint
from fastload._workers._walk import walk

_KINDS = (torch.Generator, random.Random, np.random.RandomState, np.random.Generator)
# The generators that the modules' own functions draw from.
_OF_PROCESS = (torch.default_generator, random._inst, np.random.mtrand._rand)


class Generators:
    """The generators in loaders, their samplers, data sets and transforms, and the way to swap their states.

    See Note [own states].
    """

    def __init__(self, owners: Iterable[object]) -> None:
        self._owned = {id(owner): _generators_in(owner) for owner in owners}
        found = itertools.chain(_OF_PROCESS, *self._owned.values())
        self._generators: list[Any] = list({id(generator): generator for generator in found}.values())

    def seeded(self, seed: int) -> list[Any]:
        """Returns the states in which a loader begins: as found, with the process's generators seeded."""
        found = self._states()
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        begin = self._states()
        self._install(found)
        return begin

    @contextmanager
    def swapped(self, states: list[Any]) -> Iterator[None]:
        """Installs `states` for the block. At its end, `states` are updated and the states from before restored."""
        outside = self._states()
        self._install(states)
        try:
            yield
        finally:
            states[:] = self._states()
            self._install(outside)

    def are_left_alike(self, old: object, old_states: list[Any], new: object, new_states: list[Any]) -> bool:
        """Returns whether two owners end with equal states of the process's generators and of their own.

        Their own generators are matched in the order in which they are found, because loaders from two scripts have
        different objects. If the owners hold different numbers of generators, only the shared ones are compared.
        """
        olds, news = self._owned[id(old)], self._owned[id(new)]
        if len(olds) != len(news):
            olds = news = [generator for generator in olds if any(generator is other for other in news)]
        left, right = self._states_of(olds, old_states), self._states_of(news, new_states)
        return fingerprint(left) == fingerprint(right)

    def _states_of(self, owned: list[object], states: list[Any]) -> list[Any]:
        places = {id(generator): place for place, generator in enumerate(self._generators)}
        return [states[places[id(generator)]] for generator in (*_OF_PROCESS, *owned)]

    @contextmanager
    def scratch(self) -> Iterator[Callable[[], bool]]:
        """Makes all draws in the block the same each time, and leaves no trace.

        Yields a function that says whether a generator has been used since.
        """
        begin = self.seeded(0)
        with self.swapped(begin):
            yield lambda: fingerprint(self._states()) != fingerprint(begin)

    def _states(self) -> list[Any]:
        return [state_of(generator) for generator in self._generators]

    def _install(self, states: list[Any]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            set_state(generator, state)


def _generators_in(owner: object) -> list[object]:
    """Returns the generators that an object holds, directly or in its parts; a loader's are those in its arguments."""
    if isinstance(owner, DataLoader):
        return _generators_in([value for name, value in vars(owner).items() if not name.startswith("_")])
    return [thing for _, thing in walk((owner,), ("",)) if isinstance(thing, _KINDS)]
