"""Native steps of the transforms that change the value of each pixel and do not move it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastload import _native
from fastload.transforms import _parameters
from fastload.transforms._stage import RunsInPythonError, StageContext

LowerOp = Callable[[Any], _native.PixelOp]


def lower_grayscale(transform: Any, context: StageContext) -> list[_native.Step]:
    channels = transform.num_output_channels
    if type(channels) is not int or channels != 3:
        raise RunsInPythonError(f"num_output_channels {channels!r}", "3")
    return [_native.ApplyOp(op=_native.Grayscale(), probability=None)]


def lower_random_grayscale(transform: Any, context: StageContext) -> list[_native.Step]:
    return [_native.ApplyOp(op=_native.Grayscale(), probability=_parameters.probability(transform.p))]


def random_op(lower_op: LowerOp) -> Callable[[Any, StageContext], list[_native.Step]]:
    """Returns the lowering of a transform with one operation of probability p; v1 compares p as a Python number."""

    def lower(transform: Any, context: StageContext) -> list[_native.Step]:
        threshold = _parameters.item_probability if context.family == "v1" else _parameters.probability
        return [_native.ApplyOp(op=lower_op(transform), probability=threshold(transform.p))]

    return lower


def plain_op(kind: Callable[[], _native.PixelOp]) -> LowerOp:
    return lambda transform: kind()


def posterize(transform: Any) -> _native.PixelOp:
    return posterize_op(transform.bits)


def posterize_op(bits: object) -> _native.PixelOp:
    if type(bits) is not int or not 1 <= bits <= 8:
        raise RunsInPythonError(f"bits {bits!r}", "ints from 1 to 8")
    return _native.Posterize(bits=bits)


def solarize(transform: Any) -> _native.PixelOp:
    return _native.Solarize(threshold=_parameters.number(transform.threshold, "threshold"))


def sharpness(transform: Any) -> _native.PixelOp:
    return _native.Sharpness(factor=_parameters.number(transform.sharpness_factor, "sharpness_factor"))


def lower_color_jitter(transform: Any, context: StageContext) -> list[_native.Step]:
    factors = {name: _factors(transform, name) for name in ("brightness", "contrast", "saturation", "hue")}
    return [_native.ColorJitter(**factors)]


def _factors(transform: Any, name: str) -> tuple[float, float] | None:
    value = getattr(transform, name)
    if value is None:
        return None
    low, high = _parameters.interval(value, name)
    if (low < -0.5 or high > 0.5) if name == "hue" else low < 0:
        raise RunsInPythonError(f"{name} {value!r}", "from -0.5 to 0.5" if name == "hue" else "not negative")
    return low, high
