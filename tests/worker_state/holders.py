"""A module that has imported and kept random functions in the ways that programs do, before anything is exchanged."""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable
from random import getrandbits
from random import random as imported_random
from typing import Any

import numpy as np
from numpy.random import rand as imported_rand
from numpy.random import standard_normal

kept = random.random
kept_object = random._inst  # type: ignore[attr-defined]
table = {"draw": random.random, "integer": random.randint}
in_partial = functools.partial(random.randint, 0, 1 << 40)
call_by_name = operator.methodcaller("random")
unbound = random.Random.random


def as_default(draw: Callable[[], float] = random.random) -> float:
    return draw()


def in_closure(draw: Callable[[int], int] = random.getrandbits) -> Callable[[], int]:
    inner = draw
    return lambda: inner(33)


closed = in_closure()


class Holder:
    draw = random.random
    static = staticmethod(random.uniform)

    def __init__(self) -> None:
        self.draw_integer = random.randrange
        self.generator = random._inst  # type: ignore[attr-defined]

    def __call__(self) -> float:
        return self.generator.random() + self.draw_integer(10)


holder = Holder()


def state_round_trip() -> list[float]:
    state = random.getstate()
    first = [random.random(), random.gauss(0, 1), random.gauss(0, 1)]
    random.setstate(state)
    return [*first, random.random()]


def seeded_within() -> list[float]:
    """Draws and restores the state, as context managers of a temporary seed do."""
    state = random.getstate()
    random.seed(77)
    drawn = [random.random(), random.gauss(0, 1)]
    random.setstate(state)
    return drawn


WAYS: dict[str, Callable[[], Any]] = {
    "module attribute": lambda: random.random(),
    "imported by name": lambda: imported_random(),
    "kept": lambda: kept(),
    "in a dict": lambda: (table["draw"](), table["integer"](0, 9)),
    "in a partial": lambda: in_partial(),
    "a default argument": lambda: as_default(),
    "a closure": lambda: closed(),
    "a class attribute": lambda: Holder.draw(),
    "a static method": lambda: Holder.static(1.0, 5.0),
    "an object that holds methods": lambda: holder(),
    "the hidden object": lambda: kept_object.random(),
    "an unbound method": lambda: unbound(kept_object),
    "a method by name": lambda: call_by_name(kept_object),
    "map of the function itself": lambda: list(map(getrandbits, [3, 40, 70])),
    "getrandbits": lambda: getrandbits(70),
    "state and back": state_round_trip,
    "seeded within": seeded_within,
}


legacy_object: Any = np.random.mtrand._rand
kept_normal = np.random.normal
numpy_partial = functools.partial(np.random.randint, 0, 1000, size=5)


def numpy_round_trip() -> list[Any]:
    state = np.random.get_state()
    first = [np.random.rand(), standard_normal(), standard_normal(3)]
    np.random.set_state(state)
    return [*first, np.random.rand()]


def numpy_seeded_within() -> list[Any]:
    state = np.random.get_state()
    np.random.seed(78)
    drawn = [np.random.rand(), standard_normal()]
    np.random.set_state(state)
    return drawn


LEGACY: dict[str, Callable[[], Any]] = {
    "rand": lambda: np.random.rand(),
    "rand of a shape": lambda: np.random.rand(3, 4),
    "rand imported by name": lambda: imported_rand(2),
    "random_sample": lambda: np.random.random_sample(5),
    "random": lambda: np.random.random(),
    "uniform": lambda: np.random.uniform(-1, 3, 7),
    "randn": lambda: np.random.randn(),
    "randn odd": lambda: np.random.randn(3, 3),
    "standard_normal imported by name": lambda: standard_normal(),
    "standard_normal odd": lambda: standard_normal(5),
    "normal kept": lambda: kept_normal(2, 3),
    "normal odd": lambda: kept_normal(2, 3, 11),
    "long normal array": lambda: np.random.normal(size=50_001),
    "lognormal": lambda: np.random.lognormal(size=3),
    "randint": lambda: np.random.randint(1000),
    "randint of a shape": lambda: np.random.randint(0, 1 << 40, (4,), dtype=np.int64),
    "randint of bytes": lambda: np.random.randint(0, 256, 7, dtype=np.uint8),
    "randint of a partial": lambda: numpy_partial(),
    "tomaxint": lambda: np.random.mtrand._rand.tomaxint(3),
    "exponential": lambda: np.random.exponential(2.0, 3),
    "gamma": lambda: np.random.gamma(2.0, 1.5, 3),
    "standard_t": lambda: np.random.standard_t(3, 3),
    "multinomial": lambda: np.random.multinomial(9, [0.2, 0.3, 0.5]),
    "laplace": lambda: np.random.laplace(size=3),
    "zipf": lambda: np.random.zipf(2.5),
    "the object held elsewhere": lambda: legacy_object.rand(3),
    "a normal of the object": lambda: legacy_object.standard_normal(),
    "state and back": numpy_round_trip,
    "seeded within": numpy_seeded_within,
}
