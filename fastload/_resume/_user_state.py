"""What a data set, and the iterator of a stream, say of themselves: their own state_dict() and load_state_dict()."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from fastload._errors import StateError
from fastload._process._interrupts import is_interrupt


@dataclass(frozen=True)
class UserState:
    """Of one worker.

    Attributes:
        dataset: What the data set's state_dict() gave; None where it has none, and where it is its own iterator.
        iterator: The same of a stream's iterator.
        has_ended: Whether a stream has given all.
        problem: Why there is no state, where one was asked for.
    """

    dataset: Any = None
    iterator: Any = None
    has_ended: bool = False
    problem: StateError | None = None

    @property
    def is_known(self) -> bool:
        """Whether one of the two has told something."""
        return self.dataset is not None or self.iterator is not None


def is_stateful(thing: Any) -> bool:
    """Whether it has both methods; one of them is of no use alone."""
    return callable(getattr(thing, "state_dict", None)) and callable(getattr(thing, "load_state_dict", None))


def asked(thing: Any, field: str) -> Any:
    """What `thing` says of itself, which is not changed any more when that goes on; None where it is not stateful.

    Raises:
        StateError: Its state_dict() has raised, or has given what cannot be copied.
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
    """Lets `thing` load what it said, or nothing where that is None; the state stays as it is.

    Raises:
        StateError: `thing` is not stateful, or its load_state_dict() has raised.
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
