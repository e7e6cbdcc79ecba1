"""A device that batches can be delivered to on a machine without one, for tests of the order of things.

Private. Nothing that is queued on it happens before a test says so, so whoever does not wait reads poison: see
csrc/device/emulated_device.h. Device memory and page-locked memory are memory of the process, given out by allocators
that use a block anew as soon as torch's would.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data._utils.pin_memory import pin_memory

from fastload import _native
from fastload._delivery._convert import convert
from fastload._delivery._device import PinnedMemory, moved, object_to

POISON = 0xCC


class _Block:
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


class _Allocator:
    """Blocks of one kind of memory. Thread-safe; blocks are let go of by finalizers, in any thread."""

    def __init__(self, backend: _native.EmulatedDevice) -> None:
        self._owner_pid = os.getpid()
        self._backend = backend
        self._lock = threading.RLock()  # a finalizer may run inside of this very code
        self._free: list[_Block] = []
        self._in_use: dict[int, _Block] = {}
        self.num_reused = 0

    def empty(self, shape: tuple[int, ...], home: int | None, dtype: torch.dtype, memory_format: Any) -> torch.Tensor:
        like = torch.empty(shape, dtype=dtype, memory_format=memory_format, device="meta")
        block = self._take(like.numel() * like.element_size(), home)
        owner = block.bytes.view(_Owned)
        weakref.finalize(owner, self._let_go, block).atexit = False
        flat = torch.from_numpy(owner)[: like.numel() * like.element_size()].view(dtype)
        return flat.as_strided(like.shape, like.stride())

    def _take(self, num_bytes: int, home: int | None) -> _Block:
        with self._lock:
            for block in self._free:
                is_of_size = block.bytes.nbytes == max(num_bytes, 1) and block.home == home
                if is_of_size and all(map(self._is_done, block.uses)):
                    self._free.remove(block)
                    self.num_reused += 1
                    break
            else:
                block = _Block(num_bytes, home)
            for event in block.uses:
                self._backend.destroy_event(event)
            block.uses = []
            block.streams = set()
            self._in_use[block.bytes.ctypes.data] = block
            return block

    def _is_done(self, event: int) -> bool:
        try:
            return self._backend.query_event(event)
        except RuntimeError:
            return False

    def _let_go(self, block: _Block) -> None:
        if os.getpid() != self._owner_pid:
            return  # a thread that has not come along may hold the lock
        with self._lock:
            del self._in_use[block.bytes.ctypes.data]
            try:
                block.uses += [recorded_event(self._backend, stream) for stream in block.streams]
            except RuntimeError:
                return  # of a fault that a test has made: it is not known when the memory is free
            self._free.append(block)

    def block_of(self, tensor: torch.Tensor) -> _Block | None:
        with self._lock:
            return self._in_use.get(tensor.untyped_storage().data_ptr())

    def bytes_in_use(self) -> int:
        with self._lock:
            return sum(block.bytes.nbytes for block in self._in_use.values())


class _Owned(np.ndarray[Any, Any]):
    """A view of a block that ends with the last tensor on it; plain arrays have no finalizers."""


class EmulatedDevice:
    """A fastload._delivery._device.Device whose streams are stepped by the test.

    Attributes:
        backend: The queues, to step and to make faults in.
        copy_stream: fastload's own.
        default_stream: Current where nothing else is said.
    """

    name = "emulated:0"

    def __init__(self) -> None:
        self.backend = _native.EmulatedDevice()
        self.default_stream = self.backend.create_stream()
        self.copy_stream = self.backend.create_stream()
        self._memory = _Allocator(self.backend)
        self._pinned_memory = _Allocator(self.backend)
        self.pinned = PinnedMemory(self._empty_pinned, self._pin)
        self._this_thread = threading.local()

    # ---- as a Device -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def on_copy_stream(self) -> Iterator[None]:
        with self.stream(self.copy_stream), _EmulatedTorch(self):
            yield

    def empty(self, *shape: int, **options: Any) -> torch.Tensor:
        return self._allocate(self._memory, shape, self.current_stream, **options)

    def convert(self, pixels: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
        raw = self._raw(pixels), self._raw(table), self._raw(out)
        self.launch(lambda: convert(raw[0], raw[1], out=raw[2]))

    def copy(self, host: torch.Tensor) -> torch.Tensor:
        """As torch's non_blocking copies: of pageable memory read at once, of page-locked memory when it is stepped."""
        if self._memory.block_of(host) is not None:
            return host
        out = self.empty(*host.shape, dtype=host.dtype, memory_format=_format_of(host))
        target = self._raw(out)
        block = self._pinned_memory.block_of(host)
        source = host.clone() if block is None else self._raw(host)
        self.launch(lambda: target.copy_(source))
        if block is not None:
            block.uses.append(recorded_event(self.backend, self.current_stream))
        return out

    def copy_object(self, value: Any) -> Any:
        with _EmulatedTorch(self):
            return object_to(value, self.name)

    def synchronize(self) -> None:
        self.backend.synchronize(self.current_stream)

    def recorded_event(self) -> int:
        return recorded_event(self.backend, self.copy_stream)

    def wait_event(self, event: int) -> None:
        self.backend.wait_event(self.current_stream, event)
        self.backend.destroy_event(event)

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        return self._memory.block_of(tensor) is not None

    def is_failure(self, error: RuntimeError) -> bool:
        return " failed: cuda" in str(error)

    def record_stream(self, holder: torch.Tensor) -> None:
        """When the tensor is let go of, its memory waits for what is queued on the current stream by then."""
        block = self._memory.block_of(holder)
        if block is not None and self.current_stream != block.home:
            block.streams.add(self.current_stream)

    def call(self, function: Callable[[Any], Any], batch: Any) -> Any:
        """`function`, with operations of torch that work at once, sees the batch as the copy stream has left it."""
        with self.on_copy_stream():
            self.backend.synchronize(self.copy_stream)
            return moved(function(batch), self)

    # ---- as torch.cuda, for the test -------------------------------------------------------------------------------

    @property
    def current_stream(self) -> int:
        """Of this thread."""
        return getattr(self._this_thread, "stream", self.default_stream)

    @contextlib.contextmanager
    def stream(self, stream: int) -> Iterator[None]:
        """In it `stream` is this thread's current one."""
        before, self._this_thread.stream = self.current_stream, stream
        try:
            yield
        finally:
            self._this_thread.stream = before

    def launch(self, kernel: Callable[[], Any]) -> None:
        """Queues `kernel` on the current stream. It must not refer to tensors, whose memory would be kept: see read."""
        self.backend.enqueue(self.current_stream, kernel)

    def read(self, tensor: torch.Tensor, use: Callable[[torch.Tensor], Any]) -> None:
        """Queues a kernel on the current stream that calls `use` with what lies in the tensor's memory by then."""
        raw = self._raw(tensor)
        self.launch(lambda: use(raw.clone()))

    @property
    def bytes_in_use(self) -> int:
        """Device memory of tensors that exist."""
        return self._memory.bytes_in_use()

    @property
    def num_reused(self) -> int:
        """How often device memory was given out anew."""
        return self._memory.num_reused

    # ---- memory ----------------------------------------------------------------------------------------------------

    def _allocate(
        self,
        allocator: _Allocator,
        shape: Any,
        home: int | None,
        dtype: torch.dtype = torch.float32,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> torch.Tensor:
        return allocator.empty(tuple(shape), home, dtype, memory_format)

    def _empty_pinned(self, shape: Any, **options: Any) -> torch.Tensor:
        return self._allocate(self._pinned_memory, shape, None, **options)

    def _pin(self, batch: Any, device: str | None) -> Any:
        with _EmulatedTorch(self):
            return pin_memory(batch, device)  # type: ignore[no-untyped-call]

    def pinned_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """As Tensor.pin_memory()."""
        return self._empty_pinned(tensor.shape, dtype=tensor.dtype, memory_format=_format_of(tensor)).copy_(tensor)

    def _raw(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor on the same memory that does not keep the allocator from using it anew."""
        block = self._memory.block_of(tensor) or self._pinned_memory.block_of(tensor)
        if block is None:
            return tensor
        num_bytes = block.bytes.nbytes // tensor.element_size() * tensor.element_size()
        flat = torch.from_numpy(block.bytes)[:num_bytes].view(tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class _EmulatedTorch(TorchFunctionMode):
    """In it Tensor.pin_memory() and Tensor.to() know the emulated device, in this thread."""

    def __init__(self, device: EmulatedDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            if function is torch.Tensor.pin_memory:
                return self._device.pinned_copy(args[0])
            if function is torch.Tensor.to and args[1] == self._device.name:
                return self._device.copy(args[0])
        return function(*args, **(kwargs or {}))


def _format_of(tensor: torch.Tensor) -> torch.memory_format:
    is_channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if is_channels_last and not tensor.is_contiguous() else torch.contiguous_format


def recorded_event(backend: _native.EmulatedDevice, stream: int) -> int:
    """A new event behind what is queued on `stream`."""
    event = backend.create_event()
    backend.record_event(event, stream)
    return event
