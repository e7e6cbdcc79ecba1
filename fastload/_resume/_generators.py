"""States of random generators, the program's and those in the user's objects, and their form in a saved state."""

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
# torch's state of a CPU generator: seed (8 bytes), left (4), seeded (4), next (8), 624 words of 8 bytes each (only the
# low half counts), then values kept for normal distributions.
_HEAD, _TAIL_BEGIN, _TORCH_BYTES = 24, 24 + 8 * _NUM_WORDS, 5056
_PACKED_BYTES = _TORCH_BYTES - 4 * _NUM_WORDS
# The state of `random` and NumPy: the words and the position in them.
_PLACED_BYTES = 4 * (_NUM_WORDS + 1)
# NumPy's bit generators whose whole state is a few integers.
_COUNTED = ("PCG64", "PCG64DXSM")
_TEXT_BYTES = 32


def torch_text(state: torch.Tensor) -> str:
    """Returns the torch.Generator.get_state() of a CPU generator as a text of 3.4 kB."""
    array = state.numpy()
    words = array[_HEAD:_TAIL_BEGIN].view("<u8").astype("<u4")
    return encoded(array[:_HEAD].tobytes() + words.tobytes() + array[_TAIL_BEGIN:].tobytes())


def torch_state(path: str, text: Any) -> torch.Tensor:
    """Reads a text made by torch_text(). Raises StateError with `path` if no generator can continue from it."""
    data = decoded(path, text, _PACKED_BYTES)
    left, seeded = (int.from_bytes(data[at : at + 4], "little", signed=True) for at in (8, 12))
    following = int.from_bytes(data[16:_HEAD], "little")
    is_placed = 1 <= left <= _NUM_WORDS and following <= _NUM_WORDS
    if seeded != 1 or not is_placed or left not in (1, _NUM_WORDS + 1 - following):
        raise StateError(path, f"is not the state of a generator: {left} words are left and word {following} is next")
    array = np.zeros(_TORCH_BYTES, np.uint8)
    words_end = _HEAD + 4 * _NUM_WORDS
    array[:_HEAD] = np.frombuffer(data[:_HEAD], np.uint8)
    array[_HEAD:_TAIL_BEGIN] = np.frombuffer(data[_HEAD:words_end], "<u4").astype("<u8").view(np.uint8)
    array[_TAIL_BEGIN:] = np.frombuffer(data[words_end:], np.uint8)
    return torch.from_numpy(array)


@dataclass(frozen=True)
class ProgramStates:
    """States of the program's three generators: torch's default one, `random`'s and NumPy's.

    Attributes:
        numpy: None if the program has replaced NumPy's own generator; the replacement is not saved.
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
        """Reads a dict made by as_dict(). Raises StateError if it is not one."""
        torchs = torch_state(fields.path_of("torch"), fields.any("torch"))
        return cls(torchs, python_state(fields), numpy_state(fields) if "numpy" in fields else None)


def python_dict(state: tuple[Any, ...]) -> dict[str, Any]:
    """Returns the result of random.getstate() as a dict."""
    _, placed, gauss = state
    return {"random": encoded(np.array(placed, "<u4").tobytes()), "random_gauss": gauss}


def python_state(fields: Fields) -> tuple[Any, ...]:
    """Reads a dict made by python_dict(). Raises StateError if it is not one."""
    return 3, tuple(_placed_words(fields, "random").tolist()), fields.number_or_none("random_gauss")


def numpy_dict(state: tuple[Any, ...]) -> dict[str, Any]:
    """Returns the numpy.random.get_state() of NumPy's own generator as a dict."""
    _, words, position, has_gauss, cached = state
    text = encoded(np.append(words, np.uint32(position)).astype("<u4").tobytes())
    return {"numpy": text, "numpy_gauss": float(cached) if has_gauss else None}


def numpy_state(fields: Fields) -> tuple[Any, ...]:
    """Reads a dict made by numpy_dict(). Raises StateError if it is not one."""
    words, gauss = _placed_words(fields, "numpy"), fields.number_or_none("numpy_gauss")
    return "MT19937", words[:-1], int(words[-1]), int(gauss is not None), gauss or 0.0


