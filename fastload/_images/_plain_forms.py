"""Native steps for plain calls of Pillow's methods.

A call is plain if Pillow's method raises nothing and native code makes the same pixels, whatever the image contains.
The functions here return None for any other call. They look only at arguments and sizes, because an image is loaded
only afterwards.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

from PIL import ImageFilter

from fastload import _native
from fastload._process._originals import is_of_module, original_of
from fastload.transforms._pillow_rules import AFFINE_FILTERS, FILTERS

_DEFAULT_FILTER = 3
_AFFINE = 0  # PIL.Image.Transform.AFFINE
# Tables hold C ints; Pillow handles other values.
_LARGEST = 2**31 - 1
_NO_BOX = object()


@functools.cache
def transpositions() -> tuple[_native.Step, ...]:
    """Returns the steps of Image.transpose(method), by Pillow's integers for `method`."""
    turns = (_native.Rotate90, _native.Rotate180, _native.Rotate270, _native.Transpose, _native.Transverse)
    flips = (_native.RandomHorizontalFlip(probability=None), _native.RandomVerticalFlip(probability=None))
    return (*flips, *(_native.ApplyOp(op=turn(), probability=None) for turn in turns))


def is_inside(box: Any, size: tuple[int, int]) -> bool:
    """Returns whether Image.crop(box) gives a part of an image of `size`."""
    if type(box) not in (tuple, list) or len(box) != 4 or not all(type(edge) is int for edge in box):
        return False
    return _lies_inside(box, size)


def _lies_inside(box: Any, size: tuple[int, int]) -> bool:
    """Returns whether `box` lies inside an image of `size` and is not empty."""
    left, top, right, bottom = box
    return bool(0 <= left < right <= size[0] and 0 <= top < bottom <= size[1])


def resize_step(
    before: tuple[int, int], size: Any, resample: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _native.Step | None:
    """Returns the step for Image.resize(size, resample, *args, **kwargs) of an image of size `before`."""
    name = _filter_name(resample)
    box = _box_argument(args, kwargs) if args or kwargs else None
    if name is None or box is _NO_BOX or not _is_size(size):
        return None
    width, height = size
    if box is None:
        return _native.Resize(height=height, width=width, interpolation=name)
    edges = _float_box(box, before)
    return None if edges is None else _box_resize_step(edges, before, width, height, name)


def _box_argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the box among the arguments (box, reducing_gap); _NO_BOX if there are others, or a gap."""
    named = {**dict(zip(("box", "reducing_gap"), args, strict=False)), **kwargs}
    if len(named) != len(args) + len(kwargs) or not named.keys() <= {"box", "reducing_gap"}:
        return _NO_BOX
    return _NO_BOX if named.get("reducing_gap") is not None else named.get("box")


def _box_resize_step(
    box: tuple[float, float, float, float], before: tuple[int, int], width: int, height: int, name: str
) -> _native.Step | None:
    left, top, right, bottom = box
    if box == (0, 0, *before):
        return _native.Resize(height=height, width=width, interpolation=name)
    if left.is_integer() and top.is_integer() and (right - left, bottom - top) == (width, height):
        return _native.FixedCrop(left=int(left), top=int(top), width=width, height=height)  # Pillow does the same
    if name == "nearest":
        return None
    return _native.BoxResize(box=box, height=height, width=width, interpolation=name)


def _float_box(box: Any, size: tuple[int, int]) -> tuple[float, float, float, float] | None:
    """Returns the edges of a resize's box as float32, as Pillow has them; None if it is not plain or not inside."""
    if type(box) is not tuple or len(box) != 4 or not all(type(edge) in (int, float) for edge in box):
        return None
    if not _lies_inside(box, size):
        return None
    edges = struct.unpack("4f", struct.pack("4f", *box))
    return edges if _lies_inside(edges, size) else None


def _is_size(size: Any) -> bool:
    if type(size) not in (tuple, list) or len(size) != 2:
        return False
    return all(type(side) is int and 1 <= side <= _native.MAX_IMAGE_SIDE for side in size)


def _filter_name(resample: Any) -> str | None:
    if resample is None:
        resample = _DEFAULT_FILTER
    return FILTERS.get(resample) if _is_whole(resample) else None


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and type(number) is not bool


def affine_op(
    before: tuple[int, int], size: Any, method: Any, data: Any, resample: Any, fillcolor: Any, num_channels: int
) -> _native.PixelOp | None:
    """Returns the operation for Image.transform(size, method, data, resample, fillcolor=fillcolor)."""
    if not _is_size(size) or tuple(size) != before or method != _AFFINE or type(data) not in (list, tuple):
        return None
    filter_name = AFFINE_FILTERS.get(resample) if _is_whole(resample) else None
    fill = _fill(fillcolor, num_channels)
    matrix = data[:6]
    if filter_name is None or fill is None or len(matrix) != 6:
        return None
    if not all(type(number) in (int, float) and abs(number) < _LARGEST for number in matrix):  # excludes NaN, too
        return None
    return _native.Affine(matrix=matrix, fill=fill, interpolation=filter_name)


def _fill(color: Any, num_channels: int) -> tuple[int, ...] | None:
    """Returns a colour in three channels."""
    if color is None:
        return 0, 0, 0
    channels = color if num_channels == 3 else (color, color, color)
    if type(channels) is not tuple or len(channels) != 3:
        return None
    return channels if all(type(value) is int and 0 <= value <= 255 for value in channels) else None


def blur_op(asked: Any) -> _native.PixelOp | None:
    """Returns the operation for Image.filter(asked)."""
    kind = type(asked)
    if kind is not ImageFilter.GaussianBlur and kind is not ImageFilter.BoxBlur:
        return None
    if vars(asked).keys() != {"radius"} or not is_pillows(kind, "filter"):
        return None
    radius = asked.radius if type(asked.radius) is tuple else (asked.radius, asked.radius)
    if len(radius) != 2 or not all(_is_radius(number) for number in radius):
        return None
    return _native.ThreeBoxBlurs(sigma=radius) if kind is ImageFilter.GaussianBlur else _native.BoxBlur(radius=radius)


def _is_radius(number: Any) -> bool:
    return type(number) in (int, float) and 0 <= number <= _native.MAX_BOX_RADIUS


def table_op(values: Any, num_channels: int) -> _native.PixelOp | None:
    """Returns the operation for Image.point(values) of an image with this many channels."""
    if num_channels not in (1, 3) or type(values) not in (list, tuple, bytes) or len(values) != 256 * num_channels:
        return None
    kinds = set(map(type, values))
    if not kinds <= {int, float}:
        return None
    if float in kinds:
        if not all(abs(value) < _LARGEST for value in values):  # excludes NaN, too
            return None
        values = [round(value) for value in values]
    lowest, highest = min(values), max(values)
    if lowest < -_LARGEST or highest > _LARGEST:
        return None
    if lowest < 0 or highest > 255:
        values = [min(max(value, 0), 255) for value in values]
    return _native.PointTable(table=bytes(values) * (3 // num_channels))


def is_pillows(owner: Any, name: str) -> bool:
    """Returns whether the function `name` of Pillow's class or module `owner` is Pillow's own."""
    return is_of_module(owner, name, original_of(vars(owner).get(name)))
