"""A worker's own generators of random numbers, and the context in which its thread draws from them."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager

import torch

from fastload import _native
from fastload._workers import _exchanges, _seeding


class WorkerGenerators(_native.ThreadGenerators):
    """The three generators of one worker, seeded as the installed torch seeds them in its worker process.

    Attributes:
        worker_seed: The seed of the worker's generators.
        random: A random.Random.
        numpy: A numpy.random.RandomState whose bit generator has the class of the process's.
        torch: A torch.Generator of the CPU.
        counter: Seed, epoch, file and number of the current sample, from which native code draws with rng="sample".
    """

    def __init__(self, base_seed: int, worker_id: int) -> None:
        self.worker_id, self.worker_seed = worker_id, base_seed + worker_id
        self.counter = (0, 0, 0, 0)
        super().__init__(
            random.Random(self.worker_seed),
            _seeding.new_numpy(base_seed, worker_id, _exchanges.process_numpy),
            torch.Generator().manual_seed(self.worker_seed),
        )

    def seed(self, seed: int) -> None:
        """Seeds all three in place, in 10 us, with a seed in [0, 2**64). Call it in the thread that draws from them.

        NumPy's takes 32 bits of it, since all 64 would take twice as long.
        """
        self.random.seed(seed)
        _seeding.seed_numpy(self.numpy, (seed ^ seed >> 32) & 0xFFFFFFFF)
        self.torch.manual_seed(seed)

    def entered(self) -> AbstractContextManager[None]:
        """Returns a context in which the calling thread draws from these. `exchanged()` must be held."""
        return _Entered(self)


def program_generators() -> _native.ThreadGenerators:
    """Returns the program's three generators."""
    return _native.ThreadGenerators(_exchanges.process_random, _exchanges.process_numpy, torch.default_generator)


class _Entered(AbstractContextManager[None]):
    def __init__(self, generators: WorkerGenerators) -> None:
        self._generators = generators

    def __enter__(self) -> None:
        self._before = _native.set_thread_generators(self._generators)

    def __exit__(self, *error: object) -> None:
        _native.set_thread_generators(self._before)
