"""Errors of a worker, worded as torch words the errors of its worker processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch._utils import ExceptionWrapper

from fastload._errors import SampleError
from fastload._process._interrupts import is_interrupt


@dataclass
class WorkerFailure:
    """An exception in a worker, and torch's words for it.

    Attributes:
        error: The exception.
        words: Its type and text with torch's words around it; None: it is raised as it is.
    """

    error: BaseException
    words: Any

    @classmethod
    def of(cls, error: BaseException, where: str) -> WorkerFailure:
        """Returns the failure; `where` names the worker. Keeps the traceback's frames, as `error` does."""
        if isinstance(error, SampleError):
            return cls(error, None)
        return cls(error, ExceptionWrapper((type(error), error, error.__traceback__), where))  # type: ignore[no-untyped-call]

    def new_error(self) -> BaseException:
        """Returns the error to raise, of the same type if the type can be made from a text.

        It is a new object with the attributes that user code gave the worker's exception, which is its cause.
        """
        return self.error if self.words is None else worded(self.words, self.error, vars(self.error))


def worded(words: ExceptionWrapper, cause: BaseException | None, attributes: dict[str, Any]) -> BaseException:
    """Returns a new exception with torch's words, its cause, and these attributes if it has the type of the words."""
    try:
        words.reraise()  # type: ignore[no-untyped-call]
    except BaseException as raised:
        if is_interrupt(raised):
            raise
        error = raised.with_traceback(None)
    if type(error) is words.exc_type:
        error.__dict__.update(attributes)
    error.__cause__ = cause
    return error


def without_frames(error: BaseException) -> BaseException:
    """Drops the frames of an error, its causes and its contexts, which keep what they refer to, and returns it."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            left += [each.__cause__, each.__context__]
    return error
