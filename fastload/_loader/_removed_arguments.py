"""The arguments that fastload.DataLoader had once, with what to do instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

# By name, and by whether the argument is true.
_INSTEAD: dict[str, dict[bool, str]] = {
    "copy": {
        False: "pass workers='threads', whose threads share all objects",
        True: "leave it out; your Python then runs in worker processes, each with its own objects",
    },
    "thread_safe": {
        False: "leave it out; worker processes share no objects. With workers='threads', let the data set use a lock",
        True: "leave it out; threads always use the data set at the same time",
    },
}
_Arguments = ParamSpec("_Arguments")


def refuses_removed(init: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
    """Makes a constructor raise a TypeError that says what replaces a removed argument."""

    @functools.wraps(init)
    def checked(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        for name, instead in _INSTEAD.items():
            if name in kwargs:
                value = kwargs[name]
                raise TypeError(f"DataLoader no longer has the argument {name}={value!r}: {instead[bool(value)]}")
        init(*args, **kwargs)

    return checked
