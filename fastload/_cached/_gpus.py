"""Samples on a GPU: the threads that load them have their own streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from fastload._delivery._device import moved


class TorchGpus:
    """torch's GPUs; tests replace them."""

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "cuda"

    def synchronize(self, tensor: torch.Tensor) -> None:
        """Waits for the caller's current stream of the tensor's GPU."""
        torch.cuda.current_stream(tensor.device).synchronize()

    def record_stream(self, tensor: torch.Tensor) -> None:
        """Marks the tensor's memory as used by the caller's current stream."""
        tensor.record_stream(torch.cuda.current_stream(tensor.device))


GPUS = TorchGpus()


def finished(sample: Any, to: torch.device | None) -> Any:
    """Returns `sample` with its tensors on `to` after the GPU has finished them; None: where they are.

    It is kept for threads whose streams do not wait for the stream it was made on. So the host waits, once a sample.
    """
    for tensor in _tensors(sample):
        if GPUS.is_on_device(tensor):
            GPUS.synchronize(tensor)
    return on(sample, to)


def on(sample: Any, to: torch.device | None) -> Any:
    """Returns `sample` with its tensors on `to`, with all copies finished; None: where they are."""
    if to is None:
        return sample
    return moved(
        sample,
        lambda tensor: tensor.to(to),
        lambda value: value.to(to) if callable(getattr(value, "to", None)) else None,
    )


def _tensors(sample: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors that moved() finds."""
    waiting = [sample]
    seen: dict[int, Any] = {}  # by identity: a sample may contain one often, and itself
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)) and id(value) not in seen:
            seen[id(value)] = value
            waiting += value.values() if isinstance(value, Mapping) else value
