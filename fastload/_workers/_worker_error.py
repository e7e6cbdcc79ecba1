"""Errors of a worker thread, worded as torch words the errors of a worker."""

from __future__ import annotations

from collections.abc import Iterator

from torch._utils import ExceptionWrapper

from fastload._errors import SampleError


def as_worker_raises(error: BaseException, number: int) -> BaseException:
    """Returns `error` with torch's words around its text, of the same type if the type can be made from a text.

    The result is a new object with the attributes that user code gave `error`, which is its cause.
    """
    if isinstance(error, SampleError):
        return error
    return _raised(_in_words(error, number), error)


class WorkerProblem:
    """The reason that a worker can make no batch at all. Keeps no frames, since they would lead back to the worker.

    Args:
        error: The exception, for example of its worker_init_fn.
        number: The worker's number.
    """

    def __init__(self, error: BaseException, number: int) -> None:
        self._words = _in_words(error, number)
        for each in _chain(error):
            each.__traceback__ = None
        self._error = error

    def new_error(self) -> BaseException:
        """Returns the error that is raised instead of a batch; a new object for each batch."""
        return _raised(self._words, self._error)


def _in_words(error: BaseException, number: int) -> ExceptionWrapper:
    where = f"in DataLoader worker thread {number}"
    return ExceptionWrapper((type(error), error, error.__traceback__), where)  # type: ignore[no-untyped-call]


def _raised(words: ExceptionWrapper, error: BaseException) -> BaseException:
    try:
        words.reraise()  # type: ignore[no-untyped-call]
    except BaseException as raised:  # noqa: BLE001 - it is returned
        worded = raised.with_traceback(None)
    if type(worded) is type(error):
        worded.__dict__.update(error.__dict__)
    worded.__cause__ = error
    return worded


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields `error`, its causes and its contexts."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            left += [each.__cause__, each.__context__]
