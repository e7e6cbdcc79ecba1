"""Errors of a worker's thread, in torch's words."""

from __future__ import annotations

from torch._utils import ExceptionWrapper

from fastload._errors import SampleError


def as_worker_raises(error: BaseException, number: int) -> BaseException:
    """`error` with torch's words around its own, of the same type where that can be made from a text.

    A new object with the attributes that the user's code gave the old one, which is its cause.
    """
    if isinstance(error, SampleError):
        return error
    where = f"in DataLoader worker thread {number}"
    try:
        ExceptionWrapper((type(error), error, error.__traceback__), where).reraise()  # type: ignore[no-untyped-call]
    except BaseException as raised:  # noqa: BLE001 - it is given on
        worded = raised.with_traceback(None)
    if type(worded) is type(error):
        worded.__dict__.update(error.__dict__)
    worded.__cause__ = error
    return worded
