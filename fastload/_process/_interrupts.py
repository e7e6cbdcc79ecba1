"""Exceptions that a signal handler raises in the main thread.

Note [interrupts]
A handler runs between two bytecodes of Python code, the program's or fastload's, and may raise: the handlers of Ctrl-C
and of time limits do. A result that a call has returned and Python has not stored is then lost, but its effects remain.
So steps that must not be lost are repeatable: the next next() repeats them after an interrupt. A step that cannot be
repeated, such as taking a sampler's next item, is one C call that also stores its result.

Note [drops]
Python ignores an exception out of __del__, weakref.finalize() or the callback of a weak reference. If a signal handler
raises it, a Ctrl-C is lost. No handler runs inside of a C call, so an object that is dropped only makes C calls.
CallsAtDrop makes calls such as functools.partial(queue.put, None). The callback of a weak reference is
functools.partial(entries.pop, key), in which pop() takes the reference for its default; the hash of the key is C code,
too. A class that has to run Python code derives from Droppable.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import opcode
import signal
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def append_result(kept: list[T], function: Callable[..., T], *arguments: Any) -> None:
    """Appends what `function` returns, in one C call; appends nothing if it raises StopIteration.

    If `function` is C code, no interrupt comes between its call and the append. Otherwise none comes once it returned.
    """
    kept.extend(itertools.starmap(function, (arguments,)))


def equal_arrays(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Returns whether shapes and elements are equal. np.array_equal() takes an interrupt for a difference."""
    return one.shape == other.shape and bool(np.all(one == other))


def is_interrupt(error: BaseException) -> bool:
    """Returns whether a signal handler raised `error`, and not the code that ran when the signal came.

    The traceback has the handler's frame. Python's own handler of Ctrl-C has no frame.
    """
    handlers = {_code_of(handler) for number in signal.valid_signals() if callable(handler := signal.getsignal(number))}
    at, last = error.__traceback__, None
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        at, last = at.tb_next, at
    return isinstance(error, KeyboardInterrupt) and last is not None and not _is_at_raise(last)


def _is_at_raise(at: TracebackType) -> bool:
    """Returns whether the code at this point raises by itself."""
    return opcode.opname[at.tb_frame.f_code.co_code[at.tb_lasti]] == "RAISE_VARARGS"


def _code_of(handler: Any) -> CodeType | None:
    """Returns the code that a call of `handler` runs; None if that is not Python code."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    for called in (
        handler,
        getattr(handler, "__func__", None),
        inspect.getattr_static(type(handler), "__call__", None),
    ):
        code = getattr(called, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None
