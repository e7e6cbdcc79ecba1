"""Samples that lie on a GPU: the threads that load them have streams of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from fastload._delivery._device import moved


class Gpus(Protocol):
    """What is asked of GPUs; tests have others."""

    def is_on_device(self, tensor: torch.Tensor, /) -> bool: ...
    def synchronize(self, tensor: torch.Tensor, /) -> None:
        """Waits for the caller's current stream of the tensor's GPU."""

    def record_stream(self, tensor: torch.Tensor, /) -> None:
        """Memory of the tensor is in use by the caller's current stream."""


class TorchGpus:
    """Those of torch."""

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "cuda"

    def synchronize(self, tensor: torch.Tensor) -> None:
        torch.cuda.current_stream(tensor.device).synchronize()

    def record_stream(self, tensor: torch.Tensor) -> None:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))


GPUS: Gpus = TorchGpus()


def finished(sample: Any, to: torch.device | None) -> Any:
    """`sample` when all that its GPU was asked for is done, with its tensors on `to`; None: where they are.

    It is kept for threads whose streams know nothing of the one it was made on. So the host waits, once a sample.
    """
    for tensor in _tensors(sample):
        if GPUS.is_on_device(tensor):
            GPUS.synchronize(tensor)
    return on(sample, to)


class _To:
    """See Place."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._device)

    def copy_object(self, value: Any) -> Any:
        return value.to(self._device) if callable(getattr(value, "to", None)) else None


def on(sample: Any, to: torch.device | None) -> Any:
    """`sample` with its tensors on `to`; None: where they are. Nothing of that is queued only."""
    return sample if to is None else moved(sample, _To(to))


def _tensors(sample: Any) -> Iterator[torch.Tensor]:
    """Those that moved() finds."""
    waiting = [sample]
    seen: dict[int, Any] = {}  # by identity: a sample may contain one often, and itself
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)) and id(value) not in seen:
            seen[id(value)] = value
            waiting += value.values() if isinstance(value, Mapping) else value
