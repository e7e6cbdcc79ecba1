"""The random numbers of one thread's samples, which native code and Python draw in turn."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastload._workers._generators import WorkerGenerators
from fastload._workers._seeding import seed_held


class RandomKey(NamedTuple):
    """The values that a batch's random numbers depend on, besides its samples.

    Attributes:
        seed, epoch: The seed and the epoch of its iteration.
        numbers: The samples' numbers as draws; empty if an epoch has each sample once.
        graph_seed: torch's seed of a data pipe, if workers that have begun get another; else None.
    """

    seed: int
    epoch: int
    numbers: Sequence[int] = ()
    graph_seed: int | None = None

    def number(self, position: int) -> int | None:
        """Returns the number of the sample at a position of the batch, if it has one."""
        return self.numbers[position] if self.numbers else None


class SampleNaming(NamedTuple):
    """The names by which the draws of rng="sample" know samples.

    Attributes:
        position: The position in the user's pipeline of the first transform that runs in Python.
        file_of: Returns the number of a sample's file; None: a sample is known by its index.
    """

    position: int = 0
    file_of: Callable[[int], int] | None = None

    def name_of(self, sample: Any) -> Any:
        return sample if self.file_of is None else self.file_of(operator.index(sample))


class RandomStream:
    """The draws of one thread, made sample after sample as torch makes them. Not thread-safe."""

    # Whether each sample's draws start anew, so that the stream must be told of each sample.
    begins_with_sample = False

    def begin_sample(self, key: RandomKey, sample: Any, number: int | None = None) -> None:
        """Starts the draws for `sample`, as the sampler named it, and for its draw `number`, if it has one."""

    def begin_batch(self, key: RandomKey, samples: Any) -> None:
        """Starts the draws for the batch of `samples` as a whole."""


class SampleStream(RandomStream):
    """Draws that depend only on (seed, epoch, sample), and on the draw's number if a sample may come more than once.

    Native code draws from the counter of the worker's generators. The generators that Python draws from, the worker's
    and those that its objects hold, are seeded for each sample, and for each batch when it is collated.
    """

    begins_with_sample = True

    def __init__(self, naming: SampleNaming, generators: WorkerGenerators, held: Sequence[Any]) -> None:
        self._naming = naming
        self._generators = generators
        self._held = held

    def begin_sample(self, key: RandomKey, sample: Any, number: int | None = None) -> None:
        sample = self._naming.name_of(sample)
        index = _as_number(sample)
        if index is not None:
            self._generators.counter = (key.seed, key.epoch, index, number or 0)
        name = _name([self._naming.position, sample if index is None else index])
        self._seed(key, "sample", name + _text_of(() if number is None else (number,)))

    def begin_batch(self, key: RandomKey, samples: Any) -> None:
        names = map(self._naming.name_of, samples if isinstance(samples, Sequence) else [samples])
        self._seed(key, "batch", _name(list(names)) + _text_of(key.numbers))

    def _seed(self, key: RandomKey, what: str, name: bytes) -> None:
        # A hash, not a sum: sums of neighbouring samples and epochs would be equal.
        of_epoch = np.array([key.seed, key.epoch], np.uint64).tobytes()
        digest = hashlib.blake2b(of_epoch + name, digest_size=8, person=what.encode())
        seed = int.from_bytes(digest.digest(), "little")
        self._generators.seed(seed)
        for number, generator in enumerate(self._held):
            seed_held(generator, seed, number)


def _text_of(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, np.uint32).tobytes()


def _as_number(sample: Any) -> int | None:
    """Returns `sample` as a dataset index; None for keys of other kinds."""
    try:
        number = operator.index(sample)
    except TypeError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _name(samples: Sequence[Any]) -> bytes:
    """Returns bytes that tell these samples from others: 64 bits per index, or the repr() of keys of other kinds."""
    numbers = [_as_number(sample) for sample in samples]
    if None not in numbers:
        return np.array(numbers, np.int64).tobytes()
    return repr(list(samples)).encode("utf-8", "backslashreplace")
