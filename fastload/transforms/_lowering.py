"""From a torchvision transform to native steps and a table, where the result is known to be the same bytes.

torchvision is looked up among the loaded modules and never imported: a transform of its types brings it along. Only
its exact (v1) classes are recognised, with nothing about the object or the class overridden.

The geometric part becomes steps. The tensor part is not interpreted at all: torch runs the user's own objects on an
image that holds every value in every channel, and what comes out is the table that native code looks elements up in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastload._fallback import rgb_image

# Limits of the native plan (csrc/image/transform_plan.h).
_MAX_SIDE = 65535
_MAX_RESOLVED_STEPS = 16

_INTERPOLATIONS = {2: "bilinear", 3: "bicubic"}  # Pillow's integer constants
_DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)

Step = dict[str, Any]


@dataclass(frozen=True)
class TransformStage:
    """One transform of the pipeline, nested Composes flattened.

    Attributes:
        position: From 0.
        total: Number of transforms.
        name: Class name.
        problem: Why it is not native, as a clause; None where it is native.
    """

    position: int
    total: int
    name: str
    problem: str | None

    def __str__(self) -> str:
        return f"position {self.position + 1} of {self.total}, {self.name}: {self.problem or 'native'}"


@dataclass(frozen=True)
class LoweredTransform:
    """A transform as native steps. Two of them are equal where they give the same bytes.

    Attributes:
        steps: In order; each a dict of "kind", "position" (from 0, in the flattened pipeline) and
            random_resized_crop: height, width, scale, ratio, log_ratio, interpolation; resize: height, width,
            interpolation; resize_shorter_side: size, max_size (None: none), interpolation; center_crop: height,
            width; horizontal_flip: probability.
        height, width: Size of every result.
        dtype: Of every result, which is [3, height, width], contiguous.
        element_size: Bytes of an element.
        table: 3 * 256 elements in `dtype` (element 256 * c + v is what value v of channel c becomes), or None where
            the result is the uint8 image itself.
        stages: What explain() shows.
    """

    steps: tuple[Step, ...]
    height: int
    width: int
    dtype: torch.dtype
    element_size: int
    table: bytes | None
    stages: tuple[TransformStage, ...]


@dataclass(frozen=True)
class NotLowered:
    """Why a transform runs in Python, as a sentence without a full stop, and what is known of each stage."""

    reason: str
    stages: tuple[TransformStage, ...] = ()


class _NotNativeError(Exception):
    """The problem of one stage, or of the pipeline as a whole."""


def lower_transform(transform: object) -> LoweredTransform | NotLowered:
    """Lower `transform`: a Compose, or one transform, that takes a PIL RGB image.

    Native: RandomResizedCrop, Resize, CenterCrop and RandomHorizontalFlip in any order, then PILToTensor or ToTensor,
    then ConvertImageDtype and Normalize in any order, if all results have the same size.

    The objects can be changed later without notice and torch's defaults matter to them, so lower again at each epoch
    and compare: about 0.3 ms.
    """
    if transform is None:
        return NotLowered("there is no transform, so the samples are PIL images")
    module = sys.modules.get("torchvision.transforms.transforms")
    try:
        transforms = _flatten(transform, module)
    except RecursionError:
        return NotLowered("a Compose contains itself")
    stages, geometry, tail = _examine(transforms, module)
    for stage in stages:
        if stage.problem is not None:
            return NotLowered(str(stage), stages)
    try:
        _check_surroundings()
        _check_step_count(geometry)
        height, width = _output_size(geometry)
        dtype, table = _tabulate(tail)
    except _NotNativeError as error:
        return NotLowered(str(error), stages)
    return LoweredTransform(tuple(geometry), height, width, dtype, dtype.itemsize, table, stages)


def _flatten(transform: Any, module: ModuleType | None) -> list[Any]:
    """The transforms in calling order. A Compose that is anything but plain stays in the list, to be refused there."""
    if module is None or type(transform) is not module.Compose or _problem_of_object(transform, module) is not None:
        return [transform]
    if type(transform.transforms) not in (list, tuple):
        return [transform]
    return [inner for outer in transform.transforms for inner in _flatten(outer, module)]


def _examine(
    transforms: list[Any], module: ModuleType | None
) -> tuple[tuple[TransformStage, ...], list[Step], list[Any]]:
    """Each stage's verdict, the native steps, and the transforms of the tensor part."""
    stages: list[TransformStage] = []
    geometry: list[Step] = []
    tail: list[Any] = []
    for position, transform in enumerate(transforms):
        problem = None
        try:
            step = _lower_stage(transform, module, is_tensor=bool(tail))
        except _NotNativeError as error:
            problem = str(error)
        else:
            if step is None:
                tail.append(transform)
            else:
                geometry.append({**step, "position": position})
        stages.append(TransformStage(position, len(transforms), _class_name(type(transform)), problem))
    return tuple(stages), geometry, tail


