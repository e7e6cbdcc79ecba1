"""Conversion of uint8 pixels to the user's tensor, on their device: dtype, normalisation and layout in one pass."""

from __future__ import annotations

import functools
from types import ModuleType

import torch

from fastload import _native
from fastload._errors import DeviceError

# Elements are moved as integers of their size, so every bit arrives, even a NaN's payload.
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def convert(pixels: torch.Tensor, table: torch.Tensor, *, out: torch.Tensor) -> None:
    """Looks up every value in a table; the bytes equal the host's own last write, on any path.

    Runs on the current stream of the tensors' one device and does not wait for it: the caller has to order other work
    on them. It is one kernel if `is_fused`, otherwise torch operations with a temporary of 8 bytes per pixel.

    Args:
        pixels: uint8 [batch, height, width, 3], contiguous.
        table: [3, 256] of out's dtype, contiguous: element [c, v] is the result for value v of channel c.
        out: [batch, 3, height, width] with elements of 1, 2, 4 or 8 bytes, contiguous or channels_last; overwritten.

    Raises:
        DeviceError: the device refuses the kernel; the error may come from earlier work on it.
    """
    if pixels.numel() == 0:
        return
    kernels = _kernels_on(pixels.device)
    if kernels is None:
        _look_up(pixels, table, out)
    else:
        _launch(kernels, pixels, table, out)


def is_fused(device: str) -> bool:
    """Returns whether `convert` is one kernel on `device`; the first call for a device loads the kernels."""
    return _kernels_on(torch.device(device)) is not None


def _kernels_on(device: torch.device) -> ModuleType | None:
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    return _loaded_kernels(torch.cuda.current_device() if device.index is None else device.index)


@functools.cache
def _loaded_kernels(device_index: int) -> ModuleType | None:
    kernels = _native.cuda_kernels()
    if kernels is None:
        return None
    # Kernels that were built for other GPUs, or for a newer driver, import but cannot run.
    with torch.cuda.device(device_index):
        error, _ = kernels.load(device_index)
    return None if error else kernels


def _launch(kernels: ModuleType, pixels: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
    batch, height, width, _ = pixels.shape
    with torch.cuda.device(pixels.device):
        error, name = kernels.convert(
            pixels=pixels.data_ptr(),
            table=table.data_ptr(),
            out=out.data_ptr(),
            batch=batch,
            pixels_per_image=height * width,
            element_size=out.element_size(),
            channels_last=not out.is_contiguous(),
            device=pixels.device.index,
            stream=torch.cuda.current_stream(pixels.device).cuda_stream,
        )
    if error:
        raise DeviceError(
            f"conversion of {pixels.numel()} bytes of pixels to {out.dtype} on {pixels.device} failed: {name}"
        )


@torch.no_grad()
def _look_up(pixels: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> None:
    integer = _INTEGERS[out.element_size()]
    for channel in range(3):
        index = pixels[..., channel].to(torch.int64)
        torch.take(table[channel].view(integer), index, out=out[:, channel].view(integer))
