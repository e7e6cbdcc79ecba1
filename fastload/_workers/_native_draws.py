"""How the installed torch turns random words into numbers, found by trying, so that native code draws the same numbers.

torch's CPU generator gives the same words everywhere, but builds differ in how they turn them into numbers:
``uniform_`` rounds once or twice and may or may not return its upper bound, and ``exp`` comes from one of several
mathematical libraries.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable
from typing import Any

import torch

from fastload import _native
from fastload._errors import StateError
from fastload._process._exit import exit_state
from fastload._process._forked_cache import forked_cache
from fastload._process._interrupts import equal_arrays
from fastload._resume._fields import decoded

_PROBED_SEEDS = 64
# Size of a generator as TorchDraws packs it: 624 words and two counters.
_PACKED_BYTES = 2504
_EXP_CHUNK = 1 << 18
_EXP_PROBES = 256
# Neighbours in float32: half of the draws are rounded up to the higher one.
_NARROW = (0.5, 0.5 + 2**-24)


class UnknownDrawsError(Exception):
    """The installed torch draws in a way that native code does not know. The text is a clause that says how."""


@functools.cache
def uniform_rule() -> _native.UniformRule:
    """Returns how ``uniform_`` of this torch rounds; checks the other draws, too. Raises UnknownDrawsError."""
    is_fused, excludes_to = _found_rule()
    return _native.UniformRule(is_fused=is_fused, excludes_to=excludes_to)


@forked_cache
def _found_rule() -> tuple[bool, bool]:
    for is_fused, excludes_to in itertools.product((True, False), repeat=2):
        rule = _native.UniformRule(is_fused=is_fused, excludes_to=excludes_to)
        if all(_draw_as_torch(seed, rule) for seed in range(_PROBED_SEEDS)):
            return is_fused, excludes_to
    raise UnknownDrawsError(f"torch {torch.__version__} draws in a way that is not known here")


def check_draws(path: str, text: Any) -> None:
    """Raises StateError, which names `path`, if `text` was not made by TorchDraws.text()."""
    _unpack(_native.TorchDraws(0, _native.UniformRule(is_fused=False, excludes_to=False)), path, text)


def saved_draws(text: str) -> _native.TorchDraws:
    """Returns native draws that continue from `text`, made by TorchDraws.text(). Raises as uniform_rule()."""
    draws = _native.TorchDraws(0, uniform_rule())
    _unpack(draws, "fastload.draws", text)
    return draws


def _unpack(draws: _native.TorchDraws, path: str, text: Any) -> None:
    data = decoded(path, text, _PACKED_BYTES)
    try:
        draws.unpack(data)
    except ValueError as error:
        raise StateError(path, f"is not the state of a generator: {error}") from None


def _draw_as_torch(seed: int, rule: _native.UniformRule) -> bool:
    """Returns whether native draws equal torch's from the same seed and leave the generator in the same state."""
    generator = torch.Generator().manual_seed(seed)
    draws = _native.TorchDraws(seed, rule)
    theirs = [
        float(torch.empty(1).uniform_(0.08, 1.0, generator=generator).item()),
        int(torch.randint(65535, (1,), generator=generator).item()),
        float(torch.rand(1, generator=generator).item()),
        torch.randperm(4, generator=generator).tolist(),
        float(torch.empty(1).uniform_(-0.28, 0.31, generator=generator).item()),
        int(torch.randint(14, (), generator=generator).item()),
        float(torch.empty(1).uniform_(*_NARROW, generator=generator).item()),
    ]
    ours: list[Any] = [draws.uniform(0.08, 1.0), draws.below(65535), draws.uniform(), draws.permutation(4)]
    ours += [draws.uniform(-0.28, 0.31), draws.below(14), draws.uniform(*_NARROW)]
    state = torch.Generator().manual_seed(seed).get_state().numpy()
    draws.store(state)
    return theirs == ours and equal_arrays(state, generator.get_state().numpy())


@functools.cache
def torch_exp(low: float, high: float) -> _native.TorchExp:
    """Returns torch.exp of each of the 2^24 numbers that ``uniform_(low, high)`` can draw. Takes about 0.3 s, once.

    Raises:
        UnknownDrawsError: torch.exp is off by more than one unit in the last place, or differs between one element and
            many.
    """
    return _native.TorchExp(low, high, uniform_rule(), _exp_corrections(low, high))


@forked_cache
def _exp_corrections(low: float, high: float) -> bytes:
    exp = _native.TorchExp(low, high, uniform_rule())
    exit_state.watch()
    for first in range(0, 1 << 24, _EXP_CHUNK):
        exit_state.sleep_if_begun()
        values = torch.exp(torch.from_numpy(exp.inputs(first, _EXP_CHUNK))).numpy()
        if not exp.add(first, values):
            raise UnknownDrawsError("torch.exp is not within one unit in the last place")
    for first in range(0, 1 << 24, (1 << 24) // _EXP_PROBES):
        number = torch.from_numpy(exp.inputs(first, 1))
        if exp.value(first) != torch.exp(number).item():
            raise UnknownDrawsError("torch.exp gives other numbers for one element than for many")
    return exp.corrections


def with_torch_exp(steps: Iterable[tuple[int, _native.Step]]) -> list[tuple[int, _native.Step]]:
    """Returns the steps of a plan, with torch's own exp in each step that draws a logarithm."""
    return [(position, step.with_torch_exp(torch_exp)) for position, step in steps]


class GeneratorDraws:
    """Native draws that continue a generator of torch. Not thread-safe. Raises UnknownDrawsError when made."""

    def __init__(self) -> None:
        self._draws = _native.TorchDraws(0, uniform_rule())
        self._state = torch.empty(0, dtype=torch.uint8)
        self._bytes = self._state.numpy()  # kept: each call makes a tensor, and freeing a tensor releases the GIL

    def begin(self, generator: torch.Generator) -> _native.DrawSource:
        """Returns native draws from the current state of `generator`, a CPU one. It does not advance until `end`."""
        self._state = generator.get_state()
        self._bytes = self._state.numpy()
        self._draws.load(self._bytes)
        return self._draws

    def end(self, generator: torch.Generator) -> None:
        """Advances `generator` past the numbers drawn since `begin`."""
        self._draws.store(self._bytes)
        generator.set_state(self._state)


class _ThisThread(threading.local):
    draws: GeneratorDraws | None = None


_this_thread = _ThisThread()


def thread_draws() -> GeneratorDraws:
    """Returns the calling thread's native draws. Raises UnknownDrawsError as GeneratorDraws does."""
    if _this_thread.draws is None:
        _this_thread.draws = GeneratorDraws()
    return _this_thread.draws


def thread_generator() -> torch.Generator:
    """Returns the generator from which torch draws in the calling thread."""
    own = _native.thread_generators()
    return torch.default_generator if own is None else own.torch
