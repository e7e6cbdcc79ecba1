"""worker_init_fn, called in a thread, which has no random module and no NumPy generator of its own."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fastload._process._exit import LiveObjects
from fastload._threads._draw_mode import GeneratorMode
from fastload._threads._inherited import inheriting
from fastload._threads._torch_globals import WorkerGlobals, set_worker_globals, worker_info
from fastload._threads._worker_error import as_worker_raises


def init_native_workers(
    init_fn: Callable[[int], None], num_workers: int, base_seed: int, dataset: Any
) -> list[torch.Generator]:
    """Calls it for each worker of a loader whose threads run no Python, in a thread that ends with the call.

    Returns:
        The workers' generators, as it left them.

    Raises:
        Exception: What it raises, in torch's words.
    """
    generators = []
    for worker_id in range(num_workers):
        generator = torch.Generator().manual_seed((base_seed + worker_id) % 2**64)
        info = worker_info(worker_id, num_workers, base_seed + worker_id, dataset, generator)
        call = _Call(inheriting(init_fn), info, generator)
        call.start()
        call.join()
        if call.error is not None:
            raise as_worker_raises(call.error, worker_id)
        generators.append(generator)
    return generators


class _Call(threading.Thread):
    """A call as the worker that `info` tells of, whose generator is `generator`."""

    def __init__(self, init_fn: Callable[[int], None], info: Any, generator: torch.Generator) -> None:
        super().__init__(name=f"fastload-init-{info.id}", daemon=True)
        self._init_fn = init_fn
        self._info = info
        self._generator = generator
        self.error: BaseException | None = None

    def run(self) -> None:
        set_worker_globals(WorkerGlobals(lambda: self._info, lambda: self._generator))
        try:
            with GeneratorMode(lambda: self._generator):
                call_init_fn(self._init_fn, self._info.id)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller
            self.error = error


def call_init_fn(init_fn: Callable[[int], None], worker_id: int) -> None:
    """Calls it, puts back what it did to generators of the process, and warns of that.

    Called by one thread at a time, while the thread that iterates waits. Threads of other loaders may draw from these
    generators meanwhile: where they have work, nothing is put back, which would make them draw the same numbers again,
    and nobody is blamed.
    """
    work, before = _work(), _states()
    is_at_work = not all(task.is_done for task in work)
    try:
        init_fn(worker_id)
    finally:
        changed: list[str] = []
        if not is_at_work and work == _work():
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


# Whose threads run Python.
groups: LiveObjects[Any] = LiveObjects()


def _work() -> list[Any]:
    """What such threads were asked for and has not been taken. This loader's own have not been asked for anything."""
    return [task for group in groups.all() if group.is_running for task in tuple(group.pending)]


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
