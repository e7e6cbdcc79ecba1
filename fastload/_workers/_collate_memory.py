"""Memory for the batches that default_collate makes in workers, reused once the user has dropped them.

torch's workers write them into shared memory. Fresh memory costs a page fault for every 4 KiB, which takes longer than
writing the 4 KiB.
"""

from __future__ import annotations

from typing import Any

import torch

from fastload import _native

# Smaller tensors use torch's allocator: the system's allocator below it keeps their memory for the next one.
_MIN_BYTES = 1 << 18
# The system's allocator (glibc) returns memory to the system as soon as twice its threshold is free. It raises the
# threshold to the size of each mapping that it frees, up to 32 MiB, as happens when batches come from it.
_LARGEST_THRESHOLD = 31 << 20


class CollateMemory:
    """The memory of one iteration's batches, of which `max_batches` are in flight. Thread-safe."""

    def __init__(self, max_batches: int) -> None:
        self._max_free = max_batches + 2  # one at the consumer and one being freed
        self._pools: list[_native.BufferPool] = []  # by a tensor's index in its batch

    @property
    def bytes_held(self) -> int:
        """The bytes in use and the bytes kept for reuse."""
        return sum(pool.bytes_held for pool in tuple(self._pools))

    def allocate(self, number: int, size: int) -> _native.HostBuffer:
        """Returns `size` bytes for tensor `number` of its batch. Raises MemoryError."""
        if number >= len(self._pools):
            # Raises the threshold above, without which the samples of each batch would fault in fresh memory.
            torch.empty(min(size, _LARGEST_THRESHOLD), dtype=torch.uint8)
        while number >= len(self._pools):
            self._pools.append(_native.BufferPool(self._max_free))  # threads that run this at once add a few too many
        return self._pools[number].allocate(size)

    def storage(self, number: int, size: int) -> torch.UntypedStorage:
        """Returns the same as a storage."""
        return torch.frombuffer(self.allocate(number, size), dtype=torch.uint8).untyped_storage()


class WorkerMemory:
    """One worker's part of the memory. Not thread-safe."""

    def __init__(self, memory: CollateMemory) -> None:
        self._memory = memory
        self._num_taken = 0

    def begin_batch(self) -> None:
        self._num_taken = 0

    def buffer(self, size: int) -> _native.HostBuffer | None:
        """Returns `size` bytes, uninitialised, or None: there is no memory, or torch's allocator is to be used."""
        if size < _MIN_BYTES:
            return None
        try:
            buffer = self._memory.allocate(self._num_taken, size)
        except MemoryError:
            return None
        self._num_taken += 1
        return buffer

    def storage(self, kind: Any, size: int) -> Any:
        """Returns the same as a storage; one of torch's class `kind` if the memory does not come from here."""
        buffer = self.buffer(size) if kind is torch.UntypedStorage else None
        if buffer is None:
            return kind(size)  # finds memory, or raises torch's own error
        return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
