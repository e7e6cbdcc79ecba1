"""Copies of generators that cost less than a microsecond each, because a worker makes them behind every batch.

``random.Random.getstate()`` takes 10 us and ``numpy.random.RandomState.get_state()`` 50 us, nearly all of it to make
Python's ints of 624 words. The same words lie in the generators' memory, at places that are found by trying: where they
are not found, the slow calls are used.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fastload._process._interrupts import equal_arrays
from fastload._resume._held import state_of
from fastload._workers._seeding import bit_generator_of

# Gives the state as fastload._resume._held.state_of() does.
Copy = Callable[[], Any]

_NUM_WORDS = 624
_NUM_BYTES = 4 * (_NUM_WORDS + 1)
# A number that no object has by chance.
_GAUSS = 1.2345678901234567e-201


def copier_of(generator: Any) -> Callable[[], Copy]:
    """What copies a generator that is held, in the thread that draws from it."""
    if isinstance(generator, torch.Generator):
        # Not get_state(): the end of each tensor gives the GIL away.
        clone: Callable[[], torch.Generator] | None = getattr(generator, "clone_state", None)  # since torch 2.4
        return functools.partial(_copy, generator.get_state) if clone is None else lambda: clone().get_state
    if type(generator) is random.Random and (offset := _offset_of_random()) is not None:
        return functools.partial(_copy_random, id(generator) + offset, generator)
    is_numpys = type(generator) is np.random.RandomState and type(bit_generator_of(generator)) is np.random.MT19937
    if is_numpys and (offset := _offset_of_gauss()) is not None:
        address = bit_generator_of(generator).ctypes.state_address
        return functools.partial(_copy_numpy, address, id(generator) + offset, generator)
    return functools.partial(_copy, functools.partial(state_of, generator))


def _copy(read: Callable[[], Any]) -> Copy:
    state = read()
    return lambda: state


def _copy_random(address: int, generator: random.Random) -> Copy:
    data, gauss = ctypes.string_at(address, _NUM_BYTES), generator.gauss_next  # type: ignore[attr-defined]
    return lambda: (3, _placed_behind(data), gauss)


def _placed_behind(data: bytes) -> tuple[int, ...]:
    """Words and position as getstate() has them, of memory where the position comes first."""
    position, *words = np.frombuffer(data, np.uint32).tolist()
    return (*words, position)


def _copy_numpy(address: int, address_of_gauss: int, generator: np.random.RandomState) -> Copy:
    """`generator` is what has the memory."""
    data, gauss = ctypes.string_at(address, _NUM_BYTES), ctypes.string_at(address_of_gauss, 16)
    return lambda: _state_of_numpy(data, gauss)


def _state_of_numpy(data: bytes, gauss: bytes) -> tuple[Any, ...]:
    words = np.frombuffer(data, np.uint32)
    has_gauss, cached = struct.unpack("=i4xd", gauss)
    return "MT19937", words[:-1].copy(), int(words[-1]), has_gauss, cached if has_gauss else 0.0


@functools.cache
def _offset_of_random() -> int | None:
    """Where in a random.Random its position is, which its words follow; None: not where it is looked for."""
    probe = random.Random(5)
    probe.random()
    version, placed, _ = probe.getstate()
    words = np.array([placed[-1], *placed[:-1]], np.uint32).tobytes()
    offset = ctypes.string_at(id(probe), random.Random.__basicsize__).find(words)
    if version != 3 or offset < 0:
        return None
    for seed in (6, 7):
        other = random.Random(seed)
        other.gauss(0.0, 1.0)
        if _copy_random(id(other) + offset, other)() != other.getstate():
            return None
    return offset


@functools.cache
def _offset_of_gauss() -> int | None:
    """Where in a RandomState it is noted whether it has the second of a pair of normal numbers, which follows."""
    probe = np.random.RandomState(5)
    name, words, position, *_ = _placed(probe)
    probe.set_state((name, words, position, 1, _GAUSS))
    memory = ctypes.string_at(id(probe), np.random.RandomState.__basicsize__)
    offset = memory.find(struct.pack("=d", _GAUSS)) - 8
    if offset < 0:
        return None
    for draws in (1, 2):
        other = np.random.RandomState(draws)
        other.standard_normal(draws)
        address = bit_generator_of(other).ctypes.state_address
        mine, theirs = _copy_numpy(address, id(other) + offset, other)(), _placed(other)
        if mine[0] != theirs[0] or mine[2:] != theirs[2:] or not equal_arrays(mine[1], theirs[1]):
            return None
    return offset


def _placed(generator: np.random.RandomState) -> tuple[Any, ...]:
    state: Any = generator.get_state()
    return tuple(state)
