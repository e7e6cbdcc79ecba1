"""Runs a program that uses Pillow with Pillow alone and with fastload's opener, and compares the two."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import torch
from PIL import Image, __version__

import fastload
from fastload._images._deferred import Deferred

Program = Callable[[Any], Any]

# Before Pillow 11, Image.im was a plain attribute.
IS_DEFERRING = int(__version__.split(".")[0]) >= 11
needs_deferral = pytest.mark.skipif(not IS_DEFERRING, reason="images are not deferred before Pillow 11")


@contextlib.contextmanager
def native_opener() -> Iterator[None]:
    fastload.register_opener()
    try:
        yield
    finally:
        fastload.unregister_opener()


def described(value: Any) -> Any:
    """Returns `value` in a comparable form; images without the objects that hold their pixels."""
    if isinstance(value, Image.Image):
        state = {name: item for name, item in vars(value).items() if name not in ("_im", "im", "fp", "_fp", "info")}
        state = {name: described(item) for name, item in state.items()}
        file = _file_state(getattr(value, "fp", None))
        return (type(value), value.mode, value.size, described(_undated(value.info)), state, file, _pixels(value))
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.flags.writeable, value.tobytes())
    if isinstance(value, torch.Tensor):
        # A dimension of one element may have any stride.
        strides = [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1]
        return ("tensor", value.dtype, tuple(value.shape), strides, value.numpy().tobytes())
    if isinstance(value, dict):
        return {key: described(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    return value if isinstance(value, (str, bytes, int, float, bool, type(None), type)) else plain(repr(value))


def _undated(info: dict[Any, Any]) -> dict[Any, Any]:
    """Drops the second in which a profile was made: convert("LAB") makes one."""
    profile = info.get("icc_profile")
    return {**info, "icc_profile": profile[:24] + profile[36:]} if profile else dict(info)


def _file_state(file: Any) -> Any:
    return None if file is None else (type(file), file.closed, None if file.closed else file.tell())


def _pixels(image: Image.Image) -> Any:
    return outcome(lambda: (image.tobytes(), None if image.palette is None else bytes(image.palette.palette)))[0]


def plain(text: str) -> str:
    """Removes addresses."""
    return re.sub(r"0x[0-9A-Fa-f]+", "0x", text)


def outcome(program: Callable[[], Any]) -> tuple[Any, list[tuple[type, str, str, int]]]:
    """Returns the result of `program`, or the type and text of its error, and its warnings with their places."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = described(program())
        except Exception as error:  # noqa: BLE001 - whatever Pillow raises is the reference
            value = (type(error), plain(str(error)))
    return value, [_described_warning(each) for each in caught]


def _described_warning(caught: warnings.WarningMessage) -> tuple[type, str, str, int]:
    place = (caught.filename, caught.lineno)
    if issubclass(caught.category, ResourceWarning):  # about objects that the garbage collector finds
        place = ("", 0)
    return (caught.category, plain(str(caught.message)), *place)


def opened(source: Path | bytes) -> Any:
    return Image.open(source if isinstance(source, Path) else io.BytesIO(source))


def run(source: Path | bytes | Callable[[], BinaryIO], program: Program) -> Any:
    """Returns the outcome of `program` on the opened image, and the state of that image afterwards."""
    images: list[Any] = []

    def whole() -> Any:
        images.append(Image.open(source()) if callable(source) else opened(source))
        return program(images[0])

    result = outcome(whole)
    return (result, outcome(lambda: images[0])) if images else (result,)


def assert_same(source: Path | bytes | Callable[[], BinaryIO], program: Program, what: object = "") -> None:
    """Runs `program` with Pillow alone, then with the opener."""
    expected = run(source, program)
    with native_opener():
        actual = run(source, program)
    assert actual == expected, f"{what}: {str(actual)[:500]} is not {str(expected)[:500]}"


def assert_same_result(program: Callable[[], Any], what: object = "") -> None:
    """Runs `program` with Pillow alone, then with the opener."""
    expected = program()
    with native_opener():
        assert program() == expected, what


def is_deferred(image: Any) -> bool:
    return type(vars(image).get("_im")) is Deferred
