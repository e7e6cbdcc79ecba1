"""Images made from arrays: the results of Image.fromarray() and Image.frombuffer(), and their link to the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from comparison import assert_same_result, is_deferred, native_opener, needs_deferral, outcome
from PIL import Image, ImageFilter


def _noise(*shape: int) -> Any:
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


def _read_only() -> Any:
    array = _noise(9, 8)
    array.flags.writeable = False
    return array


ARRAYS: dict[str, Callable[[], Any]] = {
    "gray": lambda: _noise(9, 8),
    "rgb": lambda: _noise(9, 8, 3),
    "rgba": lambda: _noise(9, 8, 4),
    "one channel": lambda: _noise(9, 8, 1),
    "four dimensions": lambda: _noise(2, 9, 8, 3),
    "line": lambda: _noise(9),
    "empty": lambda: _noise(0, 8),
    "empty rgb": lambda: _noise(9, 0, 3),
    "every other column": lambda: _noise(9, 8, 3)[:, ::2],
    "channels first": lambda: _noise(3, 9, 8).transpose(1, 2, 0),  # CIFAR10's layout
    "transposed": lambda: _noise(9, 8).T,
    "read only": _read_only,
    "int32": lambda: _noise(9, 8).astype(np.int32),
    "bool": lambda: _noise(9, 8) > 99,
    "derived class": lambda: _noise(9, 8).view(np.matrix),
    "no array": lambda: [[1, 2]],
}


def _written_later(array: Any, image: Any) -> Any:
    cropped, blurred = image.crop((1, 1, 6, 7)), image.filter(ImageFilter.BoxBlur(1))
    array[...] = 0
    return [image, cropped, blurred]


def _written_between(array: Any, image: Any) -> Any:
    copied, before = image.copy(), image.tobytes()
    array[...] = 77
    return [image.tobytes(), before, copied, image.resize((3, 4)), image.getpixel((1, 1))]


def _put(array: Any, image: Any) -> Any:
    image.putpixel((1, 1), 9)
    return [image, array]


def _put_by_access(array: Any, image: Any) -> Any:
    image.load()[1, 1] = image.getpixel((2, 2))
    return [image, array]


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "as it is": lambda array, image: image,
    "read only": lambda array, image: image.readonly,
    "converted": lambda array, image: image.convert("RGB"),
    "gray": lambda array, image: image.convert("L"),
    "access": lambda array, image: image.load()[1, 2],
    "array": lambda array, image: np.asarray(image),
    "written later": _written_later,
    "written between": _written_between,
    "put": _put,
    "put by access": _put_by_access,
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("mode", [None, "L", "RGB", "RGBA"])
def test_images_of_arrays(name: str, mode: str | None) -> None:
    for what, program in PROGRAMS.items():

        def run(program: Any = program) -> Any:
            array = ARRAYS[name]()
            arguments = () if mode is None else (mode,)
            return outcome(lambda: program(array, Image.fromarray(array, *arguments)))

        assert_same_result(run, what)


@needs_deferral
@pytest.mark.parametrize("name", ARRAYS)
def test_images_of_plain_arrays_are_deferred(name: str) -> None:
    with native_opener():
        try:
            image = Image.fromarray(ARRAYS[name]())
        except (TypeError, ValueError, AttributeError):
            return
        assert is_deferred(image) == (name in ("gray", "rgb", "every other column", "channels first", "read only"))


@pytest.mark.parametrize("name", ["gray", "rgb", "every other column", "transposed", "read only", "int32", "empty"])
@pytest.mark.parametrize("size", [(8, 9), (9, 8), (4, 9), (9, 9), [8, 9], (8, 9, 1)])
@pytest.mark.parametrize("arguments", [("raw", "L", 0, 1), ("raw", ("L", 0, 1)), ("raw", "L", 0, -1), ("raw",), ()])
def test_images_of_buffers(name: str, size: Any, arguments: tuple[Any, ...]) -> None:
    for mode in ("L", "RGB"):
        for what, program in PROGRAMS.items():

            def run(program: Any = program, mode: str = mode) -> Any:
                array = ARRAYS[name]()
                return outcome(lambda: program(array, Image.frombuffer(mode, size, array, *arguments)))

            assert_same_result(run, what)


@needs_deferral
def test_a_gray_buffer_in_torchvisions_form_is_deferred() -> None:
    with native_opener():
        assert is_deferred(Image.frombuffer("L", (8, 9), _noise(9, 8), "raw", "L", 0, 1))
        assert not is_deferred(Image.frombuffer("L", (8, 9), _noise(9, 8).tobytes(), "raw", "L", 0, 1))
