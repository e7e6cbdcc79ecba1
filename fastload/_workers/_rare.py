"""Copies of objects that few datasets hold: instances of C types, by rules of their own or by copy.deepcopy()."""

from __future__ import annotations

import _random
import array
import collections
import copy
import ctypes
import functools
import gc
import threading
import types
import warnings
import weakref
from typing import Any

from fastload._process._interrupts import is_interrupt
from fastload._workers import _lmdb
from fastload._workers._making import Made, Making, done, shell, when_copied


def copy_random(making: Making, source: Any) -> Made:
    """Copies a random.Random; gauss_next is in its __dict__."""
    copied = _random.Random.__new__(type(source))
    _random.Random.setstate(copied, _random.Random.getstate(source))
    making.add_generator(source, copied)
    return done(copied)


def copy_partial(making: Making, source: Any) -> Made:
    kind = functools.partial
    function, args, keywords, attributes = (
        kind.__dict__[name].__get__(source) for name in ("func", "args", "keywords", "__dict__")
    )
    copied = kind.__new__(type(source), int)
    parts = function, args, keywords, attributes or None
    return shell(copied, parts, lambda copies: kind.__setstate__(copied, copies))  # type: ignore[attr-defined]


def copy_thread_local(making: Making, source: Any) -> Made:
    """Copies what the calling thread sees; OwnObjects.enter() shows the same to the worker's thread."""
    kind = type(source)
    copied = threading.local() if kind is threading.local else _Local()
    attributes = dict(threading.local.__getattribute__(source, "__dict__"))
    return shell(copied, (attributes,), lambda copies: making.locals.append((copied, kind, copies[0])))


class _Local(threading.local):
    """A copy until it has its attributes. The real class would call its __init__ in the worker's thread."""


def copy_bytearray(making: Making, source: Any) -> Made:
    if (reason := making.reserve(len(source))) is not None:
        return making.share(source, reason)
    copied = bytearray.__new__(type(source))
    bytearray.extend(copied, memoryview(source))
    return done(copied)


def copy_array_array(making: Making, source: Any) -> Made:
    if (reason := making.reserve(array.array.__len__(source) * source.itemsize)) is not None:
        return making.share(source, reason)
    return done(array.array.__new__(type(source), source.typecode, bytes(memoryview(source))))


def copy_method_wrapper(making: Making, source: Any) -> Made:
    """Copies `[].__len__` and the like."""

    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is source.__self__:
            return source
        return source.__objclass__.__dict__[source.__name__].__get__(copies[0])

    return when_copied((source.__self__,), finish)


def copy_view_of_dict(making: Making, source: Any) -> Made:
    """Copies a mapping proxy, or a result of keys(), values() or items()."""
    (mapping,) = gc.get_referents(source)

    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is mapping:
            return source
        if type(source) is types.MappingProxyType:
            return types.MappingProxyType(copies[0])
        base = collections.OrderedDict if "odict" in type(source).__name__ else dict
        return base.__dict__[type(source).__name__.partition("_")[2]](copies[0])

    return when_copied((mapping,), finish)


def copy_iterator(making: Making, source: Any) -> Made:
    """Copies an iterator of the standard library by its __reduce__()."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        constructor, arguments, state = (*source.__reduce__(), None)[:3]

    def finish(copies: tuple[Any, ...]) -> Any:
        copied = constructor(*copies[0])
        if state is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                copied.__setstate__(copies[1])
        return copied

    return when_copied((arguments, state), finish)


def copy_cached_function(making: Making, source: Any) -> Made:
    """Copies the result of functools.lru_cache() if its function is copied. The cache begins empty."""
    attributes = type(source).__dict__["__dict__"].__get__(source)
    if "__wrapped__" not in attributes or "cache_parameters" not in attributes:
        return done(source)

    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is attributes["__wrapped__"]:
            return source
        return functools.lru_cache(**attributes["cache_parameters"]())(copies[0])

    return when_copied((attributes["__wrapped__"],), finish)


def copy_pillow_core(making: Making, source: Any) -> Made:
    """Copies the pixels of an image."""
    width, height = source.size
    if (reason := making.reserve(width * height * 4)) is not None:
        return making.share(source, reason)
    return done(source.copy())


def copy_blocks(making: Making, source: Any) -> Made:
    """Copies the block manager of a pandas object, which holds its arrays."""
    if (reason := making.reserve(sum(block.values.nbytes for block in source.blocks))) is not None:
        return making.share(source, reason)
    return copy_deep(making, source)


def copy_ctypes(making: Making, source: Any) -> Made:
    """Copies a ctypes object, unless it is in shared memory, as multiprocessing's values and arrays are."""
    return done(source) if making.is_shared_memory(ctypes.addressof(source)) else copy_deep(making, source)


def copy_loader_state(making: Making, source: Any) -> Made:
    """Copies the settings of a fastload.DataLoader only: its other state leads to the data set and to threads."""
    return when_copied((source.settings,), lambda copies: type(source)(copies[0], source.epoch))


def refer_weakly(making: Making, source: Any) -> Made:
    """Makes a weak reference to an iterator that has threads: a thread that kept it would never end."""
    return done(weakref.proxy(source))


def share_lmdb_environment(making: Making, source: Any) -> Made:
    if not _lmdb.is_environment(source):
        return copy_deep(making, source)
    _lmdb.remember(source)
    return making.share(source, "lmdb opens a path once in a process")


def copy_deep(making: Making, source: Any) -> Made:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            copied = copy.deepcopy(source, making.deep_memo)
    except Exception as error:  # from the code of its type
        if is_interrupt(error):
            raise
        return making.share(source, f"copy.deepcopy() of it raises {type(error).__name__}: {error}")
    if type(copied) is not type(source):
        return making.share(source, f"copy.deepcopy() makes a {type(copied).__name__} of it")
    return done(copied)
