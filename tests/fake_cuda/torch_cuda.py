"""torch.cuda of a fake GPU: what fastload's Device and its tests use of it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fake_cuda.gpu import FakeGpu
from fake_cuda.memory import Allocator, on_block


def device_of(gpu: FakeGpu) -> torch.device:
    """Returns torch's device for the GPU; torch has room for 128 of them."""
    return torch.device("cuda", gpu.number % 128)


class FakeEvent:
    """Destroyed with the object, as torch's."""

    def __init__(self, gpu: FakeGpu, handle: int) -> None:
        self._gpu = gpu
        self._owner_pid = os.getpid()
        self.handle = handle

    def __del__(self) -> None:
        if os.getpid() == self._owner_pid:
            with contextlib.suppress(RuntimeError):  # of a fault that a test has made
                self._gpu.destroy_event(self.handle)


class FakeStream:
    """As torch.cuda.Stream."""

    def __init__(self, gpu: FakeGpu, handle: int) -> None:
        self._gpu = gpu
        self.device = device_of(gpu)
        self.cuda_stream = handle

    def record_event(self) -> FakeEvent:
        return FakeEvent(self._gpu, self._gpu.recorded_event(self.cuda_stream))

    def wait_event(self, event: FakeEvent) -> None:
        self._gpu.wait_event(self.cuda_stream, event.handle)

    def synchronize(self) -> None:
        self._gpu.synchronize(self.cuda_stream)


class FakeTorchCuda:
    """The torch.cuda of one GPU: streams are current in threads, tensors lie in its memory.

    Attributes:
        memory: The GPU's memory.
        pinned_memory: Page-locked memory of the host.
        default_stream: The stream that is current unless another is chosen.
        num_pinned: The number of tensors that were copied to page-locked memory.
    """

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.device = device_of(gpu)
        self.memory = Allocator(gpu)
        self.pinned_memory = Allocator(gpu)
        self.default_stream = self.Stream()
        self.num_pinned = 0
        self._this_thread = threading.local()

    def Stream(self) -> FakeStream:
        return FakeStream(self.gpu, self.gpu.create_stream())

    def current_stream(self, device: torch.device | None = None) -> FakeStream:
        """Returns the current stream of this thread."""
        assert device in (None, self.device)
        return getattr(self._this_thread, "stream", self.default_stream)

    @contextlib.contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        """Enters a context in which `stream` is this thread's current one, and torch knows the GPU."""
        before, self._this_thread.stream = self.current_stream(), stream
        try:
            with self.tensors():
                yield
        finally:
            self._this_thread.stream = before

    def tensors(self) -> TorchFunctionMode:
        """Returns a context in which torch.empty(), Tensor.to() and Tensor.pin_memory() of this thread know the GPU."""
        return _Tensors(self)

    # ---- tensors ---------------------------------------------------------------------------------------------------

    def empty(self, shape: Any, **options: Any) -> torch.Tensor:
        """Does what torch.empty does on a GPU."""
        return self.memory.empty(shape, self.current_stream().cuda_stream, **options)

    def copied(self, host: torch.Tensor) -> torch.Tensor:
        """Copies as torch does with non_blocking: reads pageable memory at once, page-locked memory when stepped."""
        if self.memory.block_of(host) is not None:
            return host
        stream = self.current_stream().cuda_stream
        out = self.memory.empty_like(host, stream)
        target = self.raw(out)
        block = self.pinned_memory.block_of(host)
        source = host.clone() if block is None else self.raw(host)
        self.gpu.enqueue(stream, lambda: target.copy_(source))
        if block is not None:
            block.uses.append(self.gpu.recorded_event(stream))
        return out

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """Does what Tensor.pin_memory() does: page-locked memory of the tensor's own, unless it is in such already."""
        if self.pinned_memory.block_of(tensor) is not None:
            return tensor
        self.num_pinned += 1
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        span = self.pinned_memory.empty((last + 1 if tensor.numel() else 0,), None, tensor.dtype)
        return span.as_strided(tensor.shape, tensor.stride()).copy_(tensor)

    def raw(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor on the same memory that does not keep the allocators from reusing it."""
        block = self.memory.block_of(tensor) or self.pinned_memory.block_of(tensor)
        return tensor if block is None else on_block(tensor, block)


class _Tensors(TorchFunctionMode):
    def __init__(self, cuda: FakeTorchCuda) -> None:
        super().__init__()
        self._cuda = cuda

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        with torch._C.DisableTorchFunction():
            if function is torch.Tensor.pin_memory:
                return self._cuda.pinned(args[0])
            if function is torch.Tensor.to and len(args) > 1 and self._is_ours(args[1]):
                return self._cuda.copied(args[0])
            if function is torch.empty and self._is_ours(kwargs.get("device")):
                del kwargs["device"]
                return self._cuda.empty(*args, **kwargs)
        return function(*args, **kwargs)

    def _is_ours(self, place: Any) -> bool:
        is_place = isinstance(place, (str, torch.device))
        return is_place and torch.device(place) == self._cuda.device
