"""Copies of torch's tensors, storages and generators."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fastload._workers._making import Made, Making, done, when_copied
from fastload._workers._rare import copy_deep


def copy_tensor(making: Making, source: Any) -> Made:
    """Copies a tensor: tensors of one storage share one copy of it, and a Parameter stays a Parameter."""
    if any("__torch_dispatch__" in vars(base) for base in type(source).__mro__ if base not in torch.Tensor.__mro__):
        return copy_deep(making, source)  # its memory need not be where its class says
    # Without this, a derived class or an active mode could answer the methods of the tensor.
    with torch._C.DisableTorchFunction():
        if source.device.type != "cpu":
            return making.share(source, f"its memory is of the device {source.device}")
        if source.layout is not torch.strided or source.is_quantized or source.is_nested:
            return making.share(source, "only dense tensors are copied")
        if not source.is_leaf:
            return making.share(source, "it is the result of a computation that torch can differentiate")
        storage = source.untyped_storage()
        copied = _copy_of_storage(making, storage)
        if isinstance(copied, str):
            return making.share(source, copied)
        if copied._cdata == storage._cdata:
            return done(source)
        copy = torch.empty(0, dtype=source.dtype, device="cpu").set_(
            copied, source.storage_offset(), source.size(), source.stride()
        )
        if source.is_conj():
            copy = copy.conj()
        if source.is_neg():
            copy = copy._neg_view()
        if type(source) is not torch.Tensor:
            copy = torch.Tensor._make_subclass(type(source), copy, source.requires_grad)
        elif source.requires_grad:
            copy.requires_grad_()
        gradient = source.grad
        if gradient is None:
            return done(copy)

    def finish(copies: tuple[Any, ...]) -> Any:
        copy.grad = copies[0]
        return copy

    return when_copied((gradient,), finish)


def copy_storage(making: Making, source: Any) -> Made:
    """Copies an UntypedStorage."""
    if source.device.type != "cpu":
        return making.share(source, f"its memory is of the device {source.device}")
    copied = _copy_of_storage(making, source)
    return making.share(source, copied) if isinstance(copied, str) else done(copied)


def _copy_of_storage(making: Making, storage: Any) -> Any:
    """Returns the copy; the storage itself if processes share its memory; a str: why there is no copy."""
    address, num_bytes = storage.data_ptr(), storage.nbytes()
    if (known := making.storages.get((address, num_bytes))) is not None:
        return known
    copied = _new_copy_of_storage(making, storage, address, num_bytes)
    if not isinstance(copied, str) and num_bytes > 0:
        making.storages[address, num_bytes] = copied
    return copied


def _new_copy_of_storage(making: Making, storage: Any, address: int, num_bytes: int) -> Any:
    if num_bytes == 0:
        return torch.empty(0, dtype=torch.uint8, device="cpu").untyped_storage()
    if storage.is_shared():
        return storage
    if (block := making.blocks.find(address, num_bytes)) is not None:
        return _as_storage(block)
    if making.is_shared_memory(address):
        return storage
    if (reason := making.reserve(num_bytes)) is not None:
        return reason
    copied = storage.clone()
    making.blocks.add(address, num_bytes, lambda: torch.empty(0, dtype=torch.uint8, device="cpu").set_(copied).numpy())
    return copied


def _as_storage(block: Any) -> Any:
    return torch.from_numpy(np.asarray(block)).untyped_storage()


def copy_generator(making: Making, source: Any) -> Made:
    if source.device.type != "cpu":
        return making.share(source, f"it draws on the device {source.device}")
    copy = torch.Generator.__new__(type(source), source.device)  # type: ignore[call-arg]
    copy.set_state(source.get_state())
    making.add_generator(source, copy)
    return done(copy)
