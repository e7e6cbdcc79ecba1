"""Copies of what few datasets have: instances of C types, some by their own rules and the rest by copy.deepcopy()."""

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
    """Of random.Random; gauss_next is in its __dict__."""
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
    """As the calling thread sees it; it is the worker's thread that is to see the same: see OwnObjects.enter()."""
    kind = type(source)
    copied = threading.local() if kind is threading.local else _Local()
    attributes = dict(threading.local.__getattribute__(source, "__dict__"))
    return shell(copied, (attributes,), lambda copies: making.locals.append((copied, kind, copies[0])))


class _Local(threading.local):
    """What has another class once it has its attributes: that one's __init__ would be called in the worker's thread."""


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
    """Of `[].__len__` and the like."""

    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is source.__self__:
            return source
        return source.__objclass__.__dict__[source.__name__].__get__(copies[0])

    return when_copied((source.__self__,), finish)


def copy_view_of_dict(making: Making, source: Any) -> Made:
    """Of a mapping proxy, or of what keys(), values() and items() return."""
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
    """Of an iterator of the standard library, which says of what it is made."""
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
    """Of what functools.lru_cache() makes of a function that is copied; its cache begins empty."""
    attributes = type(source).__dict__["__dict__"].__get__(source)
    if "__wrapped__" not in attributes or "cache_parameters" not in attributes:
        return done(source)

    def finish(copies: tuple[Any, ...]) -> Any:
        if copies[0] is attributes["__wrapped__"]:
            return source
        return functools.lru_cache(**attributes["cache_parameters"]())(copies[0])

    return when_copied((attributes["__wrapped__"],), finish)


def copy_pillow_core(making: Making, source: Any) -> Made:
    """Of the pixels of an image."""
    width, height = source.size
    if (reason := making.reserve(width * height * 4)) is not None:
        return making.share(source, reason)
    return done(source.copy())


def copy_blocks(making: Making, source: Any) -> Made:
    """Of what holds the arrays of a pandas object."""
    if (reason := making.reserve(sum(block.values.nbytes for block in source.blocks))) is not None:
        return making.share(source, reason)
    return copy_deep(making, source)


def copy_ctypes(making: Making, source: Any) -> Made:
    """multiprocessing's values and arrays are ctypes in shared memory."""
    return done(source) if making.is_shared_memory(ctypes.addressof(source)) else copy_deep(making, source)


def copy_loader_state(making: Making, source: Any) -> Made:
    """What a fastload.DataLoader keeps beside its settings leads to the data set and to threads; a copy has none."""
    return when_copied((source.settings,), lambda copies: type(source)(copies[0], source.epoch))


def refer_weakly(making: Making, source: Any) -> Made:
    """Of an iterator that has threads: one of these that kept it would never end."""
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
    except Exception as error:  # whatever its type's code raises
        if is_interrupt(error):
            raise
        return making.share(source, f"copy.deepcopy() of it raises {type(error).__name__}: {error}")
    if type(copied) is not type(source):
        return making.share(source, f"copy.deepcopy() makes a {type(copied).__name__} of it")
    return done(copied)
