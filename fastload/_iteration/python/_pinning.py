"""Page-locked memory for batches that Python makes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from fastload._delivery._device import PinnedMemory
from fastload._delivery._hand_over import Delivery
from fastload._iteration._maker import TorchValues


class Pinning:
    """Brings batches into page-locked memory. Worker threads keep it, so it must not refer to the iterator.

    Args:
        memory: The page-locked memory.
        pin: Returns a batch with its tensors there. A tensor that is there already stays.
    """

    def __init__(self, memory: PinnedMemory, pin: Callable[[Any], Any]) -> None:
        self._memory, self._pin = memory, pin

    def __call__(self, batch: Any) -> Any:
        return self._pin(batch)

    def storage(self, size: int) -> torch.UntypedStorage:
        """Returns `size` bytes, uninitialised, for a tensor of a batch that is pinned afterwards."""
        return self._memory.empty(size, dtype=torch.uint8).untyped_storage()


def pinning_of(delivery: Delivery, values: TorchValues) -> Pinning | None:
    """Returns what pins the batches; None: batches stay in pageable memory."""
    pinned = delivery.pinned
    if delivery.device is not None:
        return Pinning(pinned, pinned.pin_host_tensors)
    return Pinning(pinned, functools.partial(pinned.pin, device=values.pin_device)) if values.pins else None
