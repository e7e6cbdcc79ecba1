"""Copies of samples, which share no memory with the samples that are kept."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import numpy as np
import torch

from fastload._cached import _gpus
from fastload._process._interrupts import is_interrupt

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


def own_copy(sample: Any) -> Any:
    """Copies `sample` with all that it holds; an object that occurs twice stays one. Raises TypeError if that fails."""
    try:
        return _copied(sample, {})
    except Exception as error:
        if is_interrupt(error) or isinstance(error, MemoryError):
            raise
        raise TypeError(
            f"the sample, a {type(sample).__qualname__}, cannot be copied ({type(error).__name__}: {error}). Pass "
            "copy=False to CachedDataset if nothing changes samples, or let the data set return tensors, arrays, "
            "numbers, texts, and lists, tuples and dicts of these"
        ) from error


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Copies like copy.deepcopy(), but copies only a tensor's or array's own elements, not its whole storage."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if id(value) in memo:
        return memo[id(value)]
    made: Any
    if kind is torch.Tensor and value.layout is torch.strided:
        made = _copied_tensor(value)
    elif kind is np.ndarray and not value.dtype.hasobject:
        made = value.copy(order="K")
    elif kind is list:
        made = memo[id(value)] = []
        made.extend(_copied(item, memo) for item in value)
    elif kind is dict:
        made = memo[id(value)] = {}
        made.update((_copied(key, memo), _copied(item, memo)) for key, item in value.items())
    elif kind is tuple:
        made = tuple(_copied(item, memo) for item in value)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        made = kind(*(_copied(item, memo) for item in value))
    else:
        made = copy.deepcopy(value, memo)
    memo[id(value)] = made
    return made


def _copied_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if _gpus.GPUS.is_on_device(tensor):
        _gpus.GPUS.record_stream(tensor)
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def compact(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a copy if it is part of a larger storage, all of which would be written with it."""
    if tensor.layout is not torch.strided:
        return tensor
    has_more = tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
    return _copied_tensor(tensor) if has_more else tensor


def num_bytes(sample: Any) -> int:
    """Estimates how many bytes of memory `sample` takes."""
    kind = type(sample)
    if isinstance(sample, torch.Tensor):
        return sample.numel() * sample.element_size() + sys.getsizeof(sample)
    if isinstance(sample, np.ndarray):
        return sample.nbytes + sys.getsizeof(None)
    if kind is dict:
        return sys.getsizeof(sample) + sum(num_bytes(key) + num_bytes(item) for key, item in sample.items())
    if isinstance(sample, (list, tuple)):
        return sys.getsizeof(sample) + sum(map(num_bytes, sample))
    if kind in _PLAIN:
        return sys.getsizeof(sample)
    try:
        return len(pickle.dumps(sample, protocol=pickle.HIGHEST_PROTOCOL))
    except Exception as error:
        if is_interrupt(error):
            raise
        return sys.getsizeof(sample)
