"""Proofs that a function does exactly what a pattern does, for every input; no number of tries would prove that."""

from __future__ import annotations

import dis
import inspect
from types import CodeType, FunctionType
from typing import Any

# The flags that decide what a call of a function does besides running its code.
_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)


def names_in(function: object, pattern: Any) -> tuple[str, ...] | None:
    """Returns the globals and attributes that `function` names instead of the pattern's, in order of their first use.

    Returns None if `function` is not a function, or runs other code than the pattern, apart from these names and the
    names of its variables. The caller has to look up its globals and its `super()`.
    """
    if type(function) is not FunctionType:
        return None
    code, wanted = function.__code__, pattern.__code__
    is_same = (
        code.co_argcount == wanted.co_argcount
        and code.co_kwonlyargcount == wanted.co_kwonlyargcount
        and code.co_nlocals == wanted.co_nlocals
        and len(code.co_names) == len(wanted.co_names)
        and code.co_freevars == wanted.co_freevars
        and code.co_cellvars == ()
        # Python 3.11 and later keep the handlers of exceptions beside the code.
        and getattr(code, "co_exceptiontable", None) == getattr(wanted, "co_exceptiontable", None)
        and code.co_flags & _KINDS == wanted.co_flags & _KINDS
        and _instructions(code) == _instructions(wanted)
    )
    return code.co_names if is_same else None


def _instructions(code: CodeType) -> list[tuple[str, type, object, str]]:
    """Returns the instructions without the code's own names."""
    variables, names = (tuple(map(str, range(len(names)))) for names in (code.co_varnames, code.co_names))
    code = code.replace(co_varnames=variables, co_names=names)
    return [(each.opname, type(each.argval), each.argval, each.argrepr) for each in dis.get_instructions(code)]
