"""What two images say about how one came from the other."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fastload._verify._compare import difference
from fastload._verify._settings import is_rounding

# Of 2926 pairs of photographs the closest correlated by 0.72, a photograph with its JPEG of quality 5 by 0.88 or more.
_SAME_PICTURE_CORRELATION = 0.8
# Pictures with no structure to correlate are the same if they are about equally bright.
_FLAT_DEVIATION = 4.0


def is_same_picture(old: Any, new: Any) -> bool:
    """Whether two images show the same, compression aside: equal size, and pixels that go together.

    Of two lists of views: whether that is so of all.
    """
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(is_same_picture, old, new))
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
    values it is the colour, else the geometry. Of two lists of views: of the first that differ.
    """
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        views = zip(expected, found, strict=True)
        return next((native_stage(*view) for view in views if difference(*view) is not None), "resize")
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
