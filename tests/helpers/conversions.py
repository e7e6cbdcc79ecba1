"""Pixels, tables and outputs for conversions on a device, and what the host's own last write makes of them."""

from __future__ import annotations

import torch
from native_steps import apply, make_plan

from fastload import _core

DTYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.float16, torch.bfloat16),
    *(torch.int32, torch.float32, torch.int64, torch.float64, torch.complex64),
)
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
# Batch, height, width: one pixel, one row, one column, odd sizes, whole vectors, and more than one block of threads.
SIZES = [(1, 1, 1), (2, 1, 1), (3, 1, 9), (2, 13, 1), (5, 3, 7), (2, 4, 8), (1, 16, 64), (3, 31, 33), (2, 61, 67)]


def random_pixels(batch: int, height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, 256, (batch, height, width, 3), dtype=torch.uint8, generator=generator)


def random_table(dtype: torch.dtype) -> torch.Tensor:
    """Returns [3, 256] elements of any bits; every second float is a NaN, quiet or signalling, with a payload."""
    generator = torch.Generator().manual_seed(7)
    bits = torch.randint(0, 256, (3 * 256, dtype.itemsize), dtype=torch.uint8, generator=generator)
    table = bits.flatten().view(dtype)
    if dtype.is_floating_point:
        exponent = torch.tensor(float("inf"), dtype=dtype).reshape(1).view(torch.uint8)
        bits[::2] |= exponent
    return table.view(3, 256)


def convert_on_host(pixels: torch.Tensor, table: torch.Tensor, layout: torch.memory_format) -> bytes:
    """Returns the bytes of the batch in memory, as loaders without a device write it."""
    is_channels_last = layout is torch.channels_last
    arguments = {"element_size": table.element_size(), "channels_last": is_channels_last, "table": bytes_of(table)}
    plan = make_plan([], **arguments)
    draws = _core.CounterDraws(0, 0, 0)
    return b"".join(apply(plan, image.numpy(), draws) for image in pixels)


def new_output(pixels: torch.Tensor, dtype: torch.dtype, layout: torch.memory_format) -> torch.Tensor:
    """Allocates the batch on the pixels' device and sets every byte to a value that no test expects everywhere."""
    batch, height, width, _ = pixels.shape
    out = torch.empty((batch, 3, height, width), dtype=dtype, device=pixels.device, memory_format=layout)
    memory_of(out).fill_(0xA5)
    return out


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes of a dense tensor in memory order."""
    return torch.as_strided(tensor, (tensor.numel(),), (1,)).view(torch.uint8)


def bytes_of(tensor: torch.Tensor) -> bytes:
    return memory_of(tensor).cpu().numpy().tobytes()
