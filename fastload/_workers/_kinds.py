"""Decides by its type how an object is copied: by csrc/python, by a maker, or not at all, so that workers share it."""

from __future__ import annotations

import _ctypes
import _io
import _random
import _thread
import array
import collections
import concurrent.futures
import contextvars
import datetime
import decimal
import enum
import functools
import io
import logging
import mmap
import pathlib
import random
import re
import socket
import subprocess
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import dataloader as torch_dataloader

from fastload._process._interrupts import is_interrupt
from fastload._workers import _arrays, _rare, _tensors
from fastload._workers._making import Made, Making

COPIES_ATTRIBUTES = True


def _views(mapping: dict[Any, Any]) -> tuple[Any, ...]:
    return mapping.keys, mapping.values, mapping.items


# C base of a type -> its maker, and whether the maker also copies __dict__ and slots of derived classes.
_MAKERS: dict[type, tuple[Any, bool]] = {
    np.ndarray: (_arrays.copy_array, False),
    np.random.Generator: (_arrays.copy_generator, False),
    np.random.RandomState: (_arrays.copy_random_state, False),
    np.random.MT19937: (_arrays.copy_bit_generator, False),
    np.random.PCG64: (_arrays.copy_bit_generator, False),
    np.random.PCG64DXSM: (_arrays.copy_bit_generator, False),
    np.random.Philox: (_arrays.copy_bit_generator, False),
    np.random.SFC64: (_arrays.copy_bit_generator, False),
    torch._C.TensorBase: (_tensors.copy_tensor, False),
    torch._C.StorageBase: (_tensors.copy_storage, COPIES_ATTRIBUTES),
    torch.Generator: (_tensors.copy_generator, False),
    _random.Random: (_rare.copy_random, False),
    functools.partial: (_rare.copy_partial, False),
    threading.local: (_rare.copy_thread_local, COPIES_ATTRIBUTES),
    memoryview: (_arrays.copy_memoryview, COPIES_ATTRIBUTES),
    bytearray: (_rare.copy_bytearray, False),
    array.array: (_rare.copy_array_array, False),
    type("".__len__): (_rare.copy_method_wrapper, COPIES_ATTRIBUTES),
    functools._lru_cache_wrapper: (_rare.copy_cached_function, COPIES_ATTRIBUTES),
    **dict.fromkeys(
        (
            types.MappingProxyType,
            *(type(view()) for kind in (dict, collections.OrderedDict) for view in _views(kind())),
        ),
        (_rare.copy_view_of_dict, COPIES_ATTRIBUTES),
    ),
}
# The same for packages that need not be installed.
_MAKERS_BY_NAME = {
    "ImagingCore": _rare.copy_pillow_core,
    "Environment": _rare.share_lmdb_environment,
    "BlockManager": _rare.copy_blocks,
    "SingleBlockManager": _rare.copy_blocks,
}
_BY_DEEPCOPY = (_rare.copy_deep, COPIES_ATTRIBUTES)

# Sharing these makes no difference: they cannot change, or they are meant for all.
_SILENTLY_SHARED: tuple[type, ...] = (
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.GenericAlias,
    types.UnionType,
    type(...),
    type(NotImplemented),
    type(datetime.datetime_CAPI),  # a capsule
    range,
    slice,
    property,
    staticmethod,
    classmethod,
    BaseException,
    enum.Enum,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    re.Pattern,
    re.Match,
    contextvars.ContextVar,
    contextvars.Context,
    np.generic,
    np.dtype,
    np.ufunc,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    random.SystemRandom,
    _thread.LockType,
    _thread.RLock,
    mmap.mmap,
    logging.Filterer,
)
HANDLE = "an open handle cannot be copied"
_SHARED: dict[type, str] = {
    types.GeneratorType: "a generator cannot be copied",
    types.CoroutineType: "a coroutine cannot be copied",
    types.AsyncGeneratorType: "a generator cannot be copied",
    types.FrameType: "a frame cannot be copied",
    types.TracebackType: "a traceback cannot be copied",
    _io._IOBase: HANDLE,
    socket.socket: HANDLE,
    subprocess.Popen: HANDLE,
    threading.Thread: "a thread cannot be copied",
    concurrent.futures.Executor: "threads and processes of a pool cannot be copied",
    concurrent.futures.Future: "it belongs to a pool",
}
# (module, name) of classes whose modules need not be loaded.
_SHARED_BY_NAME = {
    ("sqlite3", "Connection"): HANDLE,
    ("sqlite3", "Cursor"): HANDLE,
    ("asyncio.events", "AbstractEventLoop"): "an event loop cannot be copied",
}
# Files in memory: their content is copied.
_NOHANDLES = (io.BytesIO, io.StringIO)
_CTYPES = (_ctypes._SimpleCData, _ctypes.Array, _ctypes.Structure, _ctypes.Union)
# The containers that csrc/python/object_kinds.cpp knows.
_CONTAINERS = (
    *(list, dict, collections.OrderedDict, collections.defaultdict, set, frozenset, tuple, collections.deque),
    *(str, bytes, int, float, complex, weakref.ref, weakref.ProxyType, weakref.CallableProxyType),
)
# pybind11_builtins: the objects that functions of C++ are bound to.
_SHARED_PACKAGES = ("typing", "_abc", "abc", "pyarrow", "pybind11_builtins")
# Classes derived from these packages' classes are shared, too.
_SHARED_FAMILIES = ("multiprocessing", "_multiprocessing")
_ITERATORS = ("builtins", "itertools", "collections", "_collections")
# The parts of a loader, which users hold.
_OWN_COPIED = (
    *("fastload.transforms", "fastload.samplers", "fastload.sources", "fastload._loader"),
    "fastload._images._deferred",  # the pixels of the user's images
    "fastload._iteration.threads._native_samples",  # these have the user's transforms
    *("fastload._cached._dataset", "fastload._cached._keys"),  # these have the user's data set; the samples are shared
)


