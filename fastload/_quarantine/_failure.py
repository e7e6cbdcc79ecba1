"""Samples that could not be loaded: what is kept of each."""

from __future__ import annotations

import errno as errno_names
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from fastload._errors import DeviceError, FastloadError, SampleError
from fastload._process._interrupts import is_interrupt

# Of torch's own that speak of the device; not every version has them.
_OF_DEVICE = tuple(getattr(torch, name) for name in ("OutOfMemoryError", "AcceleratorError") if hasattr(torch, name))


@dataclass(frozen=True)
class Failure:
    """One sample that could not be loaded.

    Attributes:
        position: In its batch.
        index: In the data set.
        substitute: Index of what stands in for it; None where it was left out, or nothing could be found.
        is_substitute: Whether it was tried in the place of another one.
        path: Of its file, where that is known.
        stage: Where it failed: those of SampleError, or "dataset" for what a data set of yours raises.
        errno: The system's error number, or None.
        cause: Type of the exception, for counts; empty where only a status is known.
        text: The message.
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
        """What is kept of `error`: no frames, which would keep the data set."""
        if isinstance(error, SampleError):
            cause = "" if error.cause is None else type(error.cause).__name__
            return cls(position, index, None, is_substitute, error.path, error.stage, error.errno, cause, str(error))
        number = error.errno if isinstance(error, OSError) else None
        path = error.filename if isinstance(error, OSError) and isinstance(error.filename, str) else None
        name = type(error).__name__
        return cls(position, index, None, is_substitute, path, "dataset", number, name, f"{name}: {error}")

    def with_substitute(self, index: int | None) -> Failure:
        return replace(self, substitute=index)

    @property
    def kind(self) -> str:
        """For counts: where it failed and by what."""
        what = errno_names.errorcode.get(self.errno, self.cause) if self.errno is not None else self.cause
        return f"{self.stage}: {what}" if what else self.stage

    def as_dict(self) -> dict[str, Any]:
        names = ("position", "index", "substitute", "path", "stage", "errno", "text")
        return {name: getattr(self, name) for name in names}


class Account(NamedTuple):
    """What a batch tells of its samples when it is handed out.

    Attributes:
        num_samples: That were asked for.
        failures: Among them, and among those that were tried in their place.
    """

    num_samples: int
    failures: tuple[Failure, ...]


def is_of_sample(error: BaseException) -> bool:
    """Whether `error` says that one sample is bad, and not that memory, a device, an index or the program is."""
    if not isinstance(error, Exception) or is_interrupt(error):
        return False
    if isinstance(error, SampleError):
        return not isinstance(error.cause, (MemoryError, DeviceError, *_OF_DEVICE))
    return not isinstance(error, (MemoryError, IndexError, FastloadError, *_OF_DEVICE))
