"""Memory of a fake GPU and of its host: memory of the process, given out anew as soon as torch's allocators would."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import numpy as np
import torch

from fake_cuda.gpu import POISON, FakeGpu


class Block:
    """Memory that is given out again and again.

    Attributes:
        home: The stream it was allocated on; None of page-locked memory.
        streams: Other streams that use it.
        uses: Events; when they are done it is not in use any more.
    """

    def __init__(self, num_bytes: int, home: int | None) -> None:
        self.bytes = np.full(max(num_bytes, 1), POISON, np.uint8)
        self.home = home
        self.streams: set[int] = set()
        self.uses: list[int] = []


class Allocator:
    """Blocks of one kind of memory. Thread-safe; blocks are let go of by finalizers, in any thread."""

    def __init__(self, gpu: FakeGpu) -> None:
        self._owner_pid = os.getpid()
        self._gpu = gpu
        self._lock = threading.RLock()  # a finalizer may run inside of this very code
        self._free: list[Block] = []
        self._in_use: dict[int, Block] = {}
        self.num_reused = 0

    def empty(
        self,
        shape: Any,
        home: int | None,
        dtype: torch.dtype = torch.float32,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> torch.Tensor:
        like = torch.empty(tuple(shape), dtype=dtype, memory_format=memory_format, device="meta")
        block = self._take(like.numel() * like.element_size(), home)
        owner = block.bytes.view(_Owned)
        weakref.finalize(owner, self._let_go, block).atexit = False
        flat = torch.from_numpy(owner)[: like.numel() * like.element_size()].view(dtype)
        return flat.as_strided(like.shape, like.stride())

    def empty_like(self, tensor: torch.Tensor, home: int | None) -> torch.Tensor:
        is_channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        is_dense = is_channels_last and not tensor.is_contiguous()
        memory_format = torch.channels_last if is_dense else torch.contiguous_format
        return self.empty(tensor.shape, home, tensor.dtype, memory_format)

    def _take(self, num_bytes: int, home: int | None) -> Block:
        with self._lock:
            for block in self._free:
                is_of_size = block.bytes.nbytes == max(num_bytes, 1) and block.home == home
                if is_of_size and all(map(self._is_done, block.uses)):
                    self._free.remove(block)
                    self.num_reused += 1
                    break
            else:
                block = Block(num_bytes, home)
            for event in block.uses:
                self._gpu.destroy_event(event)
            block.uses = []
            block.streams = set()
            self._in_use[block.bytes.ctypes.data] = block
            return block

    def _is_done(self, event: int) -> bool:
        try:
            return self._gpu.is_done(event)
        except RuntimeError:
            return False

    def _let_go(self, block: Block) -> None:
        if os.getpid() != self._owner_pid:
            return  # a thread that has not come along may hold the lock
        with self._lock:
            del self._in_use[block.bytes.ctypes.data]
            try:
                block.uses += [self._gpu.recorded_event(stream) for stream in block.streams]
            except RuntimeError:
                return  # of a fault that a test has made: it is not known when the memory is free
            self._free.append(block)

    def block_of(self, tensor: torch.Tensor) -> Block | None:
        with self._lock:
            return self._in_use.get(tensor.untyped_storage().data_ptr())

    def bytes_in_use(self) -> int:
        with self._lock:
            return sum(block.bytes.nbytes for block in self._in_use.values())


class _Owned(np.ndarray[Any, Any]):
    """A view of a block that ends with the last tensor on it; plain arrays have no finalizers."""


def on_block(tensor: torch.Tensor, block: Block) -> torch.Tensor:
    """Returns a tensor on the same memory that does not keep the allocator from reusing it."""
    num_bytes = block.bytes.nbytes // tensor.element_size() * tensor.element_size()
    flat = torch.from_numpy(block.bytes)[:num_bytes].view(tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
