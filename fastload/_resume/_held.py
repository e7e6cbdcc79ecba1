"""States of generators in the user's objects, and their form in a saved state: torch's, `random`'s and NumPy's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from fastload._resume._fields import Fields
from fastload._resume._generators import (
    numpy_dict,
    numpy_state,
    python_dict,
    python_state,
    torch_state,
    torch_text,
)

# NumPy's bit generators whose whole state is a few integers.
_COUNTED = ("PCG64", "PCG64DXSM")
_TEXT_BYTES = 32


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
