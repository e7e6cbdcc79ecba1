"""Samples copied, so that they share no memory with the samples that are kept, and moved from and to GPUs."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from fastload._delivery._device import moved
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
    record_stream(tensor)
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


def synchronize(tensor: torch.Tensor) -> None:
    """Waits for the caller's current stream of the GPU that the tensor is on, if any."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()


def record_stream(tensor: torch.Tensor) -> None:
    """Marks the tensor's memory, if it is a GPU's, as used by the caller's current stream."""
    if tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))


def finished(sample: Any, to: torch.device | None) -> Any:
    """Returns `sample` with its tensors on `to` after the GPU has finished them; None: where they are.

    It is kept for threads whose streams do not wait for the stream it was made on. So the host waits, once a sample.
    """
    for tensor in _tensors(sample):
        synchronize(tensor)
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
