"""Random numbers of one thread's samples, drawn by native code and Python in turn."""

from __future__ import annotations

import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from fastload import _native
from fastload._workers._generators import WorkerGenerators, drawing
from fastload._workers._held_generators import seed_held
from fastload._workers._native_draws import GeneratorDraws
from fastload._workers._torch_draws import TakeGenerator


class RandomKey(NamedTuple):
    """What the random numbers of a batch depend on, beside its samples.

    Attributes:
        seed, epoch: Of its iteration.
        numbers: Of its samples as draws; none where an epoch has each sample once.
    """

    seed: int
    epoch: int
    numbers: Sequence[int] = ()

    def number(self, position: int) -> int | None:
        """That of the sample at a position of the batch."""
        return self.numbers[position] if self.numbers else None


class RandomStream(ABC):
    """The draws of one thread. Not thread-safe."""

    # Whether each sample's draws begin anew, so that the stream has to be told of each.
    begins_with_sample = True

    @abstractmethod
    def mode(self) -> AbstractContextManager[object]:
        """To be entered while Python draws."""

    @abstractmethod
    def take_generator(self) -> torch.Generator:
        """The generator that Python draws from."""

    @abstractmethod
    def begin_sample(self, key: RandomKey, sample: Any, number: int | None = None) -> None:
        """What is drawn next is for `sample`, as the sampler named it, and for its draw `number`, where it has one."""

    @abstractmethod
    def begin_batch(self, key: RandomKey, samples: Any) -> None:
        """What is drawn next is for the batch of `samples` as a whole."""

    @abstractmethod
    def native_draws(self) -> _native.DrawSource:
        """For native code, from where the stream is now. The stream does not move until `end_native_draws`."""

    @abstractmethod
    def end_native_draws(self) -> None:
        """The stream goes on behind what the last `native_draws` gave."""


class TorchStream(RandomStream):
    """torch's generator, sample after sample, as torch's worker with this generator would draw.

    Args:
        take_generator: Gives that generator, which is of the CPU.
        is_of_process: Whether it is what torch draws from by itself.
    """

    begins_with_sample = False

    def __init__(self, take_generator: TakeGenerator, *, is_of_process: bool) -> None:
        self._take_generator = take_generator
        self._mode: AbstractContextManager[object] = nullcontext() if is_of_process else drawing(take_generator)
        self._draws: GeneratorDraws | None = None

    def mode(self) -> AbstractContextManager[object]:
        return self._mode

    def take_generator(self) -> torch.Generator:
        return self._take_generator()

    def begin_sample(self, key: RandomKey, sample: Any, number: int | None = None) -> None:
        pass

    def begin_batch(self, key: RandomKey, samples: Any) -> None:
        pass

    def native_draws(self) -> _native.DrawSource:
        """Raises UnknownDrawsError: the installed torch draws in a way that native code does not know."""
        if self._draws is None:
            self._draws = GeneratorDraws()
        return self._draws.begin(self._take_generator())

    def end_native_draws(self) -> None:
        assert self._draws is not None, "native_draws comes first"
        self._draws.end(self._take_generator())


class SampleStream(RandomStream):
    """Draws that depend on (seed, epoch, sample) only, and where that may come again on the number of its draw.

    Native code draws from its counter. The generators that Python draws from are seeded for each sample, and for each
    batch when it is collated.

    Args:
        position: Of the first transform that runs in Python, in the user's pipeline.
        generators: Those of the worker.
        held: Those that its objects hold.
    """

    def __init__(self, position: int, generators: WorkerGenerators, held: Sequence[Any]) -> None:
        self._position = position
        self._generators = generators
        self._held = held
        self._mode = drawing(lambda: generators.torch)  # no method of this: they would keep each other
        self._counter = (0, 0, 0, 0)

    def mode(self) -> AbstractContextManager[object]:
        return self._mode

    def take_generator(self) -> torch.Generator:
        return self._generators.torch

    def begin_sample(self, key: RandomKey, sample: Any, number: int | None = None) -> None:
        index = _as_number(sample)
        if index is not None:
            self._counter = (key.seed, key.epoch, index, number or 0)
        name = _name([self._position, sample if index is None else index])
        self._seed(key, "sample", name + _text_of(() if number is None else (number,)))

    def begin_batch(self, key: RandomKey, samples: Any) -> None:
        name = _name(samples if isinstance(samples, Sequence) else [samples])
        self._seed(key, "batch", name + _text_of(key.numbers))

    def native_draws(self) -> _native.DrawSource:
        return _native.CounterDraws(*self._counter)

    def end_native_draws(self) -> None:
        pass

    def _seed(self, key: RandomKey, what: str, name: bytes) -> None:
        # A hash and no sum: sums of neighbouring samples and epochs would meet.
        of_epoch = np.array([key.seed, key.epoch], np.uint64).tobytes()
        digest = hashlib.blake2b(of_epoch + name, digest_size=8, person=what.encode())
        seed = int.from_bytes(digest.digest(), "little")
        self._generators.seed(seed)
        for number, generator in enumerate(self._held):
            seed_held(generator, seed, number)


def _text_of(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, np.uint32).tobytes()


def _as_number(sample: Any) -> int | None:
    """`sample` as a dataset index; None for keys of other kinds."""
    try:
        number = operator.index(sample)
    except TypeError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _name(samples: Sequence[Any]) -> bytes:
    """Bytes that tell these samples from others: of indices their 64 bits, of keys of other kinds their repr()."""
    numbers = [_as_number(sample) for sample in samples]
    if None not in numbers:
        return np.array(numbers, np.int64).tobytes()
    return repr(list(samples)).encode("utf-8", "backslashreplace")
