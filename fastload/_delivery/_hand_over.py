"""The last steps of a batch on its way to the user: to the device, through device_transform, to the user's stream."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fastload._delivery._device import Device, PinnedMemory, moved
from fastload._delivery._device_errors import naming_batch
from fastload._delivery._thread_order import holders


@dataclass(frozen=True)
class Delivery:
    """Where batches of an iteration are delivered to.

    Attributes:
        pinned: Page-locked memory of the host.
        device: None: they stay on the host.
        prefetch: So many batches may be on their way to the device, or there, before they are asked for.
        transform: device_transform of the loader: called with each batch when it is handed over, in order, in the
            thread that asks for it.
    """

    pinned: PinnedMemory
    device: Device | None
    prefetch: int
    transform: Callable[[Any], Any] | None

    def on_copy_stream(self) -> contextlib.AbstractContextManager[Any]:
        """What is done to batches on the device before they are handed over is done in it."""
        return contextlib.nullcontext() if self.device is None else self.device.on_copy_stream()

    def naming(self, batch: Any, number: int) -> contextlib.AbstractContextManager[Any]:
        """What fails on the device in it is a DeviceError; `number` counts the batches of an epoch."""
        if self.device is None:
            return contextlib.nullcontext()
        return naming_batch(self.device, number, lambda: _num_bytes(batch))

    def move(self, batch: Any, number: int) -> Any:
        """Queues the copies of `batch` to the device. From there on memory that nothing else refers to is kept.

        Raises:
            DeviceError: It failed.
        """
        if self.device is None:
            return batch
        with self.naming(batch, number), self.on_copy_stream():
            return moved(batch, self.device)

    def hand_over(self, given: Iterator[Any], hand: list[Any]) -> None:
        """Appends what device_transform makes of the batch that `given` has, which is on the device.

        Once the user's function has got the batch, `given` is empty, whatever comes of it.
        """
        if self.transform is None:
            hand.extend(given)
            return
        with self.on_copy_stream():
            hand.extend(map(self._called(), given))
        if not hand:
            raise RuntimeError("device_transform raised StopIteration, which would end the epoch without a word")

    def _called(self) -> Callable[[Any], Any]:
        assert self.transform is not None, "there is a transform"
        return self.transform if self.device is None else self.device.called(self.transform)

    def follow(self, batch: Any, number: int) -> None:
        """Orders what the caller's current stream does behind `batch`, which the user gets: Note [device order].

        Raises:
            DeviceError: The device failed.
        """
        if self.device is None:
            return
        with self.naming(batch, number):
            self.device.wait_event(self.device.recorded_event())
            for holder in holders(batch, self.device.is_on_device):
                self.device.record_stream(holder)


def _num_bytes(batch: Any) -> int:
    """Of the tensors in `batch`."""
    tensors = [tensor for tensor in holders(batch, lambda _: True) if isinstance(tensor, torch.Tensor)]
    return sum(tensor.nbytes for tensor in tensors if tensor.layout is torch.strided)