def _lower_stage(transform: Any, module: ModuleType | None, *, is_tensor: bool) -> Step | None:
    """The step of a geometric transform, or None for one of the tensor part."""
    name = type(transform).__name__
    is_known = name in _GEOMETRY or name in _TO_TENSOR or name in _ON_TENSOR
    if module is None or not is_known or type(transform) is not getattr(module, name, None):
        raise _NotNativeError(f"not native (native: {', '.join(_NATIVE_NAMES)})")
    problem = _problem_of_object(transform, module)
    if problem is not None:
        raise _NotNativeError(problem)
    if name in _ON_TENSOR:
        if not is_tensor:
            raise _NotNativeError("not native on images (native: after PILToTensor or ToTensor)")
        return None
    if is_tensor:
        raise _NotNativeError("not native on tensors (native: before PILToTensor or ToTensor)")
    return None if name in _TO_TENSOR else _GEOMETRY[name](transform, module)


# What user code may have changed about a known transform.


def _problem_of_object(transform: Any, module: ModuleType) -> str | None:
    kind = type(transform)
    hidden = [name for name in vars(transform) if callable(getattr(kind, name, None))]
    if hidden:
        return f"{hidden[0]} was overridden on this object"
    is_module = isinstance(transform, torch.nn.Module)
    for name in ("forward" if is_module else "__call__", "get_params"):
        method = getattr(kind, name, None)
        if method is not None and getattr(method, "__globals__", None) is not vars(module):
            return f"{name} of torchvision's class was replaced"
    return _problem_of_module(transform) if is_module else None


def _problem_of_module(transform: torch.nn.Module) -> str | None:
    if type(transform).__call__ is not torch.nn.Module.__call__:
        return "__call__ of torchvision's class was replaced"
    if transform._compiled_call_impl is not None:
        return "it was compiled"
    names = ("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks")
    if any(getattr(transform, f"_{name}") for name in names):
        return "it has hooks"
    if any(getattr(torch.nn.modules.module, f"_global_{name}") for name in names):
        return "there are hooks for all torch modules"
    return None


# The geometric transforms: their parameters, as far as native code takes them.


def _lower_random_resized_crop(transform: Any, module: ModuleType) -> Step:
    height, width = _height_width(transform.size)
    scale, ratio = _interval(transform.scale, "scale"), _interval(transform.ratio, "ratio")
    if scale[0] < 0 or ratio[0] <= 0:
        raise _NotNativeError(f"scale {scale} or ratio {ratio} is not positive")
    interpolation = _interpolation(transform.interpolation, module)
    return {
        "kind": "random_resized_crop",
        "height": height,
        "width": width,
        "scale": scale,
        "ratio": ratio,
        "log_ratio": tuple(torch.log(torch.tensor(ratio, dtype=torch.float32, device="cpu")).tolist()),
        "interpolation": interpolation,
    }


