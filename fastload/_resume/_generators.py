"""States of random generators, and their form in a saved state."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastload._errors import StateError
from fastload._resume._fields import Fields, decoded, encoded

_NUM_WORDS = 624
# torch's state of a CPU generator: seed (8 bytes), left (4), seeded (4), next (8), 624 words of 8 bytes each, of which
# the low half counts, then what normal distributions keep.
_HEAD, _TAIL_BEGIN, _TORCH_BYTES = 24, 24 + 8 * _NUM_WORDS, 5056
_PACKED_BYTES = _TORCH_BYTES - 4 * _NUM_WORDS
# random's and NumPy's: the words and their position.
_PLACED_BYTES = 4 * (_NUM_WORDS + 1)


def torch_text(state: torch.Tensor) -> str:
    """What torch.Generator.get_state() gives of a CPU generator, as a text of 3.4 kB."""
    array = state.numpy()
    words = array[_HEAD:_TAIL_BEGIN].view("<u8").astype("<u4")
    return encoded(array[:_HEAD].tobytes() + words.tobytes() + array[_TAIL_BEGIN:].tobytes())


def torch_state(path: str, text: Any) -> torch.Tensor:
    """What torch_text() was given. Raises StateError with `path`: it is none that a generator can go on from."""
    data = decoded(path, text, _PACKED_BYTES)
    left, seeded = (int.from_bytes(data[at : at + 4], "little", signed=True) for at in (8, 12))
    following = int.from_bytes(data[16:_HEAD], "little")
    is_placed = 1 <= left <= _NUM_WORDS and following <= _NUM_WORDS
    if seeded != 1 or not is_placed or left not in (1, _NUM_WORDS + 1 - following):
        raise StateError(path, f"is no state of a generator: {left} words are left and word {following} is next")
    array = np.zeros(_TORCH_BYTES, np.uint8)
    words_end = _HEAD + 4 * _NUM_WORDS
    array[:_HEAD] = np.frombuffer(data[:_HEAD], np.uint8)
    array[_HEAD:_TAIL_BEGIN] = np.frombuffer(data[_HEAD:words_end], "<u4").astype("<u8").view(np.uint8)
    array[_TAIL_BEGIN:] = np.frombuffer(data[words_end:], np.uint8)
    return torch.from_numpy(array)


@dataclass(frozen=True)
class ProgramStates:
    """The program's three generators: torch's default one, `random`'s and NumPy's.

    Attributes:
        numpy: None where the program has given NumPy another generator than its own, which is not kept.
    """

    torch: torch.Tensor
    python: tuple[Any, ...]
    numpy: tuple[Any, ...] | None

    @classmethod
    def now(cls) -> ProgramStates:
        numpy: Any = np.random.get_state()
        return cls(torch.get_rng_state(), random.getstate(), numpy if isinstance(numpy, tuple) else None)

    def set(self) -> None:
        torch.set_rng_state(self.torch)
        random.setstate(self.python)
        if self.numpy is not None:
            np.random.set_state(self.numpy)

    def as_dict(self) -> dict[str, Any]:
        state = {"torch": torch_text(self.torch), **python_dict(self.python)}
        return state if self.numpy is None else {**state, **numpy_dict(self.numpy)}

    @classmethod
    def parse(cls, fields: Fields) -> ProgramStates:
        """What as_dict() gave. Raises StateError."""
        torchs = torch_state(fields.path_of("torch"), fields.any("torch"))
        return cls(torchs, python_state(fields), numpy_state(fields) if "numpy" in fields else None)


def python_dict(state: tuple[Any, ...]) -> dict[str, Any]:
    """What random.getstate() gives, as a dict."""
    _, placed, gauss = state
    return {"random": encoded(np.array(placed, "<u4").tobytes()), "random_gauss": gauss}


def python_state(fields: Fields) -> tuple[Any, ...]:
    """What python_dict() was given. Raises StateError."""
    return 3, tuple(_placed_words(fields, "random").tolist()), fields.number_or_none("random_gauss")


def numpy_dict(state: tuple[Any, ...]) -> dict[str, Any]:
    """What numpy.random.get_state() gives of NumPy's own generator, as a dict."""
    _, words, position, has_gauss, cached = state
    text = encoded(np.append(words, np.uint32(position)).astype("<u4").tobytes())
    return {"numpy": text, "numpy_gauss": float(cached) if has_gauss else None}


def numpy_state(fields: Fields) -> tuple[Any, ...]:
    """What numpy_dict() was given. Raises StateError."""
    words, gauss = _placed_words(fields, "numpy"), fields.number_or_none("numpy_gauss")
    return "MT19937", words[:-1], int(words[-1]), int(gauss is not None), gauss or 0.0


def _placed_words(fields: Fields, name: str) -> NDArray[np.uint32]:
    words = np.frombuffer(fields.data(name, _PLACED_BYTES), "<u4").astype(np.uint32)
    if words[-1] > _NUM_WORDS:
        raise fields.error(name, f"is no state of a generator: its position must be at most 624, got {words[-1]}")
    return words


class ProgramReplay:
    """Lets code draw from generators of its own in the place of the program's three.

    Args:
        states: Where those begin; None: where the program's are now.
    """

    def __init__(self, states: ProgramStates | None = None) -> None:
        self._states = ProgramStates.now() if states is None else states

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """In it the program's generators are these; then they are where they were. May be entered again."""
        outer = ProgramStates.now()
        self._states.set()
        try:
            yield
        finally:
            self._states = ProgramStates.now()
            outer.set()
