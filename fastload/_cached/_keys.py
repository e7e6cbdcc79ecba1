"""The names of samples in a cache."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from typing import Any

Key = str | int | bytes


class SampleKeys:
    """The keys of one data set's samples.

    Args:
        dataset: The data set, whose ``get_cache_key`` is used without a `key`.
        key: A function of an index; None: ``get_cache_key``, or the index itself if there is none.
        parts: Further texts that are part of every name.
    """

    def __init__(self, dataset: Any, key: Callable[[Any], Key] | None, parts: tuple[str, ...]) -> None:
        self._key = key if key is not None else getattr(dataset, "get_cache_key", None)
        self._parts = parts
        self._length = -1
        if self._key is None:
            # The file that an index means changes with the number of files.
            self._length = _length_of(dataset)
            self._parts += (type(dataset).__module__, type(dataset).__qualname__, str(self._length))

    def of(self, index: Any) -> bytes:
        """Returns the key of one sample: 16 bytes, as good as random.

        Raises:
            TypeError: The key is not a str, an int or bytes.
        """
        name = self._name(index) if self._key is None else self._key(index)
        if not isinstance(name, (str, int, bytes)):
            raise TypeError(
                f"the key of sample {index!r} must be a str, an int or bytes, got {name!r} ({type(name).__name__}). "
                "Return one that names the sample from key= or get_cache_key()"
            )
        own = name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogatepass")
        hashed = hashlib.blake2b(digest_size=16)
        for part in (*(part.encode("utf-8", "surrogatepass") for part in self._parts), own):
            hashed.update(len(part).to_bytes(8, "big") + part)
        hashed.update(b"b" if isinstance(name, bytes) else b"i" if isinstance(name, int) else b"s")
        return hashed.digest()

    def _name(self, index: Any) -> Key:
        """Returns the name of an index; a negative one counts from the end, and names the same sample."""
        if isinstance(index, (str, bytes)):
            return index
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(
                f"sample {index!r} of the data set has no key: only ints, str and bytes name samples by themselves. "
                "Pass key=, a function that makes one of them of such an index"
            ) from None
        return number + self._length if -self._length <= number < 0 else number


def _length_of(dataset: Any) -> int:
    try:
        return len(dataset)
    except TypeError:
        return -1
