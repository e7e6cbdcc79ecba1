"""NumPy's generator, seeded as torch seeds it in a worker process."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils.data._utils import worker


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
