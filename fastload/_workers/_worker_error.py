"""Errors of a worker's thread, in torch's words."""

from __future__ import annotations

from collections.abc import Iterator

from torch._utils import ExceptionWrapper

from fastload._errors import SampleError


def as_worker_raises(error: BaseException, number: int) -> BaseException:
    """`error` with torch's words around its own, of the same type where that can be made from a text.

    A new object with the attributes that the user's code gave the old one, which is its cause.
    """
    if isinstance(error, SampleError):
        return error
    return _raised(_in_words(error, number), error)


class WorkerProblem:
    """Why a worker can make no batch at all. Keeps no frames: they would lead back to the worker.

    Args:
        error: What its worker_init_fn has raised, say.
        number: Of the worker.
    """

    def __init__(self, error: BaseException, number: int) -> None:
        self._words = _in_words(error, number)
        for each in _chain(error):
            each.__traceback__ = None
        self._error = error

    def new_error(self) -> BaseException:
        """What comes in the place of a batch; a new object for each."""
        return _raised(self._words, self._error)


def _in_words(error: BaseException, number: int) -> ExceptionWrapper:
    where = f"in DataLoader worker thread {number}"
    return ExceptionWrapper((type(error), error, error.__traceback__), where)  # type: ignore[no-untyped-call]


def _raised(words: ExceptionWrapper, error: BaseException) -> BaseException:
    try:
        words.reraise()  # type: ignore[no-untyped-call]
    except BaseException as raised:  # noqa: BLE001 - it is given on
        worded = raised.with_traceback(None)
    if type(worded) is type(error):
        worded.__dict__.update(error.__dict__)
    worded.__cause__ = error
    return worded


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """`error`, its causes and what it was raised in."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            left += [each.__cause__, each.__context__]