def kind_of(kind: type, c_base: type) -> str | tuple[Any, bool] | None:
    """Answers csrc/python/object_kinds.h. An object that its maker cannot copy is shared, so no loader fails for it."""
    found = _find_kind(kind, c_base)
    return (_guarded(found[0]), found[1]) if isinstance(found, tuple) else found


def _guarded(maker: Callable[[Making, Any], Made]) -> Callable[[Making, Any], Made]:
    def make(making: Making, source: Any) -> Made:
        def attempt(action: Callable[..., Any], *arguments: Any) -> Any:
            try:
                return action(*arguments)
            except MemoryError:
                raise
            except Exception as error:
                if is_interrupt(error):
                    raise
                # Raised by code that knows nothing of the copier.
                shared = making.share(source, f"its copy raises {type(error).__name__}: {error}")
                return shared if action is maker else source

        copy, parts, finish = attempt(maker, making, source)
        if copy is None and finish is not None:
            return copy, parts, functools.partial(attempt, finish)
        return copy, parts, finish

    return make


def _find_kind(kind: type, c_base: type) -> str | tuple[Any, bool] | None:
    module = _module_of(kind)
    bases = type.__dict__["__mro__"].__get__(kind)
    if torch_dataloader._BaseDataLoaderIter in bases:
        return (_rare.refer_weakly, COPIES_ATTRIBUTES) if _is_of_packages(module, ("fastload",)) else ""
    if module == "fastload._loader._state":
        return _rare.copy_loader_state, COPIES_ATTRIBUTES
    if any(base in bases for base in _SILENTLY_SHARED) or _is_of_packages(module, _SHARED_PACKAGES):
        return ""
    if any(_is_of_packages(_module_of(base), _SHARED_FAMILIES) for base in bases):
        return ""
    if _is_of_packages(module, ("fastload",)) and not _is_of_packages(module, _OWN_COPIED):
        return ""
    if module.startswith("pathlib") and pathlib.PurePath in bases:
        return ""
    if c_base in _NOHANDLES:
        return _BY_DEEPCOPY
    for base, reason in _SHARED.items():
        if base in bases:
            return reason
    for base in bases:
        if (found := _SHARED_BY_NAME.get((_module_of(base), type.__getattribute__(base, "__name__")))) is not None:
            return found
    if c_base in _MAKERS:
        return _MAKERS[c_base]
    if c_base is object or c_base in _CONTAINERS:
        return None
    if (maker := _MAKERS_BY_NAME.get(type.__getattribute__(kind, "__name__"))) is not None:
        return maker, COPIES_ATTRIBUTES
    if kind is c_base and module in _ITERATORS and {"__next__", "__reduce__"} <= kind.__dict__.keys():
        return _rare.copy_iterator, COPIES_ATTRIBUTES
    if any(base in bases for base in _CTYPES):
        return _rare.copy_ctypes, COPIES_ATTRIBUTES
    return _BY_DEEPCOPY


def _module_of(kind: type) -> str:
    module = type.__getattribute__(kind, "__module__")
    return module if isinstance(module, str) else ""


def _is_of_packages(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
