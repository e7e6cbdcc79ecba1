"""The common part of all makers of copies: their results, and what one worker's copies share.

A maker is called with a `Making` and the object, and returns one of `done`, `shell` and `when_copied`. The walk itself,
and Note [shells], are in csrc/python/object_copier.h.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

Made = tuple[Any, tuple[Any, ...], "Callable[[tuple[Any, ...]], Any] | None"]

# A larger array or tensor is shared, and so is each one that would bring the total of a worker's copies above this.
MAX_ARRAY_BYTES = 16 << 20
MAX_WORKER_BYTES = 64 << 20


def done(copy: Any) -> Made:
    """Makes a result with the finished copy, apart from __dict__ and slots. The source itself means: it is shared."""
    return copy, (), None


def shell(copy: Any, parts: tuple[Any, ...], finish: Callable[[tuple[Any, ...]], Any]) -> Made:
    """Makes a result with an empty copy, which others refer to at once.

    `finish` is called with the copies of `parts`, which may be shells themselves.
    """
    return copy, parts, finish


def when_copied(parts: tuple[Any, ...], finish: Callable[[tuple[Any, ...]], Any]) -> Made:
    """Makes a result without a copy: `finish` is called with the copies of `parts`, and returns it."""
    return None, parts, finish


class Making:
    """The common state of the makers of one worker's copies.

    Attributes:
        generators: The copies of generators, in the order of the walk.
        drawing: The generators that they are copies of.
        shared: (object, reason) of each object that a maker shares.
        deep_memo: The memo of copy.deepcopy(), for all that it copies.
        blocks: The memory that is copied.
        storages: The tensors' storages that are shared or have a copy, by address and size.
        locals: (copy, class, attributes) of each threading.local.
    """

    def __init__(self, is_shared_memory: Callable[[int], bool]) -> None:
        self.generators: list[Any] = []
        self.drawing: list[Any] = []
        self.shared: list[tuple[Any, str]] = []
        self.deep_memo: dict[int, Any] = {}
        self.blocks = Blocks()
        self.storages: dict[tuple[int, int], Any] = {}
        self.locals: list[tuple[Any, type, dict[str, Any]]] = []
        self.is_shared_memory = is_shared_memory
        self._num_bytes = 0

    def add_generator(self, source: Any, copy: Any) -> None:
        self.drawing.append(source)
        self.generators.append(copy)

    def share(self, source: Any, reason: str) -> Made:
        self.shared.append((source, reason))
        return done(source)

    def reserve(self, num_bytes: int) -> str | None:
        """Returns why this much memory is not copied; None: it is copied, and counts from now on."""
        if num_bytes > MAX_ARRAY_BYTES:
            return f"it has {num_bytes} bytes, more than {MAX_ARRAY_BYTES >> 20} MiB"
        if self._num_bytes + num_bytes > MAX_WORKER_BYTES:
            return f"a worker's copies of arrays and tensors have {MAX_WORKER_BYTES >> 20} MiB without it"
        self._num_bytes += num_bytes
        return None


class Blocks:
    """Memory that arrays and tensors of NumPy and torch may have in common, and where its copies are."""

    def __init__(self) -> None:
        self._begins: list[int] = []  # ascending; the blocks do not overlap
        self._copies: dict[int, tuple[int, Callable[[], Any]]] = {}

    def add(self, address: int, num_bytes: int, as_bytes: Callable[[], Any]) -> None:
        """Adds a block. `as_bytes` returns its copy as an array of uint8, which keeps it alive."""
        if num_bytes and address not in self._copies:
            bisect.insort(self._begins, address)
            self._copies[address] = num_bytes, as_bytes

    def find(self, address: int, num_bytes: int) -> Any | None:
        """Returns the copy of a range as an array of uint8; None if no block contains all of it."""
        at = bisect.bisect_right(self._begins, address) - 1
        if at < 0:
            return None
        begin = self._begins[at]
        size, as_bytes = self._copies[begin]
        if address + num_bytes > begin + size:
            return None
        return as_bytes()[address - begin : address - begin + num_bytes]
