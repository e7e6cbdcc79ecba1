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
from numbered import Numbered
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


class Holder:
    """Keeps a generator and draws from it where it is called."""

    def __init__(self, generator: Any, draw: Callable[[Any], float]) -> None:
        self.generator, self.draw = generator, draw

    def __call__(self, _index: int) -> float:
        return self.draw(self.generator)


class Slotted:
    __slots__ = ("draw", "generator")

    def __init__(self, generator: Any, draw: Callable[[Any], float]) -> None:
        self.generator, self.draw = generator, draw

    def __call__(self, _index: int) -> float:
        return self.draw(self.generator)


def on_the_dataset(generator: Any, draw: Callable[[Any], float]) -> Any:
    class Data(Numbered):
        def __init__(self) -> None:
            super().__init__()
            self.generator = generator

        def sample(self, index: int) -> Any:
            return index, draw(self.generator)

    return Data()


def in_a_closure(generator: Any, draw: Callable[[Any], float]) -> Any:
    return Transformed(lambda _: draw(generator))


def in_a_default(generator: Any, draw: Callable[[Any], float]) -> Any:
    def transform(_index: int, generator: Any = generator) -> float:
        return draw(generator)

    return Transformed(transform)


def in_a_keyword_default(generator: Any, draw: Callable[[Any], float]) -> Any:
    def transform(_index: int, *, generator: Any = generator) -> float:
        return draw(generator)

    return Transformed(transform)


def in_a_partial(generator: Any, draw: Callable[[Any], float]) -> Any:
    return Transformed(functools.partial(lambda generator, _: draw(generator), generator))


def on_a_function(generator: Any, draw: Callable[[Any], float]) -> Any:
    def transform(_index: int) -> float:
        return draw(transform.generator)  # type: ignore[attr-defined]

    transform.generator = generator  # type: ignore[attr-defined]
    return Transformed(transform)


def in_slots(generator: Any, draw: Callable[[Any], float]) -> Any:
    return Transformed(Slotted(generator, draw))


def in_a_bound_method(generator: Any, draw: Callable[[Any], float]) -> Any:
    return Transformed(Holder(generator, draw).__call__)


def in_the_collate_function(generator: Any, draw: Callable[[Any], float]) -> Any:
    return Setting(Numbered(), {"collate_fn": lambda samples: (len(samples), draw(generator))})


def in_the_init_function(generator: Any, draw: Callable[[Any], float]) -> Any:
    def begin(worker_id: int) -> None:
        info = torch.utils.data.get_worker_info()
        info.dataset.noise = draw(generator) + worker_id

    data = Transformed(lambda index: index)
    data.transform = lambda _: getattr(data, "noise", -1.0)
    return Setting(data, {"worker_init_fn": begin})


PLACES = [
    on_the_dataset,
    in_a_closure,
    in_a_default,
    in_a_keyword_default,
    in_a_partial,
    on_a_function,
    in_slots,
    in_a_bound_method,
    in_the_collate_function,
    in_the_init_function,
]


def _add(kind: str, place: Callable[[Any, Any], Any]) -> None:
    make, draw = KINDS[kind]
    name = f"{kind} {place.__name__.replace('_', ' ')}"
    GENERATORS.add(name, f"the state of a {name}, which a worker has from the program", lambda: place(make(), draw))


# Enough pairs that every place comes with several kinds, and every kind with several places.
for _number, _place in enumerate(PLACES):
    for _offset in (0, 2):
        _add(list(KINDS)[(_number + _offset) % len(KINDS)], _place)


@GENERATORS.program
def a_random_state_on_a_generators_bits() -> Any:
    """Uses a RandomState and a Generator on one MT19937."""
    bits = np.random.MT19937(8)
    old, new = np.random.RandomState(bits), np.random.Generator(bits)
    return Transformed(lambda _: (old.rand(), new.random(), old.randn()))


@GENERATORS.program
def a_random_state_that_has_drawn() -> Any:
    """Uses a gauss value that the program's draw has left in the RandomState."""
    generator = np.random.RandomState(11)
    generator.randn(3)
    return Transformed(lambda _: generator.randn())


@GENERATORS.program
def methods_of_generators() -> Any:
    """Keeps bound methods of four generators, without the generators."""
    methods = [
        random.Random(1).random,
        np.random.default_rng(2).random,
        np.random.RandomState(3).rand,
        torch.Generator().manual_seed(4).get_state,
    ]
    return Transformed(lambda _: [torch.as_tensor(method()).double().sum().item() for method in methods])


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
def the_modules_functions_kept_by_name() -> Any:
    """Keeps random.random, np.random.rand and torch.rand in a namespace on the dataset."""
    kept = types.SimpleNamespace(python=random.random, numpy=np.random.rand, torch=torch.rand)
    return Transformed(lambda _: (kept.python(), kept.numpy(), kept.torch(1)))


@GENERATORS.program
def a_generator_of_the_system() -> Any:
    """Uses random.SystemRandom, which has no state: only the length of its draws is compared."""
    generator = secrets.SystemRandom()
    return Transformed(lambda _: 0.0 <= generator.random() < 1.0)


@GENERATORS.program
def the_hidden_generators_by_themselves() -> Any:
    """Holds random._inst and np.random.mtrand._rand, as other libraries do."""
    hidden, legacy = random._inst, np.random.mtrand._rand  # type: ignore[attr-defined]
    return Transformed(lambda _: (hidden.random(), hidden.gauss(0, 1), legacy.rand(), legacy.randn()))
