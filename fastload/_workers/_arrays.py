"""Copies of NumPy's arrays and generators."""

from __future__ import annotations

import array
import ctypes
import operator
from typing import Any

import numpy as np
import torch

from fastload._workers._making import Made, Making, done, shell, when_copied

try:
    from numpy.lib.array_utils import byte_bounds as _byte_bounds
except ImportError:  # before NumPy 2
    from numpy import byte_bounds as _byte_bounds  # type: ignore[no-redef, attr-defined]


def copy_array(making: Making, source: Any) -> Made:
    """Copies an array: a view as a view of its base's copy, and an array of objects with copies of its elements."""
    kind = type(source)
    if source.dtype.hasobject:
        return _copy_object_array(making, source)
    base = source.base
    if base is None:
        return _copy_memory(making, source)
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, bytes):
        return done(source)
    if isinstance(base, (np.ndarray, bytearray, array.array)):
        return when_copied((base,), lambda copies: _view(source, base, copies[0]))
    address, num_bytes = _extent(source)
    if making.is_shared_memory(address):
        return done(source)
    if (block := making.blocks.find(address, num_bytes)) is not None:
        return done(_view_of_bytes(source, block, address))
    if isinstance(base, ctypes.Array):
        return when_copied((base,), lambda copies: _view(source, base, copies[0]))
    if isinstance(base, torch.Tensor):
        return when_copied((base,), lambda copies: _view_of_tensor(making, source, copies[0]))
    if (reason := making.reserve(num_bytes)) is not None:
        return making.share(source, reason)
    return done(np.ndarray.copy(source, "K").view(kind))


def _copy_memory(making: Making, source: Any) -> Made:
    address, num_bytes = _extent(source)
    if (block := making.blocks.find(address, num_bytes)) is not None:
        return done(_view_of_bytes(source, block, address))
    if (reason := making.reserve(num_bytes)) is not None:
        return making.share(source, reason)
    plain = np.ndarray.view(source, np.ndarray) if type(source) is not np.ndarray else source
    copy = plain.copy("K")
    if copy.flags.forc:
        making.blocks.add(address, num_bytes, lambda: copy.ravel("K").view(np.uint8))
    if type(source) is not np.ndarray:
        copy = _view_of_bytes(source, copy.ravel("K").view(np.uint8), address)
    elif not source.flags.writeable:
        copy.flags.writeable = False
    return done(copy)


def _copy_object_array(making: Making, source: Any) -> Made:
    if source.dtype.kind != "O":
        return making.share(source, "a structure in it has fields that are objects")
    plain = np.ndarray.view(source, np.ndarray)
    copy = plain.copy("K")
    elements = tuple(plain.flat)

    def finish(copies: tuple[Any, ...]) -> None:
        if all(map(operator.is_, elements, copies)):
            return
        for index, one in zip(np.ndindex(copy.shape), copies, strict=True):
            copy[index] = one

    return shell(copy if type(source) is np.ndarray else copy.view(type(source)), elements, finish)


def _extent(source: Any) -> tuple[int, int]:
    """Returns the address of an array's first byte, and the number of bytes from there to its last one."""
    begin, end = _byte_bounds(source)
    return begin, end - begin


def _view(source: Any, base: Any, copy: Any) -> Any:
    if copy is base:
        return source
    if isinstance(copy, np.ndarray):
        begin, _ = _extent(base)
        memory = np.ndarray.view(copy, np.ndarray).ravel("K").view(np.uint8)
    else:
        begin = address_of(base)
        memory = np.frombuffer(copy, np.uint8)
    return _view_of_bytes(source, memory, begin)


def address_of(buffer: Any) -> int:
    """Returns the address of the first byte of an object with the buffer protocol."""
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])


def copy_memoryview(making: Making, source: Any) -> Made:
    """Copies a memoryview as a view of the copy of its object."""

    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is source.obj:
            return source
        offset = address_of(source) - address_of(source.obj)
        view = memoryview(copies[0]).cast("B")[offset : offset + source.nbytes]
        view = view.cast(source.format, source.shape) if source.ndim > 1 else view.cast(source.format)
        return view.toreadonly() if source.readonly else view

    if source.obj is None or not source.c_contiguous or source.nbytes == 0:
        return making.share(source, "only views of whole memory are copied")
    return when_copied((source.obj,), finish)


def _view_of_bytes(source: Any, memory: Any, address: int) -> Any:
    """Returns `source` as a view of `memory`, a copy of the memory that begins at `address`."""
    offset = source.__array_interface__["data"][0] - address
    view = np.ndarray.__new__(type(source), source.shape, source.dtype, memory, offset, source.strides)
    if not source.flags.writeable and view.flags.writeable:
        view.flags.writeable = False
    return view


def _view_of_tensor(making: Making, source: Any, tensor: Any) -> Any:
    block = making.blocks.find(*_extent(source))
    return source if block is None else _view_of_bytes(source, block, _extent(source)[0])


def copy_bit_generator(making: Making, source: Any) -> Made:
    sequence = getattr(source, "_seed_seq", None) or getattr(source, "seed_seq", None)
    if type(sequence) is np.random.SeedSequence:
        sequence = np.random.SeedSequence(**sequence.state)
    copy = type(source)(sequence if sequence is not None else 0)
    copy.state = source.state
    making.add_generator(source, copy)
    return done(copy)


def copy_generator(making: Making, source: Any) -> Made:
    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is source.bit_generator:
            return source
        copy = type(source)(copies[0])
        making.add_generator(source, copy)
        return copy

    return when_copied((source.bit_generator,), finish)


def copy_random_state(making: Making, source: Any) -> Made:
    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is source._bit_generator:
            return source
        copy = type(source)(copies[0])
        copy.set_state(source.get_state(legacy=False))  # with the second value of a pair of gauss()
        making.add_generator(source, copy)
        return copy

    return when_copied((source._bit_generator,), finish)
