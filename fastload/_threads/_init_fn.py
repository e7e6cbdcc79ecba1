"""worker_init_fn, called in a thread, which has no random module and no NumPy generator of its own."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def call_init_fn(init_fn: Callable[[int], None], worker_id: int) -> None:
    """Calls it, puts back what it did to generators of the process, and warns of that.

    Called by one thread at a time, while the thread that iterates waits.
    """
    before = _states()
    try:
        init_fn(worker_id)
    finally:
        changed = [name for name, is_same in _compare(before, _states()).items() if not is_same]
        _put_back(before)
    if changed:
        warnings.warn(
            f"worker_init_fn has changed {' and '.join(changed)}. Threads do not have one each, as worker processes "
            "do: it is the whole program's, so it was put back, and what the dataset draws from it does not depend on "
            "this seed. Draw with torch's functions, which are seeded for each worker, or from "
            "torch.utils.data.get_worker_info().rng.",
            stacklevel=2,
        )


def _states() -> tuple[Any, Any, torch.Tensor]:
    return random.getstate(), np.random.get_state(), torch.default_generator.get_state()


def _compare(before: tuple[Any, Any, torch.Tensor], after: tuple[Any, Any, torch.Tensor]) -> dict[str, bool]:
    return {
        "the generator of Python's random": before[0] == after[0],
        "NumPy's global generator": all(map(np.array_equal, before[1], after[1])),
        "torch's default generator": torch.equal(before[2], after[2]),
    }


def _put_back(states: tuple[Any, Any, torch.Tensor]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.default_generator.set_state(states[2])
