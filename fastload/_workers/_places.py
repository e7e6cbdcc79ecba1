"""Finds the random number generators that a worker's objects hold, by the paths that saved states name them with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fastload._errors import StateError
from fastload._resume._generators import fits, generator_from, is_held, set_state, state_of
from fastload._workers._seeding import is_seedable
from fastload._workers._user_code import NAMES, UserCode
from fastload._workers._walk import attributes_of, walk

# A data set may have many objects, and each worker looks again.
_MAX_AGAIN = 1_000
_GENERATORS = (random.Random, torch.Generator, np.random.Generator, np.random.RandomState, np.random.BitGenerator)


@dataclass
class _Place:
    """A place in the worker's objects that holds a generator."""

    generator: Any  # last found there
    namespace: dict[str, Any] | None  # the attributes of the instance that holds it; None: it is held in another way
    name: str  # its key there


class HeldGenerators:
    """The generators that a worker's objects hold. Only the worker's thread uses it.

    Attributes:
        paths: The paths of all generators.
        seedable: The generators that can be seeded, nearest first, as the first look found them.
        unread: Paths of generators left out of saved states: their kind has no known state, or a new one could not be
            put in their place.
    """

    def __init__(self, code: UserCode) -> None:
        self._roots = code.roots
        self.unread: tuple[str, ...] = ()
        self._places: dict[str, _Place] = {}
        self._namespaces: dict[str, dict[str, Any]] = {}  # attributes of instances, by the instances' paths
        found = self._find()
        self.paths = tuple(found)
        self.seedable = list(filter(is_seedable, found.values()))

    def find_more(self) -> None:
        """Looks at the nearest objects again, since user code may make generators with the first sample."""
        self.look_again()
        self._namespaces = {}

    def look_again(self) -> None:
        """Looks again as find_more() does, before restore()."""
        known, unread, namespaces = self._places, self.unread, self._namespaces
        self._find(_MAX_AGAIN)
        lost = [path for path, place in self._places.items() if path not in known and place.namespace is None]
        self.unread = tuple(dict.fromkeys((*unread, *self.unread, *lost)))
        self._places = known | {path: place for path, place in self._places.items() if path not in lost}
        self._namespaces = namespaces | self._namespaces

    def _find(self, *max_objects: int) -> dict[str, Any]:
        """Returns the generators by path."""
        self.unread, self._places, self._namespaces = (), {}, {}
        found = {}
        for path, thing in walk(self._roots, NAMES, *max_objects):
            if not issubclass(type(thing), _GENERATORS):
                if (attributes := attributes_of(thing)) is not None:
                    self._namespaces[path] = attributes
            elif not _is_of_process(thing):
                found[path] = thing
                if is_held(thing):
                    self._places[path] = self._place_of(path, thing)
                else:
                    self.unread += (path,)
        return found

    def _place_of(self, path: str, generator: Any) -> _Place:
        parent, _, name = path.rpartition(".")
        namespace = self._namespaces.get(parent)
        is_there = namespace is not None and namespace.get(name) is generator
        return _Place(generator, namespace if is_there else None, name)

    def states(self) -> dict[str, Any]:
        """Returns the current state of each generator by its path."""
        return {path: state_of(self._current(place)) for path, place in self._places.items()}

    def _current(self, place: _Place) -> Any:
        if place.namespace is not None:
            found = place.namespace.get(place.name)
            if found is not place.generator and is_held(found):
                place.generator = found
        return place.generator

    def restore(self, states: Mapping[str, Any], field: str) -> None:
        """Sets the generators to `states`. One that is not there yet is made and put where it was.

        Raises StateError, which names the path below `field`, if no object holds a generator of this kind there.
        """
        for path, state in states.items():
            place = self._places.get(path)
            if place is not None and fits(place.generator, state):
                continue
            namespace, name = self._parent_of(path)
            if place is not None or namespace is None or namespace.get(name) is not None:
                raise StateError(
                    f"{field}.{path}",
                    "is the state of a generator, and the worker's own objects hold none of that kind there",
                    "make data set, transforms and collate_fn as they were when the state was saved",
                )
        for path, state in states.items():
            if path in self._places:
                set_state(self._places[path].generator, state)
            else:
                namespace, name = self._parent_of(path)
                assert namespace is not None, "checked above"
                namespace[name] = generator_from(state)
                self._places[path] = _Place(namespace[name], namespace, name)

    def _parent_of(self, path: str) -> tuple[dict[str, Any] | None, str]:
        parent, _, name = path.rpartition(".")
        return (self._namespaces.get(parent) if name.isidentifier() else None), name


def _is_of_process(generator: Any) -> bool:
    """Returns whether it is one of the process's generators, which each worker has for itself in another way."""
    numpys = np.random.mtrand._rand
    return any(generator is each for each in (random._inst, numpys, numpys._bit_generator, torch.default_generator))
