"""States of a data set and of a stream's iterator: their own state_dict() and load_state_dict()."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from fastload._errors import StateError
from fastload._process._interrupts import is_interrupt


@dataclass(frozen=True)
class UserState:
    """The states of the data set and the stream in one worker.

    Attributes:
        dataset: Result of the data set's state_dict(); None if it has no such method, or is its own iterator.
        iterator: Result of the state_dict() of a stream's iterator; None if it has no such method.
        problem: The error, if a state was requested and could not be read.
    """

    dataset: Any = None
    iterator: Any = None
    has_ended: bool = False
    problem: StateError | None = None

    @property
    def is_known(self) -> bool:
        """Whether one of the two has a state."""
        return self.dataset is not None or self.iterator is not None


def is_stateful(thing: Any) -> bool:
    """Returns whether `thing` has both state_dict() and load_state_dict(); one alone is of no use."""
    return callable(optional_attribute(thing, "state_dict")) and callable(optional_attribute(thing, "load_state_dict"))


def optional_attribute(thing: Any, name: str) -> Any:
    """Returns an attribute that torch does not ask for; None if `thing` lacks it, or if its own lookup fails."""
    try:
        return getattr(thing, name, None)
    except Exception as error:
        if is_interrupt(error):
            raise
        return None


def asked(thing: Any, field: str) -> Any:
    """Returns a copy of the state of `thing`, which later changes to `thing` do not affect; None if not stateful.

    Raises StateError if its state_dict() has raised, or its result cannot be copied.
    """
    if not is_stateful(thing):
        return None
    try:
        return copy.deepcopy(thing.state_dict())
    except BaseException as error:
        if is_interrupt(error):
            raise
        raise StateError(field, f"{type(thing).__qualname__}.state_dict() has raised {error!r}") from error


def loaded(thing: Any, state: Any, field: str) -> None:
    """Loads a copy of `state` into `thing`, or nothing if it is None.

    Raises StateError if `thing` is not stateful, or its load_state_dict() has raised.
    """
    if state is None:
        return
    if not is_stateful(thing):
        raise StateError(
            field,
            f"is the state of an object with state_dict() and load_state_dict(), and a {type(thing).__qualname__} does "
            "not have both",
            "take the data set that the loader had when the state was saved",
        )
    try:
        thing.load_state_dict(copy.deepcopy(state))
    except Exception as error:
        if is_interrupt(error):
            raise
        raise StateError(field, f"{type(thing).__qualname__}.load_state_dict() has raised {error!r}") from error
