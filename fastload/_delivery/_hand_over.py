"""The last steps of a batch on its way to the user: to the device, through device_transform, to the user's stream."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from fastload._delivery._device import Device, PinnedMemory, moved
from fastload._delivery._thread_order import holders


class Pinning(NamedTuple):
    """How Python's batches come into page-locked memory. Worker threads keep it, so it must not refer to the iterator.

    Attributes:
        memory: The page-locked memory.
        pin: Returns a batch with its tensors there. A tensor that is there already stays.
    """

    memory: PinnedMemory
    pin: Callable[[Any], Any]


@dataclass(frozen=True)
class Delivery:
    """The destination of an iteration's batches.

    Attributes:
        pinned: Page-locked memory of the host.
        device: The device; None: batches stay on the host.
        prefetch: Number of batches that may be on the device, or on their way, before they are requested.
        transform: The loader's device_transform, called with each batch at hand-over, in order, in the thread that
            requests the batch.
    """

    pinned: PinnedMemory
    device: Device | None
    prefetch: int
    transform: Callable[[Any], Any] | None

    def on_copy_stream(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which batches are prepared on the device before hand-over."""
        return contextlib.nullcontext() if self.device is None else self.device.on_copy_stream()

    def pinning(self, pins: bool, pin_device: str | None) -> Pinning | None:
        """Returns how Python's batches are pinned, given torch's arguments; None: they stay in pageable memory."""
        if self.device is not None:
            return Pinning(self.pinned, self.pinned.pin_host_tensors)
        return Pinning(self.pinned, functools.partial(self.pinned.pin, device=pin_device)) if pins else None

    def naming(self, batch: Any, number: int) -> contextlib.AbstractContextManager[Any]:
        """Returns a context that turns device failures into DeviceErrors; `number` counts the batches of an epoch."""
        if self.device is None:
            return contextlib.nullcontext()
        return self.device.naming_batch(number, lambda: _num_bytes(batch))

    def move(self, batch: Any, number: int) -> Any:
        """Queues the copies of `batch` to the device. Memory that only the copies need is kept until they end.

        Raises DeviceError if a copy failed.
        """
        if self.device is None:
            return batch
        with self.naming(batch, number), self.on_copy_stream():
            return moved(batch, self.device.copy, self.device.copy_object)

    def hand_over(self, given: Iterator[Any], ready: list[Any]) -> None:
        """Appends the result of device_transform for the batch that `given` yields, which is on the device.

        Once the user's function has the batch, `given` is empty, whatever happens then.
        """
        if self.transform is None:
            ready.extend(given)
            return
        with self.on_copy_stream():
            transform = self.transform if self.device is None else self.device.called(self.transform)
            ready.extend(map(transform, given))
        if not ready:
            raise RuntimeError("device_transform raised StopIteration, which would end the epoch silently")

    def follow(self, batch: Any, number: int) -> None:
        """Makes later work on the caller's current stream wait for `batch`, as Note [device order] says.

        Raises DeviceError if the device failed.
        """
        if self.device is None:
            return
        with self.naming(batch, number):
            self.device.wait_event(self.device.recorded_event())
            for holder in holders(batch, self.device.is_on_device):
                self.device.record_stream(holder)


def _num_bytes(batch: Any) -> int:
    """Returns the size of the tensors in `batch`."""
    tensors = [tensor for tensor in holders(batch, lambda _: True) if isinstance(tensor, torch.Tensor)]
    return sum(tensor.nbytes for tensor in tensors if tensor.layout is torch.strided)
