"""A stand-in for an image that records how it would be moved, so that Pillow's own code computes the operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastload import _native
from fastload._pillow._pillow import RgbImage
from fastload.transforms._pillow_rules import AFFINE_FILTERS
from fastload.transforms._stage import RunsInPythonError, Size

_AFFINE = 0  # Pillow's integers
_NEAREST = 0
_ROTATIONS = {2: _native.Rotate90, 3: _native.Rotate180, 4: _native.Rotate270}


class RecordedImage(RgbImage):
    """An RGB image without pixels. Turning, shearing or shifting it returns it unchanged, with the operation in `op`.

    Attributes:
        op: The last operation; None before the first.
    """

    def __init__(self, size: Size) -> None:
        # Image.__init__ is not called: it sets attributes that are properties here.
        self.op: _native.PixelOp | None = None
        self._height, self._width = size

    @property
    def mode(self) -> str:
        return "RGB"

    @property
    def size(self) -> tuple[int, int]:
        return self._width, self._height

    @property
    def width(self) -> int:
        return self._width

    @property
    def height(self) -> int:
        return self._height

    def getbands(self) -> tuple[str, ...]:
        return "R", "G", "B"

    def copy(self) -> RgbImage:
        return self._note(_native.Identity())

    def transpose(self, method: Any) -> RgbImage:
        if int(method) not in _ROTATIONS:
            raise RunsInPythonError(f"it transposes by {method!r}")
        return self._note(_ROTATIONS[int(method)]())

    def transform(
        self,
        size: tuple[int, int],
        method: Any,
        data: Sequence[Any] | None = None,
        resample: Any = _NEAREST,
        fill: int = 1,
        fillcolor: Any = None,
    ) -> RgbImage:
        interpolation = AFFINE_FILTERS.get(resample)
        if tuple(size) != self.size or method != _AFFINE or interpolation is None or data is None or len(data) < 6:
            raise RunsInPythonError("it moves pixels", "affine transforms to the same size")
        matrix = [float(element) for element in data[:6]]
        return self._note(_native.Affine(matrix=matrix, fill=fillcolor, interpolation=interpolation))

    def _note(self, op: _native.PixelOp) -> RgbImage:
        self.op = op
        return self
