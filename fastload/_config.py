"""Limits that hold everywhere, and what the installed torch's DataLoader takes."""

from __future__ import annotations

import functools
import inspect

import torch.utils.data

# A sample file larger than this is refused before it is read: it is no photograph, and reading it would stop a thread
# for minutes.
MAX_FILE_BYTES = 1 << 30


# Stands for "Pillow's limit is switched off"; larger than any image that can be.
NO_PIXEL_LIMIT = 1 << 62


@functools.cache
def torch_loader_has(argument: str) -> bool:
    """Whether the installed torch's DataLoader knows `argument`; in_order, for example, came with torch 2.6."""
    return argument in inspect.signature(torch.utils.data.DataLoader.__init__).parameters
