"""Native steps of the transforms that give each pixel another value where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastload.transforms import _parameters
from fastload.transforms._stage import Op, RunsInPythonError, StageContext, Step

LowerOp = Callable[[Any], Op]


def lower_grayscale(transform: Any, context: StageContext) -> list[Step]:
    channels = transform.num_output_channels
    if type(channels) is not int or channels != 3:
        raise RunsInPythonError(f"num_output_channels {channels!r}", "3")
    return [{"kind": "pixel_op", "probability": None, "op": {"op": "grayscale"}}]


def lower_random_grayscale(transform: Any, context: StageContext) -> list[Step]:
    return [{"kind": "pixel_op", "probability": _parameters.probability(transform.p), "op": {"op": "grayscale"}}]


def random_op(lower_op: LowerOp) -> Callable[[Any, StageContext], list[Step]]:
    """The lowering of a transform that does one operation with probability p; v1 compares p as a Python number."""

    def lower(transform: Any, context: StageContext) -> list[Step]:
        threshold = _parameters.item_probability if context.family == "v1" else _parameters.probability
        return [{"kind": "pixel_op", "probability": threshold(transform.p), "op": lower_op(transform)}]

    return lower


def plain_op(name: str) -> LowerOp:
    return lambda transform: {"op": name}


def posterize(transform: Any) -> Op:
    return posterize_op(transform.bits)


def posterize_op(bits: object) -> Op:
    if type(bits) is not int or not 1 <= bits <= 8:
        raise RunsInPythonError(f"bits {bits!r}", "ints from 1 to 8")
    return {"op": "posterize", "bits": bits}


def solarize(transform: Any) -> Op:
    return {"op": "solarize", "threshold": _parameters.number(transform.threshold, "threshold")}


def sharpness(transform: Any) -> Op:
    return {"op": "sharpness", "factor": _parameters.number(transform.sharpness_factor, "sharpness_factor")}


def lower_color_jitter(transform: Any, context: StageContext) -> list[Step]:
    factors = {name: _factors(transform, name) for name in ("brightness", "contrast", "saturation", "hue")}
    return [{"kind": "color_jitter", **factors}]


def _factors(transform: Any, name: str) -> tuple[float, float] | None:
    value = getattr(transform, name)
    if value is None:
        return None
    low, high = _parameters.interval(value, name)
    if (low < -0.5 or high > 0.5) if name == "hue" else low < 0:
        raise RunsInPythonError(f"{name} {value!r}", "from -0.5 to 0.5" if name == "hue" else "not negative")
    return low, high
