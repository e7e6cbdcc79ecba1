"""Pillow's methods that deferred images remember, replaced by functions that check whether an image is deferred.

They handle plain forms only (_plain_forms.py); any other call goes to Pillow's own method, which needs the pixels.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

from PIL import Image, ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from fastload import _native
from fastload._images._deferred import Deferred, DeferredAccess, deferred_like, image_in, pillow_obeys
from fastload._images._header import open_file
from fastload._images._opened import load_at_once, load_deferred, marks
from fastload._images._plain_forms import (
    affine_op,
    blur_op,
    is_inside,
    is_pillows,
    resize_step,
    table_op,
    transpositions,
)
from fastload._images._source import Steps
from fastload._images._tally import native_tally
from fastload._pillow import _pillow
from fastload._process._originals import Replacements

_Method = Callable[..., Any]


def _may_remember(image: Image.Image) -> bool:
    """Returns whether `image` is deferred, or may be after its load. Runs for every image of the program."""
    held: Any = getattr(image, "_im", None)  # images of a user's class may lack it
    if type(held) is Deferred:
        return held.recipe is not None
    return held is None and marks.has(image)


def _remembered(image: Image.Image) -> tuple[Any, Steps, Deferred] | None:
    """Returns source, steps and Deferred, after a load if needed; None if Pillow has loaded it."""
    held: Any = image._im
    if held is None:
        held = load_deferred(image)
    if type(held) is not Deferred or type(image) not in (Image.Image, JpegImageFile):
        return None
    recipe = held.recipe
    if recipe is None:
        return None
    source, steps = recipe
    if steps and sum(step.max_operations for step in steps) >= _native.MAX_OPERATIONS:
        return None
    return source, steps, held


def _derived(
    image: Image.Image, step: _native.Step | None, size: tuple[int, int] | None = None, mode: str | None = None
) -> Image.Image | None:
    """Returns the image after one more step; None if `image` turns out not to be deferred."""
    remembered = _remembered(image)
    if remembered is None:
        return None
    source, steps, deferred = remembered
    after = steps if step is None else (*steps, step)
    return deferred_like(image, Deferred(source.kept(), after, mode or deferred.mode, size or deferred.size))


def _changed(image: Image.Image, op: _native.PixelOp | None, mode: str | None = None) -> Image.Image | None:
    """Returns the image after one more operation; None if there is none, or `image` turns out not to be deferred."""
    return None if op is None else _derived(image, _native.ApplyOp(op=op, probability=None), mode=mode)


def _load(pillows: _Method) -> _Method:
    def load(self: Image.Image) -> Any:
        held: Any = self._im
        if type(held) is Deferred and self.palette is None:
            return DeferredAccess(held, self.readonly)
        return pillows(self)

    return load


def _load_file(pillows: _Method) -> _Method:
    def load(self: ImageFile.ImageFile) -> Any:
        if self._im is None and marks.has(self) and (deferred := load_deferred(self)) is not None:
            return DeferredAccess(deferred, self.readonly)
        return pillows(self)

    return load


def _load_file_at_once(pillows: _Method) -> _Method:
    """Returns a replacement for a Pillow whose images cannot be deferred."""

    def load(self: ImageFile.ImageFile) -> Any:
        load_at_once(self)
        return pillows(self)

    return load


def _copy(pillows: _Method) -> _Method:
    def copy(self: Image.Image) -> Image.Image:
        if _may_remember(self) and (made := _derived(self, None)) is not None:
            return made
        return pillows(self)  # type: ignore[no-any-return]

    return copy


def _convert(pillows: _Method) -> _Method:
    def convert(self: Image.Image, mode: Any = None, *args: Any, **kwargs: Any) -> Image.Image:
        if _may_remember(self) and not args and not kwargs and type(mode) is str and "transparency" not in self.info:
            made = None
            if mode == "RGB" or mode == self.mode == "L":
                made = _derived(self, None, mode=mode)
            elif mode == "L":
                made = _changed(self, _native.Luma(), mode)
            if made is not None:
                return made
        if type(mode) is str and mode.startswith("BGR;"):  # Pillow 11 warns of it, at the caller's line
            return _called_from(sys._getframe(1), functools.partial(pillows, self, mode, *args, **kwargs))
        return pillows(self, mode, *args, **kwargs)  # type: ignore[no-any-return]

    return convert


def _called_from(caller: FrameType, function: Callable[[], Image.Image]) -> Image.Image:
    """Calls `function` so that a warning with stacklevel names the line of `caller`."""
    code = compile("\n" * (caller.f_lineno - 1) + "function()", caller.f_code.co_filename, "eval")
    return eval(code, caller.f_globals, {"function": function})  # type: ignore[no-any-return]


def _crop(pillows: _Method) -> _Method:
    has_shortcut = int(_pillow.pillow_info().version.split(".")[0]) >= 13

    def crop(self: Image.Image, box: Any = None) -> Image.Image:
        if _may_remember(self) and (box is None or is_inside(box, self.size)):
            step = size = None
            if box is not None:
                left, top, right, bottom = box
                size = (right - left, bottom - top)
                step = _native.FixedCrop(left=left, top=top, width=size[0], height=size[1])
            if (made := _derived(self, step, size)) is not None:
                if size is not None and not (has_shortcut and box == (0, 0, *self.size)):
                    Image._decompression_bomb_check(size)
                return made
        return pillows(self, box)  # type: ignore[no-any-return]

    return crop


def _resize(pillows: _Method) -> _Method:
    def resize(self: Image.Image, size: Any, resample: Any = None, *args: Any, **kwargs: Any) -> Image.Image:
        if _may_remember(self) and (step := resize_step(self.size, size, resample, args, kwargs)) is not None:
            width, height = size
            made = _derived(self, step, (width, height))
            if made is not None:
                return made
        return pillows(self, size, resample, *args, **kwargs)  # type: ignore[no-any-return]

    return resize


def _transpose(pillows: _Method) -> _Method:
    def transpose(self: Image.Image, method: Any) -> Image.Image:
        if _may_remember(self) and isinstance(method, int) and 0 <= method < len(transpositions()):
            size = self.size
            made = _derived(self, transpositions()[method], size if method in (0, 1, 3) else (size[1], size[0]))
            if made is not None:
                return made
        return pillows(self, method)  # type: ignore[no-any-return]

    return transpose


def _transform(pillows: _Method) -> _Method:
    def transform(
        self: Image.Image,
        size: Any,
        method: Any,
        data: Any = None,
        resample: Any = Image.Resampling.NEAREST,
        fill: Any = 1,
        fillcolor: Any = None,
    ) -> Image.Image:
        if _may_remember(self):
            made = _changed(self, affine_op(self.size, size, method, data, resample, fillcolor, len(self.getbands())))
            if made is not None:
                return made
        return pillows(self, size, method, data, resample, fill, fillcolor)  # type: ignore[no-any-return]

    return transform


def _filter(pillows: _Method) -> _Method:
    def filter(self: Image.Image, filter: Any) -> Image.Image:
        if _may_remember(self) and (made := _changed(self, blur_op(filter))) is not None:
            return made
        return pillows(self, filter)  # type: ignore[no-any-return]

    return filter


def _point(pillows: _Method) -> _Method:
    def point(self: Image.Image, lut: Any, mode: Any = None) -> Image.Image:
        if _may_remember(self) and mode is None:
            if type(lut) is FunctionType and _remembered(self) is not None:  # Pillow makes a table of it, too
                values = [lut(value) for value in range(256)]
                lut = values * len(self.getbands())
            made = _changed(self, table_op(lut, len(self.getbands())))
            if made is not None:
                return made
        return pillows(self, lut, mode)  # type: ignore[no-any-return]

    return point


def _fromarray(pillows: _Method) -> _Method:
    warns_of_mode = "deprecate" in pillows.__code__.co_names

    def fromarray(obj: Any, mode: Any = None) -> Image.Image:
        if warns_of_mode and mode is not None:
            return _called_from(sys._getframe(1), functools.partial(pillows, obj, mode))
        is_native = native_tally() is not None and not _pillow.is_reference()
        if is_native and (made := image_in(obj, mode)) is not None:
            return made
        return pillows(obj, mode)  # type: ignore[no-any-return]

    return fromarray


def _frombuffer(pillows: _Method) -> _Method:
    def frombuffer(mode: str, size: Any, data: Any, decoder_name: str = "raw", *args: Any) -> Image.Image:
        """Handles the form in which torchvision's MNIST makes its images."""
        is_plain = (mode, decoder_name, *args) == ("L", "raw", "L", 0, 1) and type(size) is tuple
        if is_plain and native_tally() is not None and not _pillow.is_reference():
            made = image_in(data, mode) if getattr(data, "shape", None) == size[::-1] else None
            if made is not None:
                return made
        return pillows(mode, size, data, decoder_name, *args)  # type: ignore[no-any-return]

    return frombuffer


