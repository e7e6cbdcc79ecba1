"""Seeds random number generators: NumPy's as torch seeds it in a worker, and those that the user's objects hold."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker

# Odd, so that generators of one sample get different seeds.
_STEP = 0x9E3779B97F4A7C15


def new_numpy(base_seed: int, worker_id: int, of_process: np.random.RandomState) -> np.random.RandomState:
    """Returns a copy of the process's RandomState, as a fork would make it, and seeds the copy."""
    kind = type(bit_generator_of(of_process))
    state = np.random.RandomState(kind(0))
    # Seeding replaces the whole state of an MT19937. Reading the process's state takes its lock, and a child forked
    # meanwhile would inherit the lock held.
    if kind is not np.random.MT19937:
        state.set_state(of_process.get_state(legacy=False))
    seed_numpy(state, worker._generate_state(base_seed, worker_id))  # type: ignore[no-untyped-call]
    return state


def bit_generator_of(state: Any) -> Any:
    return state._bit_generator


def seed_numpy(state: np.random.RandomState, seed: Any) -> None:
    """Seeds `state` in place, as ``numpy.random.seed(seed)`` seeds the process's."""
    bit_generator = bit_generator_of(state)
    if isinstance(bit_generator, np.random.MT19937):
        state.seed(seed)
    else:
        bit_generator.state = type(bit_generator)(seed).state


def seed_numpy_of_process(numbers: Sequence[int]) -> None:
    """Does what ``numpy.random.seed(numbers)`` does, without the 100 pages that a forked worker would copy for it.

    Python's generator makes the same words of a number, if the last of its 32-bit digits is not 0.
    """
    state = np.random.mtrand._rand
    bit_generator = bit_generator_of(state)
    is_known = isinstance(bit_generator, np.random.MT19937) and np.__version__ >= "2"
    if numbers[-1] == 0 or not is_known:
        seed_numpy(state, numbers)
        return
    whole = sum(number << 32 * place for place, number in enumerate(numbers))
    *words, position = random.Random(whole).getstate()[1]
    state.set_state(("MT19937", words, position, 0, 0.0))
    bit_generator.__setstate__((bit_generator.state, None))  # it has no SeedSequence any more


def is_seedable(generator: Any) -> bool:
    """Returns whether seed_held() can seed a generator: it draws on the CPU, by its seed, in a way that is known."""
    if isinstance(generator, torch.Generator):
        return generator.device.type == "cpu"
    if isinstance(generator, random.Random):
        return not isinstance(generator, random.SystemRandom)
    return type(_bit_generator_of(generator)).__module__.startswith("numpy.random.")


def seed_held(generator: Any, seed: int, number: int) -> None:
    """Seeds in place a generator that is_seedable() accepts; rng="sample" does it with the seed of each sample.

    `seed` is in [0, 2**64), and `number` is the generator's index among all that the worker's objects hold.
    """
    seed = (seed + _STEP * (number + 1)) % 2**64
    if isinstance(generator, random.Random):
        generator.seed(seed)
    elif isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, np.random.RandomState):
        seed_numpy(generator, seed & 0xFFFFFFFF)
    else:
        bit_generator = _bit_generator_of(generator)
        bit_generator.state = type(bit_generator)(seed).state


def _bit_generator_of(generator: Any) -> Any:
    if isinstance(generator, np.random.RandomState):
        return bit_generator_of(generator)
    return generator.bit_generator if isinstance(generator, np.random.Generator) else generator
