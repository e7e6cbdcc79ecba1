"""Exceptions for bad samples, made from native code's reports."""

from __future__ import annotations

import errno
import os

from fastload import _native
from fastload._errors import sample_error
from fastload._pillow._pillow import classify_failure
from fastload._process._config import MAX_FILE_BYTES


def exception_of(failure: _native.SampleFailure, index: int, directory: int | None = None) -> BaseException:
    """Returns the exception for the first bad sample of a batch: Pillow's, the system's, or a native status in words.

    A relative path is relative to `directory`, a descriptor; None: the current directory.
    """
    path, stage = failure["path"], failure["stage"]
    if stage == "engine":
        kind = MemoryError if failure["is_out_of_memory"] else RuntimeError
        return kind(f"sample {index} ({os.fsdecode(path)!r}): {failure['detail']}")
    if (exception := failure["exception"]) is not None:
        return exception_of_pillow(exception, path, index, directory)
    text = ": ".join(part for part in (failure["text"], failure["detail"]) if part)
    cause: Exception | str = text
    next_step = None
    if number := failure["errno"]:
        if stage == "limit" and number == errno.EFBIG:
            limit = f"{MAX_FILE_BYTES >> 20} MiB"
            next_step = f"Files of more than {limit} are not read. Replace it, or cut off what follows the image."
        cause = OSError(number, os.strerror(number), os.fsdecode(path))
    elif stage in ("open", "read"):  # Python raises OSError, too, for something that is no file, or that shrank
        cause = OSError(text)
    elif stage == "transform":  # the type by which torchvision and Pillow report an image that is too small
        cause = ValueError(text)
    return sample_error(index, path, stage, cause, offset=failure["offset"] or None, next_step=next_step)


def exception_of_pillow(
    exception: BaseException, path: bytes, index: int, directory: int | None = None
) -> BaseException:
    """Returns the exception for a sample that Pillow could not decode."""
    stage, detail = classify_failure(exception, path, directory)
    return sample_error(index, path, stage, exception, detail=detail)
