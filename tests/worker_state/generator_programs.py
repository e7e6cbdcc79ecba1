"""Programs whose generators are their own: kept wherever objects keep things."""

from __future__ import annotations

import functools
import random
import secrets
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from program import Chapter, Setting, Transformed

GENERATORS = Chapter()
KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], float]]] = {
    "random.Random": (lambda: random.Random(1), lambda generator: generator.random() + generator.gauss(0, 1)),
    "numpy Generator": (lambda: np.random.default_rng(2), lambda generator: float(generator.normal())),
    "RandomState": (lambda: np.random.RandomState(3), lambda generator: float(generator.randn() + generator.rand())),
    "torch.Generator": (
        lambda: torch.Generator().manual_seed(4),
        lambda generator: float(torch.rand(1, generator=generator)),
    ),
    "Philox": (
        lambda: np.random.Generator(np.random.Philox(5)),
        lambda generator: float(generator.random() + generator.integers(9)),
    ),
}


class Slotted:
    """Keeps a generator in a slot and draws from it where it is called."""

    __slots__ = ("draw", "generator")

    def __init__(self, generator: Any, draw: Callable[[Any], float]) -> None:
        self.generator, self.draw = generator, draw

    def __call__(self, _index: int) -> float:
        return self.draw(self.generator)


# Each place keeps two generators, one in each of two ways.


def in_a_closure_and_in_a_partial(one: Any, other: Any, draw: Callable[[Any], float]) -> Any:
    return Transformed(functools.partial(lambda kept, _: (draw(kept), draw(one)), other))


def in_defaults(one: Any, other: Any, draw: Callable[[Any], float]) -> Any:
    def transform(_index: int, one: Any = one, *, other: Any = other) -> Any:
        return draw(one), draw(other)

    return Transformed(transform)


def on_a_function_and_in_a_slot(one: Any, other: Any, draw: Callable[[Any], float]) -> Any:
    slotted = Slotted(other, draw)

    def transform(index: int) -> Any:
        return draw(transform.generator), slotted(index)  # type: ignore[attr-defined]

    transform.generator = one  # type: ignore[attr-defined]
    return Transformed(transform)


def on_the_dataset_and_in_a_bound_method(one: Any, other: Any, draw: Callable[[Any], float]) -> Any:
    bound = Slotted(other, draw).__call__
    data = Transformed(lambda index: (draw(data.generator), bound(index)), generator=one)
    return data


def in_the_loaders_functions(one: Any, other: Any, draw: Callable[[Any], float]) -> Any:
    def begin(worker_id: int) -> None:
        torch.utils.data.get_worker_info().dataset.noise = draw(one) + worker_id

    data = Transformed(lambda _: getattr(data, "noise", -1.0))
    return Setting(data, {"worker_init_fn": begin, "collate_fn": lambda samples: (samples, draw(other))})


PLACES = [
    in_a_closure_and_in_a_partial,
    in_defaults,
    on_a_function_and_in_a_slot,
    on_the_dataset_and_in_a_bound_method,
    in_the_loaders_functions,
]


def _add(kind: str, place: Callable[[Any, Any, Any], Any]) -> None:
    make, draw = KINDS[kind]
    name = f"{kind} {place.__name__.replace('_', ' ')}"
    about = f"the states of a {name}, which a worker has from the program"
    GENERATORS.add(name, about, lambda: place(make(), make(), draw))


# Every place comes with two kinds, and every kind with two places.
for _number, _place in enumerate(PLACES):
    for _offset in (0, 2):
        _add(list(KINDS)[(_number + _offset) % len(KINDS)], _place)


@GENERATORS.program
def a_random_state_on_a_generators_bits() -> Any:
    """Uses a RandomState and a Generator on one MT19937, with a gauss value that the program's draw has left."""
    bits = np.random.MT19937(8)
    old, new = np.random.RandomState(bits), np.random.Generator(bits)
    old.randn(3)
    return Transformed(lambda _: (old.rand(), new.random(), old.randn()))


@GENERATORS.program
def a_subclass_of_random() -> Any:
    """Uses a random.Random with attributes and a random() of its own."""

    class Counting(random.Random):
        def __init__(self, seed: int) -> None:
            super().__init__(seed)
            self.drawn = 0

        def random(self) -> float:
            self.drawn += 1
            return super().random()

    generator = Counting(12)
    return Transformed(lambda _: (generator.uniform(1, 2), generator.drawn))


@GENERATORS.program
def a_generator_of_generators() -> Any:
    """Uses a seed sequence that spawns a generator for each sample."""
    parent = np.random.default_rng(13)
    if not hasattr(parent, "spawn"):
        sequence = np.random.SeedSequence(13)
        return Transformed(lambda _: float(np.random.default_rng(sequence.spawn(1)[0]).random()))
    return Transformed(lambda _: float(parent.spawn(1)[0].random()))


@GENERATORS.program
def generators_that_the_program_draws_from_between_epochs() -> Any:
    """Draws in the program before each epoch, which fresh workers continue."""
    generator = random.Random(14)
    return Setting(
        Transformed(lambda _: generator.random()),
        before_epoch=lambda epoch: [generator.random() for _ in range(epoch)],
        after_epoch=lambda: generator.getstate()[1][:5],
    )


@GENERATORS.program
def generators_by_other_names() -> Any:
    """Uses methods without their generators, the modules' functions and hidden generators, and one of the system."""
    methods = [
        random.Random(1).random,
        np.random.default_rng(2).random,
        np.random.RandomState(3).rand,
        torch.Generator().manual_seed(4).get_state,
    ]
    kept = types.SimpleNamespace(python=random.random, numpy=np.random.rand, torch=torch.rand)
    hidden, legacy = random._inst, np.random.mtrand._rand  # type: ignore[attr-defined]
    system = secrets.SystemRandom()
    return Transformed(
        lambda _: (
            [torch.as_tensor(method()).double().sum().item() for method in methods],
            (kept.python(), kept.numpy(), kept.torch(1)),
            (hidden.random(), hidden.gauss(0, 1), legacy.rand(), legacy.randn()),
            0.0 <= system.random() < 1.0,
        )
    )
