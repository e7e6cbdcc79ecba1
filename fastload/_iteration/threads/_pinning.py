"""Page-locked memory for batches that Python makes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fastload._delivery._hand_over import Delivery
from fastload._iteration._maker import TorchValues


def pin_of(delivery: Delivery, values: TorchValues) -> Callable[[Any], Any] | None:
    """Returns a function that brings a batch into page-locked memory; None: batches stay in pageable memory.

    Worker threads keep the function, so it must not refer to the iterator.
    """
    if delivery.device is not None:
        return delivery.pinned.pin_host_tensors
    return functools.partial(delivery.pinned.pin, device=values.pin_device) if values.pins else None
