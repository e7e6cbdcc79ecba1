"""What two images say about how one came from the other, and what a native loader's report says about its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fastload._fallback import RgbImage
from fastload._verify._pipeline import is_rounding

# Of 2926 pairs of photographs the closest correlated by 0.72, a photograph with its JPEG of quality 5 by 0.88 or more.
_SAME_PICTURE_CORRELATION = 0.8
# Pictures with no structure to correlate are the same if they are about equally bright.
_FLAT_DEVIATION = 4.0
_RESAMPLING = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
_FLIP_LEFT_RIGHT, _FLIP_TOP_BOTTOM = 0, 1


def is_same_picture(old: Any, new: Any) -> bool:
    """Whether two images show the same, compression aside: equal size, and pixels that go together."""
    left, right = _array(old), _array(new)
    if left is None or right is None or left.shape != right.shape:
        return False
    if min(left.std(), right.std()) < _FLAT_DEVIATION:
        return bool(np.sqrt(np.mean((left - right) ** 2)) <= _FLAT_DEVIATION)
    return bool(np.corrcoef(left.ravel(), right.ravel())[0, 1] >= _SAME_PICTURE_CORRELATION)


def _array(image: Any) -> NDArray[np.float64] | None:
    try:
        array = np.asarray(image, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return array if array.size else None


def native_stage(expected: Any, found: Any) -> Literal["resize", "colour", "rounding"]:
    """At which stage a native loader left `expected`, given that it decoded the same pixels.

    One grey level or unit in the last place at most is rounding. Where equal values in a channel always became equal
    values it is the colour, else the geometry.
    """
    if not isinstance(expected, torch.Tensor) or expected.shape != found.shape or expected.dtype != found.dtype:
        return "resize"
    if is_rounding(expected, found) or _is_one_grey_level(expected, found):
        return "rounding"
    return "colour" if _is_value_for_value(expected, found) else "resize"


def _is_one_grey_level(expected: torch.Tensor, found: torch.Tensor) -> bool:
    """Of 256 at most, told by the smallest distance between two values of a channel."""
    for reference, other in zip(expected.double(), found.double(), strict=True):
        values = reference.unique()
        if not 1 < len(values) <= 256:
            return False
        if float((reference - other).abs().max()) > 1.01 * float(values.diff().min()):
            return False
    return True


def _is_value_for_value(expected: torch.Tensor, found: torch.Tensor) -> bool:
    for reference, other in zip(expected.double(), found.double(), strict=True):
        pairs = torch.stack([reference.reshape(-1), other.reshape(-1)], dim=1).unique(dim=0)  # type: ignore[no-untyped-call]
        if len(pairs) != len(reference.unique()):
            return False
    return True


def replay(image: RgbImage, steps: Iterable[tuple[Any, ...]]) -> RgbImage | None:
    """What Pillow makes of `image` by the steps of a `SampleReport`; None where one is of a kind not known here."""
    for kind, *values in steps:
        if kind == "crop" and len(values) == 8:
            left, top, width, height, *pads = values
            right, bottom = left + width, top + height
            # Pillow fills what lies outside of the image with zeros, as the report's pads are.
            image = image.crop((left - pads[0], top - pads[1], right + pads[2], bottom + pads[3]))
        elif kind == "resize" and values[2] in _RESAMPLING:
            image = image.resize((values[0], values[1]), _RESAMPLING[values[2]])
        elif kind == "hflip":
            image = image.transpose(_FLIP_LEFT_RIGHT)  # type: ignore[arg-type]
        elif kind == "vflip":
            image = image.transpose(_FLIP_TOP_BOTTOM)  # type: ignore[arg-type]
        else:
            return None
    return image
