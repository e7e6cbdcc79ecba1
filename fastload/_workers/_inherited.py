"""What a forked worker process has from the thread that iterates: given to the threads in the place of the processes.

torch's default device is not: it is one of the modes that each thread has a stack of.
"""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from fastload._delivery._device import moved


class ThreadState:
    """What torch and NumPy keep for each thread, as the calling thread has it. Plain values: it refers to nothing."""

    def __init__(self) -> None:
        self.is_inference = torch.is_inference_mode_enabled()
        self._is_grad_enabled = torch.is_grad_enabled()
        self._autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in _autocast_devices()
        ]
        self._is_autocast_cache_enabled = torch.is_autocast_cache_enabled()
        self._float_errors = np.geterr()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """In it the calling thread, which is fastload's own and ends with it, has the same."""
        with torch.inference_mode(self.is_inference):
            torch.set_grad_enabled(self._is_grad_enabled)
            for device, is_enabled, dtype in self._autocast:
                torch.set_autocast_enabled(device, is_enabled)
                torch.set_autocast_dtype(device, dtype)
            torch.set_autocast_cache_enabled(self._is_autocast_cache_enabled)
            np.seterr(**self._float_errors)  # NumPy 2 has it in the context
            yield


def own_context() -> contextvars.Context:
    """A copy of the caller's context, for one thread."""
    context = contextvars.copy_context()
    context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))  # the one thing in it that is often changed
    return context


def inheriting(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, to be called in a thread of its own, which then has what the calling thread has now."""
    state, context = ThreadState(), own_context()

    def call(*args: Any) -> Any:
        with state.entered():
            return context.run(function, *args)

    return call


@functools.cache
def _autocast_devices() -> list[str]:
    """Those that the installed torch knows."""
    known = []
    for device in ("cpu", "cuda", "xpu", "mps"):
        with contextlib.suppress(RuntimeError):
            torch.get_autocast_dtype(device)
            known.append(device)
    return known


def without_inference(batch: Any) -> Any:
    """`batch`, which was made in inference mode, with tensors that can be trained with; they share its memory."""
    return moved(batch, _Ordinary())


class _Ordinary:
    """Tensors as another process's are made of their memory, where the caller is not in inference mode."""

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
            return tensor.clone()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())

    def copy_object(self, value: Any) -> None:
        return None
