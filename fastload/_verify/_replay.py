"""What Pillow and torchvision make of an image by what a native loader reports to have done to it.

torchvision's functions are those of the module that the caller has loaded; without it some steps stay unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import torch

from fastload._pillow._pillow import RgbImage
from fastload._verify._pipeline import flatten
from fastload._verify._random_world import RandomWorlds
from fastload.transforms import _recognize
from fastload.transforms._multi_view import views_of

Step = tuple[Any, ...]

# Pillow's numbers.
_RESAMPLING = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
_TRANSPOSITIONS = {"hflip": 0, "vflip": 1, "rotate90": 2, "rotate180": 3, "rotate270": 4}
_AFFINE, _NEAREST = 0, 0

# Kind of a step -> the function of torchvision that does it to an image, the step's values being its arguments.
_FUNCTIONS = {
    **{name: f"adjust_{name}" for name in ("brightness", "contrast", "saturation", "sharpness", "hue")},
    **{name: name for name in ("posterize", "solarize", "autocontrast", "equalize", "invert")},
}


def replay_sample(image: RgbImage, steps: Sequence[Any], views: Sequence[Sequence[Step]], worlds: RandomWorlds) -> Any:
    """What a native loader should have made of `image` by its own account; None where that cannot be known.

    Args:
        image: what goes into the first transform.
        steps: the transforms in calling order.
        views: of a `SampleReport`.
        worlds: to see whether a transform draws.
    """
    parts = views_of(steps[0]) if len(steps) == 1 else None
    pipelines = [list(steps)] if parts is None else [flatten(part) for part in parts]
    if len(pipelines) != len(views):
        return None
    try:
        results = [_replay_view(image, *view, worlds) for view in zip(pipelines, views, strict=True)]
    except Exception:  # noqa: BLE001 - a report or a transform that does not fit is one that cannot be replayed
        return None
    if any(result is None for result in results):
        return None
    return results[0] if parts is None else results


def _replay_view(image: RgbImage, steps: list[Any], report: Sequence[Step], worlds: RandomWorlds) -> Any:
    """Images by the report; from the first transform on that makes a tensor, which draws nothing, by the transforms."""
    first = _first_on_tensor(steps, image, worlds)
    value: Any = replay(image, [step for step in report if step[0] != "erase"])
    if value is None or first is None:
        return None
    with worlds.scratch(0):
        before = worlds.states()
        for step in steps[first:]:
            if type(step).__name__ != "RandomErasing":
                value = step(value)
        if worlds.drawn_since(before):
            return None  # a random step that the report does not resolve
    return erase(value, report)


def _first_on_tensor(steps: list[Any], image: Any, worlds: RandomWorlds) -> int | None:
    """The number of the first transform whose result is a tensor."""
    with worlds.scratch(0):
        for number, step in enumerate(steps):
            image = step(image)
            if isinstance(image, torch.Tensor):
                return number
    return None


def replay(image: RgbImage, steps: Iterable[Step]) -> RgbImage | None:
    """What becomes of `image` by the steps of a `SampleReport`; None where one is of a kind not known here."""
    for kind, *values in steps:
        action = _action(kind)
        if action is None:
            return None
        image = action(image, *values)
    return image


def _action(kind: str) -> Callable[..., RgbImage] | None:
    if kind in _TRANSPOSITIONS:
        return lambda image: image.transpose(_TRANSPOSITIONS[kind])
    if kind in _BY_PILLOW:
        return _BY_PILLOW[kind]
    functions = _functions()
    if functions is None:
        return None
    if kind == "pad":
        return lambda image, left, top, right, bottom, mode, fill: functions.pad(
            image, [left, top, right, bottom], fill, mode
        )
    if kind == "gaussian_blur":
        return _gaussian_blur
    name = _FUNCTIONS.get(kind)
    return None if name is None else getattr(functions, name, None)


def _functions() -> ModuleType | None:
    try:
        return _recognize.functional_v1()
    except KeyError:
        return None


def _gaussian_blur(image: RgbImage, width: int, height: int, sigma: float, family: str) -> RgbImage:
    functions = _recognize.functional_v1() if family == "v1" else _recognize.functional_v2()
    blurred: RgbImage = functions.gaussian_blur(image, [width, height], [sigma, sigma])
    return blurred


def _crop(image: RgbImage, left: int, top: int, width: int, height: int, *pads: int) -> RgbImage:
    # Pillow fills what lies outside of the image with zeros, as the report's pads are.
    return image.crop((left - pads[0], top - pads[1], left + width + pads[2], top + height + pads[3]))


def _resize(image: RgbImage, width: int, height: int, interpolation: str) -> RgbImage:
    return image.resize((width, height), _RESAMPLING[interpolation])


def _affine(image: RgbImage, *values: Any) -> RgbImage:
    *matrix, fill = values
    return image.transform(image.size, _AFFINE, matrix, _NEAREST, fillcolor=fill)  # type: ignore[arg-type]


def _grayscale(image: RgbImage) -> RgbImage:
    return image.convert("L").convert("RGB")


_BY_PILLOW: dict[str, Callable[..., RgbImage]] = {
    "crop": _crop,
    "resize": _resize,
    "affine": _affine,
    "grayscale": _grayscale,
}


def erase(tensor: torch.Tensor, steps: Iterable[Step]) -> torch.Tensor:
    """`tensor` [3, height, width] with the boxes that the steps of a `SampleReport` erase."""
    for kind, *values in steps:
        if kind == "erase":
            left, top, width, height, value = values
            color = torch.frombuffer(bytearray(value), dtype=tensor.dtype)
            tensor = tensor.clone()
            tensor[:, top : top + height, left : left + width] = color[:, None, None]
    return tensor
