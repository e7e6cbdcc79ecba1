"""Random number generators held by the user's objects; rng="sample" seeds them for each sample."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from fastload._workers._seeding import bit_generator_of, seed_numpy

# Odd, so that generators of one sample get different seeds.
_STEP = 0x9E3779B97F4A7C15


def is_seedable(generator: Any) -> bool:
    """Returns whether seed_held() can seed a generator: it draws on the CPU, by its seed, in a way that is known."""
    if isinstance(generator, torch.Generator):
        return generator.device.type == "cpu"
    if isinstance(generator, random.Random):
        return not isinstance(generator, random.SystemRandom)
    return type(_bit_generator_of(generator)).__module__.startswith("numpy.random.")


def seed_held(generator: Any, seed: int, number: int) -> None:
    """Seeds `generator` in place.

    Args:
        generator: A random.Random, torch.Generator, or a generator or bit generator of NumPy.
        seed: The sample's seed, in [0, 2**64).
        number: The generator's index among all that the worker's objects hold.
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