def _placed_words(fields: Fields, name: str) -> NDArray[np.uint32]:
    words = np.frombuffer(fields.data(name, _PLACED_BYTES), "<u4").astype(np.uint32)
    if words[-1] > _NUM_WORDS:
        raise fields.error(name, f"is not the state of a generator: its position must be at most 624, got {words[-1]}")
    return words


class ProgramReplay:
    """Lets code draw from its own generators instead of the program's three.

    Args:
        states: Initial states of the generators; None: the current states of the program's generators.
    """

    def __init__(self, states: ProgramStates | None = None) -> None:
        self._states = ProgramStates.now() if states is None else states

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Sets the program's generators to these, and restores them at exit. It may be entered again."""
        outer = ProgramStates.now()
        self._states.set()
        try:
            yield
        finally:
            self._states = ProgramStates.now()
            outer.set()


def is_held(value: Any) -> bool:
    """Returns whether `value` is a generator whose state is saved: it is on the CPU and has exactly a known class."""
    if isinstance(value, torch.Generator):
        return value.device.type == "cpu"
    if type(value) is np.random.Generator:
        return type(value.bit_generator).__name__ in _COUNTED
    if type(value) is np.random.RandomState:
        return isinstance(value.get_state(), tuple)
    return type(value) is random.Random


def state_of(generator: Any) -> Any:
    """Returns the state of a held generator, for set_state()."""
    if isinstance(generator, np.random.Generator):
        return dict(generator.bit_generator.state)
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def generator_from(state: Any) -> Any:
    """Makes a new generator of a state's kind, in that state."""
    if isinstance(state, torch.Tensor):
        made: Any = torch.Generator()
    elif isinstance(state, tuple):
        made = random.Random(0) if state[0] == 3 else np.random.RandomState(0)
    else:
        made = np.random.Generator(getattr(np.random, state["bit_generator"])(0))
    set_state(made, state)
    return made


def fits(generator: Any, state: Any) -> bool:
    """Returns whether a state is for this kind of generator."""
    if isinstance(generator, np.random.Generator):
        return isinstance(state, dict) and state["bit_generator"] == type(generator.bit_generator).__name__
    if isinstance(generator, torch.Generator):
        return isinstance(state, torch.Tensor)
    name = "MT19937" if isinstance(generator, np.random.RandomState) else 3
    return isinstance(state, tuple) and state[0] == name


def as_saved(state: Any) -> Any:
    """Returns a state as a value that JSON can store."""
    if isinstance(state, torch.Tensor):
        return torch_text(state)
    if isinstance(state, tuple):
        return python_dict(state) if state[0] == 3 else numpy_dict(state)
    counters = b"".join(state["state"][name].to_bytes(16, "little") for name in ("state", "inc"))
    return {
        "bit_generator": state["bit_generator"],
        "counters": counters.hex(),
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def parsed(fields: Fields, name: str) -> Any:
    """Reads a value made by as_saved(). Raises StateError if it is not one."""
    value = fields.any(name)
    if isinstance(value, str):
        return torch_state(fields.path_of(name), value)
    inner = fields.dict(name)
    if "random" in inner:
        return python_state(inner)
    if "numpy" in inner:
        return numpy_state(inner)
    text = inner.text("counters")
    if len(text) != 2 * _TEXT_BYTES or set(text) - set("0123456789abcdef"):
        raise inner.error("counters", f"must be {_TEXT_BYTES} bytes in hexadecimal digits")
    data = bytes.fromhex(text)
    state, increment = (int.from_bytes(data[at : at + 16], "little") for at in (0, 16))
    return {
        "bit_generator": inner.choice("bit_generator", _COUNTED),
        "state": {"state": state, "inc": increment},
        "has_uint32": inner.whole("has_uint32", 2),
        "uinteger": inner.whole("uinteger", 2**32),
    }
