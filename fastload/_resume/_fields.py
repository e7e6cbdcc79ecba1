"""The fields of a state that a program passes in; each is checked before it is used."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from fastload._errors import StateError

# Exclusive upper bound for integers in a state.
END = 2**64


class Fields:
    """A dict in a state. Each method returns one entry, or raises a StateError that names it.

    Args:
        values: The dict; any other value raises StateError.
        path: The path of the dict in the state, such as "fastload.sampler"; "" for the state itself.
    """

    def __init__(self, values: Any, path: str = "") -> None:
        self._path = path
        if not isinstance(values, dict):
            raise StateError(path or "state", f"must be a dict, got {_shown(values)}")
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def error(self, name: str, problem: str, next_step: str | None = None) -> StateError:
        return StateError(self.path_of(name), problem, next_step)

    def path_of(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def names(self) -> list[str]:
        """Returns the names of all entries. Raises StateError if one is not a str."""
        if wrong := [name for name in self._values if type(name) is not str]:
            raise self.error(_shown(wrong[0]), "is not a name: the keys must be str")
        return list(self._values)

    def shown(self, name: str) -> str:
        """Describes an entry, for a message."""
        return _shown(self.any(name))

    def any(self, name: str) -> Any:
        if name not in self._values:
            raise self.error(name, "is missing")
        return self._values[name]

    def dict(self, name: str) -> Fields:
        return Fields(self.any(name), self.path_of(name))

    def whole(self, name: str, end: int = END) -> int:
        """Returns an int in [0, end)."""
        value = self.any(name)
        if type(value) is not int or not 0 <= value < end:
            raise self.error(name, f"must be an int in [0, {end}), got {_shown(value)}")
        return value

    def whole_or_none(self, name: str, end: int = END) -> int | None:
        return None if self.any(name) is None else self.whole(name, end)

    def flag(self, name: str) -> bool:
        value = self.any(name)
        if type(value) is not bool:
            raise self.error(name, f"must be True or False, got {_shown(value)}")
        return value

    def number_or_none(self, name: str) -> float | None:
        value = self.any(name)
        if value is not None and type(value) is not float:
            raise self.error(name, f"must be a float or None, got {_shown(value)}")
        return value

    def choice(self, name: str, allowed: Sequence[Any]) -> Any:
        value = self.any(name)
        if not any(type(value) is type(known) and value == known for known in allowed):
            raise self.error(name, f"must be one of {', '.join(map(repr, allowed))}, got {_shown(value)}")
        return value

    def text(self, name: str) -> str:
        value = self.any(name)
        if type(value) is not str:
            raise self.error(name, f"must be a str, got {_shown(value)}")
        return value

    def texts(self, name: str) -> list[str]:
        values = self.any(name)
        if type(values) is not list or any(type(value) is not str for value in values):
            raise self.error(name, f"must be a list of str, got {_shown(values)}")
        return values

    def data(self, name: str, size_bytes: int) -> bytes:
        """Returns `size_bytes` bytes, decoded from base64."""
        return decoded(self.path_of(name), self.any(name), size_bytes)


def encoded(data: bytes) -> str:
    """Encodes `data` in base64."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decoded(path: str, text: Any, size_bytes: int) -> bytes:
    """Decodes `size_bytes` bytes from base64. Raises StateError if `text` is not base64 or has another length."""
    length = -(-size_bytes // 3) * 4
    if type(text) is not str or len(text) != length:
        found = f"a str of {len(text)}" if type(text) is str else _shown(text)
        raise StateError(path, f"must be base64 of {size_bytes} bytes, a str of {length} characters, got {found}")
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise StateError(path, f"is not base64: {error}") from None
    if len(data) != size_bytes:
        raise StateError(path, f"must be base64 of {size_bytes} bytes, got {len(data)}")
    return data


def _shown(value: Any) -> str:
    """Describes `value` with its type, in a line of bounded length; calls none of its methods."""
    kind = type(value)
    if kind in (int, float, bool, type(None)):
        shown = repr(value) if kind is not int or abs(value) < END * END else "an int of many digits"
        return f"{shown} of type {kind.__name__}"
    if kind is str:
        return repr(value if len(value) <= 60 else value[:60] + "...")
    return f"a {kind.__name__}"
