"""The only user of OpenCV: the results of cv2.imread, decoded natively where that is exact."""

from __future__ import annotations

import base64
import errno
import functools
import importlib
import os
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload._images._plain_forms import transpositions
from fastload._pillow._decode_image import no_draws, thread_decoder
from fastload._process import _config
from fastload._process._interrupts import equal_arrays

# Values of OpenCV's IMREAD_COLOR, IMREAD_IGNORE_ORIENTATION and IMREAD_COLOR_RGB.
_COLOR, _IGNORE_ORIENTATION, _COLOR_RGB = 1, 128, 256
# OpenCV refuses images with more pixels.
_MAX_PIXELS = 1 << 30

# 23 x 17 pixels of noise, 4:2:0, EXIF orientation 6. An inverse DCT other than libjpeg's accurate one changes half of
# its bytes; repeated instead of interpolated chroma changes six of seven.
_TEST_FILE = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDAAYEBQYFBAYGBQYHBwYIChAKCgkJCh"
    "QODwwQFxQYGBcUFhYaHSUfGhsjHBYWICwgIyYnKSopGR8tMC0oMCUoKSj/2wBDAQcHBwoIChMKChMoGhYaKCgoKCgoKCgoKCgoKCgoKCgoKCgo"
    "KCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCj/wAARCAARABcDASIAAhEBAxEB/8QAGwABAAICAwAAAAAAAAAAAAAAAAEFAgMEBgf/xAAvEA"
    "ABAgUCAgcJAAAAAAAAAAABAgQAAwUREhMhBjEUIjZBc4GzFSMyN1FhcYKy/8QAFwEAAwEAAAAAAAAAAAAAAAAAAgMFBP/EACwRAAEDAQQHCQAA"
    "AAAAAAAAAAECAxEABCEykQUTIjRRcaESMUFhcoGxwcL/2gAMAwEAAhEDEQA/APEG4dVRm2YIOo2bZdMm7DLI5I22PMW284k1mTVHtpc3QfTSEh"
    "eJVkdgBawH03+0RQ5qafTn9PfzZjaedPDo6sHI3Kje+/Iju5RxJ+o4q7twGs72UuXYqaS+oUgAKxPw32V5w/XoSS0vZBkg+BmJPMm+JPnPfTFt"
    "611QiO1OYiZMwqQU4gRwAvrfUm7yns1B1K0m655WVZBWpMIPXsNxcDlyEIs0SKazo8r3LpTCYoTAlaUkhZT3jlew/MImqUw2YeSoqN+zAGRk9a"
    "12O2WwNBFlbCkC6ePWqPib5guf19IR2DhrsGnwZ39LhCA0tuzfr+qBnCjmfzWNU7ItPGR6ZhCEFaceVWNDbt7n5r//2Q=="
)


def imread(path: str | os.PathLike[str], flags: int = _COLOR) -> NDArray[Any] | None:
    """Reads an image file to an array, with the result of ``cv2.imread(path, flags)``.

    Clean JPEG files are decoded natively with the GIL released if `flags` is ``cv2.IMREAD_COLOR`` or
    ``cv2.IMREAD_COLOR_RGB``, each also with ``cv2.IMREAD_IGNORE_ORIENTATION``. ``cv2.imread`` reads all other files and
    handles all other flags. It reads every file if the installed OpenCV decodes JPEG differently, which a test image
    shows at the first call. Threads read in parallel; each keeps its decoding memory, a few bytes per pixel of its
    largest image.

    Args:
        path: str or PathLike.
        flags: OpenCV's ``IMREAD_...`` flags.

    Returns:
        uint8 [height, width, 3], contiguous, blue first (red first with ``IMREAD_COLOR_RGB``), turned by the EXIF
        orientation; it shares no memory. For other flags and files, OpenCV's result; None, with OpenCV's warning, for a
        file that it cannot read, such as a missing one.

    Raises:
        ImportError: OpenCV is not installed.
        OSError: a FIFO, on which OpenCV would wait forever.
        UnicodeEncodeError: a name that is not UTF-8, with which OpenCV aborts the process.
        Exception: any exception of ``cv2.imread``, including cv2.error and TypeError.

    Example:
        >>> fastload.imread("cat.jpg").shape
        (375, 500, 3)
    """
    cv2 = _opencv()
    pixels = _decode_natively(path, flags)
    if pixels is not None:
        return pixels
    if _is_fifo(path):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    read: NDArray[Any] | None = cv2.imread(path, flags)
    return read


