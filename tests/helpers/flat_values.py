"""Values that == compares wholly: with the bytes of their tensors, and errors with their words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def flat(value: Any) -> Any:
    """Returns `value` with its tensors and arrays as types, shapes, strides and bytes, so that == compares all."""
    if isinstance(value, torch.Tensor):
        content = value.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        return type(value), value.dtype, tuple(value.shape), value.stride(), content
    if isinstance(value, np.ndarray):
        return "array", value.dtype, value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value), [(key, flat(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [flat(item) for item in value]
    return type(value), value


def words(error: Exception) -> tuple[str, str, list[str]]:
    """Returns type and words of an error that a worker may have raised, without the traceback between them."""
    lines = [*str(error).splitlines(), ""]
    return type(error).__name__, lines[0].replace("worker process", "worker thread"), lines[-2:]
