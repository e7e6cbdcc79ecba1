"""The state that a forked worker process inherits from the iterating thread, given to worker threads instead.

torch's default device is not part of it: it is a mode, and each thread has a stack of modes of its own.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fastload import _native
from fastload._delivery._device import moved


class ThreadState:
    """The calling thread's settings of torch and NumPy. Holds plain values and refers to nothing."""

    def __init__(self) -> None:
        self.is_inference = torch.is_inference_mode_enabled()
        self._is_grad_enabled = torch.is_grad_enabled()
        self._autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in ("cpu", "cuda", "xpu", "mps")
            if torch.amp.is_autocast_available(device)
        ]
        self._is_autocast_cache_enabled = torch.is_autocast_cache_enabled()
        self._float_errors = np.geterr()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Gives the calling thread the same settings. It is a thread of fastload's that ends with this context."""
        with torch.inference_mode(self.is_inference):
            torch.set_grad_enabled(self._is_grad_enabled)
            for device, is_enabled, dtype in self._autocast:
                torch.set_autocast_enabled(device, is_enabled)
                torch.set_autocast_dtype(device, dtype)
            torch.set_autocast_cache_enabled(self._is_autocast_cache_enabled)
            np.seterr(**self._float_errors)  # NumPy 2 keeps it in the context variables
            yield


def own_context() -> contextvars.Context:
    """Returns a copy of the caller's context for one thread."""
    context = contextvars.copy_context()
    # The decimal context is the one value in it that is often changed in place.
    if (decimal := sys.modules.get("decimal")) is not None:
        context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
    return context


def without_inference(batch: Any) -> Any:
    """Returns `batch`, made in inference mode, with tensors that can be trained with. They share its memory."""
    return moved(batch, _ordinary, lambda value: None)


def _ordinary(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a new tensor of the same memory, as a batch from a worker process has. Call it outside inference mode."""
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return tensor.clone()
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())


class _OfThread(threading.local):
    directory: _native.WorkingDirectory | None = None


_of_thread = _OfThread()


def keep_working_directory() -> None:
    """Keeps the calling thread, one of fastload's own, in the current directory when the program changes its own.

    If the system refuses a thread a directory of its own, as containers may, native code still looks paths up in the
    directory of now, and the user's Python code has the program's.
    """
    if not _native.own_working_directory():
        _of_thread.directory = _native.WorkingDirectory()


def kept_directory() -> _native.WorkingDirectory | None:
    """Returns the directory for the calling thread's relative paths; None: its current directory."""
    return _of_thread.directory
