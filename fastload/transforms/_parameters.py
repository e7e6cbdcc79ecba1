"""The arguments of transforms, as far as native code takes them; anything else runs in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from fastload import _native
from fastload.transforms import _recognize
from fastload.transforms._pillow_rules import AFFINE_FILTERS, FILTERS
from fastload.transforms._stage import Family, RunsInPythonError

_PADDING_MODES = ("constant", "edge", "reflect", "symmetric")
# torch draws float32 numbers that are multiples of this.
_RESOLUTION = 2.0**-24


def side(value: object) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 1 <= value <= _native.MAX_IMAGE_SIDE:
        return int(value)
    raise RunsInPythonError(f"size {value!r}", f"ints from 1 to {_native.MAX_IMAGE_SIDE}")


def sizes(value: object) -> tuple[int, ...]:
    """Returns the one or two sides in a size."""
    if not isinstance(value, (list, tuple)):
        return (side(value),)
    if len(value) not in (1, 2):
        raise RunsInPythonError(f"size {value!r}", "one or two ints")
    return tuple(map(side, value))


def height_and_width(value: object) -> tuple[int, int]:
    """Returns both sides, as constructors leave them; torchvision treats a single side differently, or raises."""
    both = sizes(value)
    if len(both) != 2:
        raise RunsInPythonError(f"size {value!r}", "height and width")
    return both[0], both[1]


def is_number(value: object) -> bool:
    """Returns whether it is exactly an int or float, and finite: with NumPy's numbers, torch would draw otherwise."""
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def number(value: object, name: str) -> float:
    if not is_number(value):
        raise RunsInPythonError(f"{name} {value!r}", "a finite Python number")
    return float(value)  # type: ignore[arg-type]


def pair(value: object, name: str, allowed: str = "two finite Python numbers") -> tuple[float, float]:
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(map(is_number, value)):
        return float(value[0]), float(value[1])
    raise RunsInPythonError(f"{name} {value!r}", allowed)


def interval(value: object, name: str) -> tuple[float, float]:
    allowed = "two Python numbers, the smaller one first"
    low, high = pair(value, name, allowed)
    if low <= high and max(-low, high, high - low) <= torch.finfo(torch.float32).max:
        return low, high
    raise RunsInPythonError(f"{name} {value!r}", allowed)


def flag(value: object, name: str) -> bool:
    if type(value) is not bool:
        raise RunsInPythonError(f"{name} {value!r}", "True or False")
    return value


def probability(value: object) -> float:
    """Returns p for a comparison with torch's draw as a tensor: as the float32 that torch compares with.

    The comparison has the same result in float32 and in float64.
    """
    return float(np.float32(_probability(value)))


def item_probability(value: object) -> float:
    """Returns p for ``torch.rand(1).item() < p``, a float64 comparison: the float32 that the same draws are below."""
    return math.ceil(_probability(value) / _RESOLUTION) * _RESOLUTION


def _probability(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:  # type: ignore[operator]
        raise RunsInPythonError(f"p is {value!r}", "a number from 0 to 1")
    return float(value)  # type: ignore[arg-type]


def log_ratio(transform: Any, family: Family) -> tuple[float, float]:
    """Returns the bounds between which torchvision draws the logarithm of the aspect ratio, by its own arithmetic."""
    # v2 makes them with the object, and keeps them when its `ratio` is changed.
    logs = transform._log_ratio if family == "v2" else torch.log(torch.tensor(transform.ratio))
    if type(logs) is not torch.Tensor or logs.dtype != torch.float32 or logs.shape != (2,) or not logs.isfinite().all():
        raise RunsInPythonError(f"its logarithms of the ratio are {logs!r}", "two numbers in torch.float32")
    low, high = logs.tolist()
    return interval((low, high), "log_ratio")


def interpolation(mode: object, family: Family) -> str:
    """Returns Pillow's name of the filter that torchvision takes for `mode`."""
    functional = _recognize.functional("v1")
    native = ", ".join(sorted(FILTERS.values()))
    try:
        if family == "v2" and not isinstance(mode, bool):
            mode = _recognize.loaded("v2.functional._geometry")._check_interpolation(mode)
        elif isinstance(mode, int) and not isinstance(mode, bool):
            mode = functional._interpolation_modes_from_int(int(mode))
        return FILTERS[functional.pil_modes_mapping[mode]]
    except (KeyError, ValueError, TypeError) as error:
        raise RunsInPythonError(f"interpolation {mode!r}", native) from error


def affine_interpolation(mode: object, family: Family) -> str:
    """Returns the same as interpolation(), for transforms that move pixels not only along rows and columns."""
    name = interpolation(mode, family)
    if name not in AFFINE_FILTERS.values():
        raise RunsInPythonError(f"interpolation {name}", ", ".join(AFFINE_FILTERS.values()))
    return name


def fill_of(transform: Any, family: Family) -> tuple[int, int, int]:
    """Returns the colour that a padding transform fills with, cut to ints as torchvision does for Pillow."""
    fill = transform.fill
    if family == "v2":
        fill = transform._fill
        if type(fill) is not dict or fill.keys() != {"others"}:
            raise RunsInPythonError(f"fill {fill!r} for each type", "one fill for all types")
        fill = fill["others"]
    return color(fill)


def color(fill: object) -> tuple[int, int, int]:
    """Returns three channels from None, a number, or a sequence of one or three numbers."""
    channels: list[Any] = list(fill) if isinstance(fill, (list, tuple)) else [0 if fill is None else fill]
    if len(channels) in (1, 3) and all(map(is_number, channels)) and all(0 <= int(value) <= 255 for value in channels):
        red, green, blue = (int(value) for value in (channels * 3)[:3])
        return red, green, blue
    raise RunsInPythonError(f"fill {fill!r}", "None, or one or three numbers from 0 to 255")


def paddings(value: object) -> tuple[int, int, int, int]:
    """Returns (left, top, right, bottom) from an int or a sequence of one, two or four, as torchvision reads them."""
    amounts: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
    most = _native.MAX_IMAGE_SIDE
    if len(amounts) in (1, 2, 4) and all(type(amount) is int and 0 <= amount <= most for amount in amounts):
        left, top, right, bottom = (amounts * 4)[:4]
        return left, top, right, bottom
    raise RunsInPythonError(f"padding {value!r}", f"one, two or four ints from 0 to {most}")


def padding_mode(value: object) -> str:
    if type(value) is str and value in _PADDING_MODES:
        return value
    raise RunsInPythonError(f"padding_mode {value!r}", ", ".join(_PADDING_MODES))
