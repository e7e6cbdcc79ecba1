"""Samples that could not be loaded: the record of each."""

from __future__ import annotations

import errno as errno_names
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from fastload._errors import DeviceError, FastloadError, SampleError
from fastload._process._forked_cuda import is_of_forked_cuda
from fastload._process._interrupts import is_interrupt

# torch's own exceptions about the device; not every version has them.
_OF_DEVICE = tuple(getattr(torch, name) for name in ("OutOfMemoryError", "AcceleratorError") if hasattr(torch, name))


@dataclass(frozen=True)
class Failure:
    """One sample that could not be loaded, at a position of its batch.

    `substitute` is the index of its substitute; None if it was left out, or none was found. `is_substitute` tells
    whether it was itself tried instead of another sample. `stage` is SampleError's, or "dataset" for an exception
    of a user's data set. `cause` is the type of the exception, for counts; empty if only a status is known.
    """

    position: int
    index: int
    substitute: int | None
    is_substitute: bool
    path: str | None
    stage: str
    errno: int | None
    cause: str
    text: str

    @classmethod
    def of(cls, error: BaseException, index: int, position: int, *, is_substitute: bool = False) -> Failure:
        """Returns the record of `error`, without frames, which would keep the data set alive."""
        if isinstance(error, SampleError):
            cause = "" if error.cause is None else type(error.cause).__name__
            return cls(position, index, None, is_substitute, error.path, error.stage, error.errno, cause, str(error))
        number = error.errno if isinstance(error, OSError) else None
        path = error.filename if isinstance(error, OSError) and isinstance(error.filename, str) else None
        name = type(error).__name__
        return cls(position, index, None, is_substitute, path, "dataset", number, name, f"{name}: {error}")

    @property
    def kind(self) -> str:
        """The stage and cause, for counts."""
        what = errno_names.errorcode.get(self.errno, self.cause) if self.errno is not None else self.cause
        return f"{self.stage}: {what}" if what else self.stage

    def as_dict(self) -> dict[str, Any]:
        names = ("position", "index", "substitute", "path", "stage", "errno", "text")
        return {name: getattr(self, name) for name in names}


class Account(NamedTuple):
    """A batch's report at delivery: the number of requested samples, and failures of these and of tried substitutes."""

    num_samples: int
    failures: tuple[Failure, ...]


def is_of_sample(error: BaseException) -> bool:
    """Returns whether `error` means that one sample is bad, and not memory, a device, an index or the program."""
    if not isinstance(error, Exception) or is_interrupt(error) or is_of_forked_cuda(error):
        return False
    if isinstance(error, SampleError):
        return not isinstance(error.cause, (MemoryError, DeviceError, *_OF_DEVICE))
    return not isinstance(error, (MemoryError, IndexError, FastloadError, *_OF_DEVICE))
