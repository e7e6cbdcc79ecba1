"""How the installed torch seeds the three generators of a worker process."""

from __future__ import annotations

import functools
import inspect
import random
import re
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker

from fastload._process._interrupts import is_interrupt


@functools.cache
def seeds_numpy() -> bool:
    """Whether the installed torch seeds NumPy in its workers, too. Every supported version that was read does."""
    try:
        source = inspect.getsource(worker._worker_loop)
    except OSError as error:
        if is_interrupt(error):
            raise
        return True  # torch is there without its source
    return re.search(r"\b(np|numpy)\.random\.seed\(", source) is not None


def new_random(seed: int) -> random.Random:
    return random.Random(seed)


def new_numpy(base_seed: int, worker_id: int, of_process: np.random.RandomState) -> np.random.RandomState:
    """What a fork would leave of the process's, then seeded."""
    kind = type(bit_generator_of(of_process))
    state = np.random.RandomState(kind(0))
    # Seeding replaces all of a MT19937's. To ask for the process's takes its lock, which a fork meanwhile would keep.
    if not (seeds_numpy() and kind is np.random.MT19937):
        state.set_state(of_process.get_state(legacy=False))
    if seeds_numpy():
        seed_numpy(state, worker._generate_state(base_seed, worker_id))  # type: ignore[no-untyped-call]
    return state


def new_torch(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bit_generator_of(state: Any) -> Any:
    return state._bit_generator


def seed_numpy(state: np.random.RandomState, seed: Any) -> None:
    """Seeds it in place as ``numpy.random.seed(seed)`` does the process's."""
    bit_generator = bit_generator_of(state)
    if isinstance(bit_generator, np.random.MT19937):
        state.seed(seed)
    else:
        bit_generator.state = type(bit_generator)(seed).state