def _lower_resize(transform: Any, module: ModuleType) -> Step:
    interpolation = _interpolation(transform.interpolation, module)
    sizes = _sizes(transform.size)
    max_size = transform.max_size
    if len(sizes) == 1:
        if max_size is not None and (_side(max_size) <= sizes[0]):
            raise _NotNativeError(f"max_size {max_size} is not greater than size {sizes[0]}")
        limit = None if max_size is None else _side(max_size)
        return {"kind": "resize_shorter_side", "size": sizes[0], "max_size": limit, "interpolation": interpolation}
    if max_size is not None:
        raise _NotNativeError(f"max_size {max_size} together with height and width")
    return {"kind": "resize", "height": sizes[0], "width": sizes[1], "interpolation": interpolation}


def _lower_center_crop(transform: Any, module: ModuleType) -> Step:
    height, width = _height_width(transform.size)
    return {"kind": "center_crop", "height": height, "width": width}


def _lower_horizontal_flip(transform: Any, module: ModuleType) -> Step:
    probability = transform.p
    if type(probability) not in (int, float) or not 0 <= probability <= 1:
        raise _NotNativeError(f"p is {probability!r} (native: a number from 0 to 1)")
    return {"kind": "horizontal_flip", "probability": float(probability)}


_GEOMETRY: dict[str, Callable[[Any, ModuleType], Step]] = {
    "RandomResizedCrop": _lower_random_resized_crop,
    "Resize": _lower_resize,
    "CenterCrop": _lower_center_crop,
    "RandomHorizontalFlip": _lower_horizontal_flip,
}
_TO_TENSOR = ("PILToTensor", "ToTensor")
_ON_TENSOR = ("ConvertImageDtype", "Normalize")
_NATIVE_NAMES = sorted([*_GEOMETRY, *_TO_TENSOR, *_ON_TENSOR])


def _side(value: object) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 1 <= value <= _MAX_SIDE:
        return int(value)
    raise _NotNativeError(f"size {value!r} (native: ints from 1 to {_MAX_SIDE})")


def _sizes(value: object) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        return (_side(value),)
    if len(value) not in (1, 2):
        raise _NotNativeError(f"size {value!r} (native: one or two ints)")
    return tuple(map(_side, value))


def _height_width(value: object) -> tuple[int, int]:
    sizes = _sizes(value)
    return sizes[0], sizes[-1]


def _interval(value: object, name: str) -> tuple[float, float]:
    # Exactly int and float: torch.tensor of NumPy's float64 is float64, and then all draws come out differently.
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(bound) in (int, float) for bound in value):
        low, high = float(value[0]), float(value[1])
        if low <= high <= torch.finfo(torch.float32).max:
            return low, high
    raise _NotNativeError(f"{name} {value!r} (native: two Python numbers, the smaller one first)")


def _interpolation(mode: object, module: ModuleType) -> str:
    name = str(mode.value) if isinstance(mode, module.InterpolationMode) else None
    if isinstance(mode, int):
        name = _INTERPOLATIONS.get(int(mode), f"number {int(mode)}")
    if name in _INTERPOLATIONS.values():
        return str(name)
    raise _NotNativeError(f"interpolation {name or repr(mode)} (native: {', '.join(_INTERPOLATIONS.values())})")


# The pipeline as a whole.


def _check_surroundings() -> None:
    """Refuse where torchvision would draw its random numbers in another type or on another device."""
    probe = torch.empty(0)
    if probe.dtype != torch.float32 or probe.device.type != "cpu":
        raise _NotNativeError(f"torch's defaults are {probe.dtype} on {probe.device} (native: torch.float32 on cpu)")


def _check_step_count(geometry: Sequence[Step]) -> None:
    count = len(geometry) + sum(step["kind"] == "random_resized_crop" for step in geometry)
    if count > _MAX_RESOLVED_STEPS:
        raise _NotNativeError(f"{count} image operations (native: at most {_MAX_RESOLVED_STEPS})")


