"""Where the samples of one thread draw their random numbers from, native code and Python alternating."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch

from fastload import _native, _torch_draws
from fastload._tail._draw_mode import GeneratorMode

# (seed, epoch) of an iteration.
RandomKey = tuple[int, int]


class RandomStream(ABC):
    """The draws of one thread. Not thread-safe."""

    @abstractmethod
    def mode(self) -> AbstractContextManager[object]:
        """To be entered while Python draws."""

    @abstractmethod
    def begin_sample(self, key: RandomKey, sample: int) -> None:
        """What is drawn next is for `sample`."""

    @abstractmethod
    def begin_collate(self, key: RandomKey, samples: Sequence[int]) -> None:
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
        generator: of the CPU.
        is_of_process: Whether it is what torch draws from by itself.
    """

    def __init__(self, generator: torch.Generator, *, is_of_process: bool) -> None:
        self._generator = generator
        self._mode: AbstractContextManager[object] = nullcontext() if is_of_process else GeneratorMode(generator)
        self._draws = _native.TorchDraws(0, is_fused=_torch_draws.uniform_is_fused())
        self._state = torch.empty(0, dtype=torch.uint8)

    def mode(self) -> AbstractContextManager[object]:
        return self._mode

    def begin_sample(self, key: RandomKey, sample: int) -> None:
        pass

    def begin_collate(self, key: RandomKey, samples: Sequence[int]) -> None:
        pass

    def native_draws(self) -> _native.DrawSource:
        self._state = self._generator.get_state()
        self._draws.load(self._state.numpy())
        return self._draws

    def end_native_draws(self) -> None:
        self._draws.store(self._state.numpy())
        self._generator.set_state(self._state)


class SampleStream(RandomStream):
    """Draws that depend on (seed, epoch, sample) only.

    Native code draws from its counter. Python gets a generator that is seeded for each sample, and for each batch when
    it is collated.

    Args:
        tail_position: Of the first transform that runs in Python, in the user's pipeline.
    """

    def __init__(self, tail_position: int) -> None:
        self._tail_position = tail_position
        self._generator = torch.Generator()
        self._mode = GeneratorMode(self._generator)
        self._counter = (0, 0, 0)

    def mode(self) -> AbstractContextManager[object]:
        return self._mode

    def begin_sample(self, key: RandomKey, sample: int) -> None:
        self._counter = (*key, sample)
        self._seed(key, "sample", [self._tail_position, sample])

    def begin_collate(self, key: RandomKey, samples: Sequence[int]) -> None:
        self._seed(key, "batch", samples)

    def native_draws(self) -> _native.DrawSource:
        return _native.CounterDraws(*self._counter)

    def end_native_draws(self) -> None:
        pass

    def _seed(self, key: RandomKey, what: str, numbers: Sequence[int]) -> None:
        # A hash and no sum: sums of neighbouring samples and epochs would meet.
        name = np.array([*key], np.uint64).tobytes() + np.array([*numbers], np.int64).tobytes()
        digest = hashlib.blake2b(name, digest_size=8, person=what.encode()).digest()
        self._generator.manual_seed(int.from_bytes(digest, "little"))
