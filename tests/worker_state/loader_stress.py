"""Loaders made, iterated over, dropped, closed and forked at random in several threads, while the program draws too.

Every whole epoch is compared with torch's, and in the end the program's generators, and the attributes of `random` and
`numpy.random`, are what they would be without any loader.
"""

from __future__ import annotations

import functools
import gc
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.utils.data
from both_loaders import Threads
from ended_workers import end_workers
from forked import in_fork
from numbered import Numbered
from torch.utils.data import IterableDataset

NUM_SAMPLES = 12
NUM_SEEDS = 3
# Held while the program draws arrays, and during forks: NumPy then holds a lock of its own, without the GIL, and a
# child that is forked meanwhile finds the lock held for ever, whichever thread draws.
_ARRAYS = threading.Lock()


class ThreeGenerators(Numbered):
    """Draws from the worker's generators."""

    def sample(self, index: int) -> Any:
        return index, random.gauss(0, 1), np.random.standard_normal(), float(torch.rand(())), np.random.rand(3)


class Arrays(Numbered):
    """Draws arrays, for which NumPy releases the GIL."""

    def sample(self, index: int) -> Any:
        return np.random.standard_normal(3001), np.random.permutation(50)


class Shards(IterableDataset[Any]):
    """A stream that gives its worker's part."""

    def __iter__(self) -> Any:
        info = torch.utils.data.get_worker_info()
        for number in range(5 + (0 if info is None else info.id)):
            yield number, random.choice("abcdef"), np.random.randint(1000)


class Nested(Numbered):
    """Makes a loader of its own for each sample."""

    def sample(self, index: int) -> Any:
        inner = Threads(
            Arrays(NUM_SAMPLES), batch_size=3, num_workers=1, generator=torch.Generator().manual_seed(index)
        )
        first = next(iter(inner))
        return random.random(), np.random.rand(), first[1].sum()


KINDS: dict[str, Callable[[], Any]] = {
    "three": functools.partial(ThreeGenerators, NUM_SAMPLES),
    "arrays": functools.partial(Arrays, NUM_SAMPLES),
    "shards": Shards,
}


def batches_of(kind: Any, name: str, num_workers: int, seed: int, **arguments: Any) -> list[Any]:
    return list(loader_of(kind, KINDS[name](), num_workers, seed, **arguments))


def loader_of(kind: Any, dataset: Any, num_workers: int, seed: int, **arguments: Any) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return kind(dataset, batch_size=4, num_workers=num_workers, generator=generator, **arguments)


@functools.cache
def expected_of(name: str, num_workers: int, seed: int) -> str:
    return str(batches_of(torch.utils.data.DataLoader, name, num_workers, seed))


def prepare() -> None:
    """Asks torch for all that is compared, before there are threads that a fork would lose."""
    torch.set_printoptions(precision=17, threshold=100_000)
    for name in KINDS:
        for num_workers in (1, 2):
            for seed in range(NUM_SEEDS):
                expected_of(name, num_workers, seed)


def _draws_of_a_child() -> tuple[float, float]:
    """Draws in a child at once, from where a generator of its own begins and without workers."""
    random.seed(3)
    np.random.seed(3)
    return random.random(), np.random.rand()


class _Actor(threading.Thread):
    """Does that many things with loaders. Each whole epoch must equal torch's."""

    def __init__(self, seed: int, num_actions: int) -> None:
        super().__init__()
        self._choose = random.Random(seed)
        self._num_actions = num_actions
        self.error: BaseException | None = None

    def run(self) -> None:
        actions = [self._iterate, self._iterate, self._persist, self._drop, self._close, self._fork, self._nest]
        try:
            for _ in range(self._num_actions):
                self._choose.choice(actions)()
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self.error = error

    def _what(self) -> tuple[str, int, int]:
        choose = self._choose
        return choose.choice(list(KINDS)), choose.choice([1, 2]), choose.randrange(NUM_SEEDS)

    def _iterate(self) -> None:
        what = self._what()
        found = str(batches_of(Threads, *what))
        assert found == expected_of(*what), f"{what}: {found}"

    def _persist(self) -> None:
        name, num_workers, seed = self._what()
        loader = loader_of(Threads, KINDS[name](), num_workers, seed, persistent_workers=True)
        assert str(list(loader)) == expected_of(name, num_workers, seed)
        for _ in zip(loader, range(self._choose.randrange(3)), strict=False):
            pass

    def _drop(self) -> None:
        name, num_workers, seed = self._what()
        iterator = iter(loader_of(Threads, KINDS[name](), num_workers, seed))
        for _ in range(self._choose.randrange(3)):
            next(iterator)

    def _close(self) -> None:
        name, num_workers, seed = self._what()
        loader = loader_of(Threads, KINDS[name](), num_workers, seed)
        iterator = iter(loader)
        for _ in range(self._choose.randrange(2)):
            next(iterator)
        loader.close()

    def _fork(self) -> None:
        with _ARRAYS:
            assert in_fork(_draws_of_a_child) == (random.Random(3).random(), np.random.RandomState(3).rand())

    def _nest(self) -> None:
        list(Threads(Nested(4), num_workers=1))


def assert_case(seed: int) -> None:
    """Runs one case. Raises AssertionError, or what a thread raised."""
    prepare()
    before = module_attributes()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    mine = random.Random(seed), np.random.RandomState(seed % 2**32)
    actors = [_Actor(1000 * seed + number, num_actions=4) for number in range(3)]
    for actor in actors:
        actor.start()
    while any(actor.is_alive() for actor in actors):
        assert random.gauss(0, 1) == mine[0].gauss(0, 1)
        with _ARRAYS:
            assert np.random.standard_normal() == mine[1].standard_normal()
        with _ARRAYS:
            assert np.array_equal(np.random.rand(100), mine[1].rand(100))
        time.sleep(0.0002)
    for actor in actors:
        if actor.error is not None:
            raise actor.error
    end_workers()
    assert random.getstate() == mine[0].getstate()
    assert str(np.random.get_state()) == str(mine[1].get_state())
    after = module_attributes()
    assert {name for name in before if before[name] is not after[name]} == set()
    num_kept = sum(type(item) in (ThreeGenerators, Arrays, Shards) for item in gc.get_objects())
    assert num_kept <= 20, f"{num_kept} data sets of loaders that have ended"


def module_attributes() -> dict[str, Any]:
    """Returns what the names in random and numpy.random stand for, and the hidden objects' classes."""
    hidden, legacy = random._inst, np.random.mtrand._rand  # type: ignore[attr-defined]
    homes = {"random": random, "random.Random": random.Random, "numpy.random": np.random, "mtrand": np.random.mtrand}
    return {
        **{f"{home}.{name}": value for home, owner in homes.items() for name, value in vars(owner).items()},
        **{f"attribute {name}": None for name in vars(hidden)},
        **{"class of random": type(hidden), "class of numpy": type(legacy), "bit generator": legacy._bit_generator},
    }