def _tobytes(pillows: _Method) -> _Method:
    def tobytes(self: Image.Image, encoder_name: str = "raw", *args: Any) -> bytes:
        if encoder_name == "raw" and not args:
            held: Any = getattr(self, "_im", None)
            if held is None and marks.has(self):
                held = load_deferred(self)
            if type(held) is Deferred and (pixels := held.pixels()) is not None:
                return pixels
        return pillows(self, encoder_name, *args)  # type: ignore[no-any-return]

    return tobytes


_Exchange = tuple[Any, str, Callable[[_Method], _Method]]
_REMEMBERED: tuple[_Exchange, ...] = (
    (Image.Image, "load", _load),
    (ImageFile.ImageFile, "load", _load_file),
    (Image.Image, "copy", _copy),
    (Image.Image, "convert", _convert),
    (Image.Image, "crop", _crop),
    (Image.Image, "transpose", _transpose),
    (Image.Image, "point", _point),
    (Image.Image, "tobytes", _tobytes),
    (Image, "fromarray", _fromarray),
    (Image, "frombuffer", _frombuffer),
)
# Pillow-SIMD has its own arithmetic.
_BY_PILLOWS_ARITHMETIC: tuple[_Exchange, ...] = (
    (Image.Image, "resize", _resize),
    (Image.Image, "filter", _filter),
    (Image.Image, "transform", _transform),
)
_HEADER: _Exchange = (JpegImageFile, "_open", open_file)
_AT_ONCE: tuple[_Exchange, ...] = ((ImageFile.ImageFile, "load", _load_file_at_once),)


class PillowMethods(Replacements):
    """The replacement of Pillow's methods.

    Attributes:
        is_deferring: Whether images are deferred; otherwise native code decodes them when Pillow would. None before the
            first replacement.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_deferring: bool | None = None

    def exchange(self) -> None:
        exchanges = _REMEMBERED if _pillow.pillow_info().is_simd else _REMEMBERED + _BY_PILLOWS_ARITHMETIC
        self.is_deferring = all(is_pillows(owner, name) for owner, name, _ in exchanges) and pillow_obeys()
        header = (_HEADER,) if is_pillows(*_HEADER[:2]) else ()
        for owner, name, make in (*header, *(exchanges if self.is_deferring else _AT_ONCE)):
            self.replace(owner, name, make)