def _output_size(geometry: Sequence[Step]) -> tuple[int, int]:
    """(height, width) of every result."""
    size: tuple[int, int] | None = None
    for step in geometry:
        if step["kind"] == "resize_shorter_side":
            size = None if size is None else _resized_shorter_side(size, step["size"], step["max_size"])
        elif step["kind"] != "horizontal_flip":
            size = (step["height"], step["width"])
    if size is None:
        raise _NotNativeError(
            "the size of the result depends on the image (native: with a CenterCrop, a RandomResizedCrop or a Resize "
            "to height and width)"
        )
    return size


def _resized_shorter_side(size: tuple[int, int], short: int, max_size: int | None) -> tuple[int, int]:
    """torchvision's rule: the long side is truncated; `max_size` bounds it and then shortens the short side."""
    long = int(short * max(size) / min(size))
    if max_size is not None and long > max_size:
        short, long = int(max_size * short / long), max_size
    if short < 1 or long > _MAX_SIDE:
        raise _NotNativeError(f"a Resize gives sides of {short} and {long} (native: 1 to {_MAX_SIDE})")
    return (short, long) if size[0] <= size[1] else (long, short)


def _tabulate(tail: Sequence[Any]) -> tuple[torch.dtype, bytes | None]:
    """Type and table of the tensor part; refused unless each element depends on its own value and channel only."""
    if not tail:
        raise _NotNativeError("the result is a PIL image (native: with a PILToTensor or ToTensor)")
    columns = np.arange(256, dtype=np.uint8)
    dtype, first = _run_tail(tail, np.repeat(columns[None, :, None], 3, axis=2))
    table = first[:, 0]
    # All values again, in another order in each channel and in a shape that fills no vector register evenly.
    counting = np.arange(27 * 19).reshape(27, 19)
    mixed = np.stack([counting * step + 31 * step for step in (5, 77, 201)], axis=2).astype(np.uint8)
    again_dtype, again = _run_tail(tail, mixed)
    channels = np.arange(3)[:, None, None]
    if again_dtype != dtype or not np.array_equal(again, table[channels, mixed.transpose(2, 0, 1)]):
        raise _NotNativeError("the tensor part does not treat each element for itself")
    is_identity = dtype == torch.uint8 and np.array_equal(table[:, :, 0], np.tile(columns, (3, 1)))
    return dtype, None if is_identity else table.tobytes()


def _run_tail(tail: Sequence[Any], pixels: NDArray[np.uint8]) -> tuple[torch.dtype, NDArray[np.uint8]]:
    """Type and bytes, uint8 [3, height, width, element size], of what `tail` makes of the RGB image `pixels`."""
    height, width, _ = pixels.shape
    result: Any = rgb_image(pixels.tobytes(), width, height)
    try:
        with torch.no_grad():
            for transform in tail:
                result = transform(result)
    except Exception as error:  # torchvision raises it again for the first sample, in Python
        raise _NotNativeError(f"the tensor part raises {type(error).__name__}: {error}") from error
    if type(result) is not torch.Tensor or result.dtype not in _DTYPES or result.device.type != "cpu":
        raise _NotNativeError(f"the tensor part gives {_describe(result)} (native: plain CPU tensors of real numbers)")
    if tuple(result.shape) != (3, height, width):
        raise _NotNativeError(f"the tensor part makes {tuple(result.shape)} of (3, {height}, {width})")
    elements = result.contiguous().view(-1, 1).view(torch.uint8).numpy()
    return result.dtype, elements.reshape(3, height, width, result.element_size())


def _describe(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{type(value).__name__} of {value.dtype} on {value.device}"
    return _class_name(type(value))


def _class_name(kind: type) -> str:
    """As users write it: ``Resize``, ``v2.Resize``, ``torch.nn.modules.container.Sequential``."""
    if kind.__module__.startswith("torchvision.transforms.v2"):
        return f"v2.{kind.__name__}"
    if kind.__module__.startswith("torchvision.transforms.") or kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"
