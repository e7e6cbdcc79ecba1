"""Memory of batches: the one place that decides where a batch lies."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fastload import _native


@dataclass(frozen=True)
class BatchLayout:
    """What a batch of images looks like.

    Attributes:
        height: rows of an image.
        width: columns of an image.
        dtype: of the elements.
        memory_format: torch.contiguous_format (NCHW in memory) or torch.channels_last (NHWC in memory).
    """

    height: int
    width: int
    dtype: torch.dtype
    memory_format: torch.memory_format

    @property
    def sample_bytes(self) -> int:
        """Bytes of one image of three channels."""
        return 3 * self.height * self.width * self.dtype.itemsize


def allocate(engine: _native.Engine, layout: BatchLayout, batch_size: int, *, is_pinned: bool) -> torch.Tensor:
    """Returns uninitialised images [batch, 3, height, width]; their memory is not reused while a tensor on it exists.

    Pageable memory comes from the engine's pool, pinned memory from torch's pinned caching allocator, whose events
    protect the user's own non_blocking copies.

    Args:
        engine: whose pool pageable memory is taken from.
        layout: of the batch.
        batch_size: number of images, at least 1.
        is_pinned: page-locked memory for asynchronous copies to a device. Needs an accelerator.

    Raises:
        MemoryError: the system has no memory left.
    """
    shape = (batch_size, 3, layout.height, layout.width)
    if is_pinned:
        return torch.empty(shape, dtype=layout.dtype, memory_format=layout.memory_format, pin_memory=True)
    flat = torch.frombuffer(engine.allocate(batch_size * layout.sample_bytes), dtype=layout.dtype)
    if layout.memory_format is torch.channels_last:
        return flat.view(batch_size, layout.height, layout.width, 3).permute(0, 3, 1, 2)
    return flat.view(shape)
