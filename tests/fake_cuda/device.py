"""fastload's own Device, at a fake GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from fake_cuda.gpu import FakeGpu
from fake_cuda.library import MAJOR
from fake_cuda.torch_cuda import FakeStream, FakeTorchCuda
from fastload import _native
from fastload._delivery._device import Device, PinnedMemory, moved


class FakeDevice(Device):
    """For DataLoader's `device`. Nothing happens on it before somebody steps its GPU.

    Its tensors are the host's to torch, which works on them at once. So what torch would know of their device is
    answered here, and what torch would queue on the current stream is queued here, or waits for it.

    Attributes:
        gpu: To step and to make faults in.
        cuda: Its torch.cuda.
    """

    def __init__(self) -> None:
        self.gpu = FakeGpu()
        self.cuda = FakeTorchCuda(self.gpu)
        backend = _native.open_cuda_device(MAJOR, self.gpu.number)
        pinned = PinnedMemory(self._empty_pinned, self._pin)
        super().__init__(backend, self.cuda.Stream(), pinned, self.cuda)  # type: ignore[arg-type]

    def _empty_pinned(self, shape: Any, **options: Any) -> torch.Tensor:
        return self.cuda.pinned_memory.empty(shape, None, **options)

    def _pin(self, batch: Any, device: str | None) -> Any:
        with self.cuda.tensors():
            return pin_memory(batch, device)  # type: ignore[no-untyped-call]

    # ---- what torch cannot do here ---------------------------------------------------------------------------------

    def convert(self, pixels: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
        raw = [self.cuda.raw(tensor) for tensor in (pixels, table, out)]
        self.launch(lambda: super(FakeDevice, self).convert(*raw))

    def called(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def called(batch: Any) -> Any:
            self.gpu.synchronize(self.copy_stream)
            return moved(function(batch), self.copy, self.copy_object)

        return called

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        return self.cuda.memory.block_of(tensor) is not None

    def record_stream(self, holder: torch.Tensor) -> None:
        """Makes the tensor's memory, once released, wait for the work then queued on the current stream."""
        block = self.cuda.memory.block_of(holder)
        if block is not None and self.current_stream != block.home:
            block.streams.add(self.current_stream)

    # ---- for the test ----------------------------------------------------------------------------------------------

    @property
    def current_stream(self) -> int:
        """The current stream of this thread."""
        return self.cuda.current_stream().cuda_stream

    @property
    def default_stream(self) -> int:
        """The stream that is current unless another is chosen."""
        return self.cuda.default_stream.cuda_stream

    def stream(self, stream: int) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which `stream` is this thread's current stream."""
        return self.cuda.stream(FakeStream(self.gpu, stream))

    def launch(self, kernel: Callable[[], Any]) -> None:
        """Queues `kernel` on the current stream. It must not refer to tensors, whose memory would be kept: see read."""
        self.gpu.enqueue(self.current_stream, kernel)

    def read(self, tensor: torch.Tensor, use: Callable[[torch.Tensor], Any]) -> None:
        """Queues a kernel on the current stream that calls `use` with what lies in the tensor's memory by then."""
        raw = self.cuda.raw(tensor)
        self.launch(lambda: use(raw.clone()))

    @property
    def bytes_in_use(self) -> int:
        """The device memory of living tensors, in bytes."""
        return self.cuda.memory.bytes_in_use()

    @property
    def num_reused(self) -> int:
        """How often device memory was given out anew."""
        return self.cuda.memory.num_reused
