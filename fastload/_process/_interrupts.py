"""Exceptions that the handler of a signal raises in the main thread.

Note [interrupts]
A handler runs between two steps of Python code, be it the program's or fastload's, and may raise: Ctrl-C's does, and
those of time limits. What a call has returned and Python has not stored is lost then, and what was done stays done.
Steps that must not be lost are therefore ones that can be repeated, which an interrupted next() does when it is called
again; and what cannot be repeated, as taking the next item of a sampler, is one call of C that keeps what it takes.
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
    """Appends what `function` returns, in one call of C; nothing where it raises StopIteration.

    No interrupt comes between the two where `function` is C code; where it is not, none comes once it has returned.
    """
    kept.extend(itertools.starmap(function, (arguments,)))


def equal_arrays(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether shapes and elements are equal. np.array_equal() takes an interrupt for a difference."""
    return one.shape == other.shape and bool(np.all(one == other))


def is_interrupt(error: BaseException) -> bool:
    """Whether the handler of a signal has raised it, and not the code that ran there.

    The frame of a handler is in its traceback; but Python's own, of Ctrl-C, has none.
    """
    handlers = {_code_of(handler) for number in signal.valid_signals() if callable(handler := signal.getsignal(number))}
    at, last = error.__traceback__, None
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        at, last = at.tb_next, at
    return isinstance(error, KeyboardInterrupt) and last is not None and not _is_at_raise(last)


def _is_at_raise(at: TracebackType) -> bool:
    """Whether the code itself raises there."""
    return opcode.opname[at.tb_frame.f_code.co_code[at.tb_lasti]] == "RAISE_VARARGS"


def _code_of(handler: Any) -> CodeType | None:
    """What runs when it is called; None where that is no Python code."""
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