def _opencv() -> Any:
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        message = "fastload.imread needs OpenCV, whose cv2.imread it matches: pip install opencv-python-headless"
        raise ImportError(message) from error


def _decode_natively(path: str | os.PathLike[str], flags: int) -> NDArray[np.uint8] | None:
    """Returns the pixels; None if OpenCV has to decode them or to report an error."""
    name = _file_name(path)
    if name is None or type(flags) is not int or (plans := _exact_plans().get(flags)) is None:
        return None
    result = thread_decoder(_MAX_PIXELS).run_file(name, plans, no_draws())
    return None if isinstance(result, dict) else result


def _file_name(path: str | os.PathLike[str]) -> bytes | None:
    """Returns the name that OpenCV passes to the system; None if OpenCV has to report what is wrong with it."""
    name: object = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str) or "\0" in name:
        return None
    return name.encode()


def _is_fifo(path: str | os.PathLike[str]) -> bool:
    try:
        return isinstance(path, (str, os.PathLike)) and stat.S_ISFIFO(Path(path).stat().st_mode)
    except (OSError, ValueError):  # OpenCV has its own message
        return False


@functools.cache
def _exact_plans() -> dict[int, tuple[_native.TransformPlan, ...]]:
    """Returns the flags with which native code and the installed OpenCV decode the test image equally, with plans.

    A flag's plans are for the EXIF orientations 1 to 8. There are none if limits are set for OpenCV.
    """
    if _config.has_opencv_limits():
        return {}
    decode = _opencv().imdecode
    contents = np.frombuffer(_TEST_FILE, np.uint8)
    exact = {}
    for flags in (_COLOR, _COLOR_RGB, _COLOR | _IGNORE_ORIENTATION, _COLOR_RGB | _IGNORE_ORIENTATION):
        plans = _plans(is_bgr=bool(flags & _COLOR), is_turned=not flags & _IGNORE_ORIENTATION)
        pixels = thread_decoder().run_bytes(_TEST_FILE, plans, no_draws())
        theirs = decode(contents, flags)
        if isinstance(pixels, np.ndarray) and isinstance(theirs, np.ndarray) and equal_arrays(pixels, theirs):
            exact[flags] = plans
    return exact


def _plans(*, is_bgr: bool, is_turned: bool) -> tuple[_native.TransformPlan, ...]:
    plain = _plan([], is_bgr)
    if not is_turned:
        return (plain,) * 8
    # Pillow's integers for the turns that EXIF orientations 2 to 8 ask for.
    return (plain, *(_plan([transpositions()[method]], is_bgr) for method in (0, 3, 1, 5, 4, 6, 2)))


def _plan(steps: list[_native.Step], is_bgr: bool) -> _native.TransformPlan:
    return _native.TransformPlan(
        list(enumerate(steps)), resize_order="horizontal_first", allow_variable_size=True, bgr=is_bgr
    )


def num_pool_threads() -> int:
    """Returns the number of threads that OpenCV's functions use; 0 if nothing has imported OpenCV."""
    cv2: Any = sys.modules.get("cv2")
    return 0 if cv2 is None else int(cv2.getNumThreads())


def set_num_pool_threads(number: int) -> None:
    """Sets the number of threads, if something has imported OpenCV."""
    cv2: Any = sys.modules.get("cv2")
    if cv2 is not None:
        cv2.setNumThreads(number)
