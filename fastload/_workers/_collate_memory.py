"""Memory of the batches that default_collate makes in workers: used again when the user has dropped them.

torch's workers write them into memory that processes share. Fresh memory costs a page fault for every 4 KiB, which
takes longer than writing there does.
"""

from __future__ import annotations

from typing import Any

import torch

from fastload import _native

# Smaller tensors have the memory of torch's allocator, which the system's keeps for the next one.
_MIN_BYTES = 1 << 18
# The system's allocator (glibc) gives memory back as soon as twice its threshold is free, and raises that to the size
# of a mapping that is freed, up to 32 MiB: as it is freed where batches are its own.
_LARGEST_THRESHOLD = 31 << 20


class CollateMemory:
    """The memory of one iteration's batches. Thread-safe.

    Args:
        max_batches: So many may be under way.
    """

    def __init__(self, max_batches: int) -> None:
        self._max_free = max_batches + 2  # one at the consumer and one being let go of
        self._pools: list[_native.BufferPool] = []  # by the number of a tensor in its batch

    @property
    def bytes_held(self) -> int:
        """Of what is in use and what waits to be used again."""
        return sum(pool.bytes_held for pool in tuple(self._pools))

    def allocate(self, number: int, size: int) -> _native.HostBuffer:
        """`size` bytes for the tensor that is `number` in its batch. Raises MemoryError."""
        if number >= len(self._pools):
            torch.empty(min(size, _LARGEST_THRESHOLD), dtype=torch.uint8)  # else a batch's samples fault in each batch
        while number >= len(self._pools):
            self._pools.append(_native.BufferPool(self._max_free))  # threads that come here together add some more
        return self._pools[number].allocate(size)


class WorkerMemory:
    """What one worker takes of it. Not thread-safe."""

    def __init__(self, memory: CollateMemory) -> None:
        self._memory = memory
        self._num_taken = 0

    def begin_batch(self) -> None:
        self._num_taken = 0

    def buffer(self, size: int) -> _native.HostBuffer | None:
        """Uninitialised memory of `size` bytes; None where there is none, or where torch's allocator has it."""
        if size < _MIN_BYTES:
            return None
        try:
            buffer = self._memory.allocate(self._num_taken, size)
        except MemoryError:
            return None
        self._num_taken += 1
        return buffer

    def storage(self, kind: Any, size: int) -> Any:
        """The same as a storage, of torch's class `kind` where it is not taken from here."""
        buffer = self.buffer(size) if kind is torch.UntypedStorage else None
        if buffer is None:
            return kind(size)  # finds some, or says in torch's words that there is none
        return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
