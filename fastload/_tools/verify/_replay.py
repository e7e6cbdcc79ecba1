"""Replays what a native loader reports to have done to an image, with Pillow and torchvision.

They alone do the steps, so that a comparison with the loader proves something. The functions of torchvision come from
the module that the caller has loaded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from fastload._pillow._pillow import RgbImage
from fastload._tools.verify._rng_states import Generators
from fastload._tools.verify._sample_parts import flatten
from fastload.transforms import _recognize
from fastload.transforms._multi_view import views_of
from fastload.transforms._pillow_rules import FILTERS
from fastload.transforms._stage import Family

Step = tuple[Any, ...]
_Action = Callable[..., RgbImage]

# Pillow's numbers.
_RESAMPLING = {name: number for number, name in FILTERS.items()}
_TRANSPOSITIONS = {"hflip": 0, "vflip": 1, "rotate90": 2, "rotate180": 3, "rotate270": 4}
_AFFINE = 0


def replay_sample(
    image: RgbImage, steps: Sequence[Any], views: Sequence[Sequence[Step]], generators: Generators
) -> Any:
    """Returns what a native loader should have made of `image` by its own report; None if that cannot be known.

    `steps` are the transforms in calling order and `views` the views of a `SampleReport`; `generators` show
    whether a transform draws.
    """
    parts = views_of(steps[0]) if len(steps) == 1 else None
    pipelines = [list(steps)] if parts is None else [flatten(part) for part in parts]
    if len(pipelines) != len(views):
        return None
    try:
        results = [_replay_view(image, *view, generators) for view in zip(pipelines, views, strict=True)]
    except Exception:  # noqa: BLE001 - a report or a transform that does not fit is one that cannot be replayed
        return None
    if any(result is None for result in results):
        return None
    return results[0] if parts is None else results


def _replay_view(image: RgbImage, steps: list[Any], report: Sequence[Step], generators: Generators) -> Any:
    """Replays the report up to the image, and then runs the transforms from the first one that makes a tensor on.

    Returns None if these draw.
    """
    first = _first_on_tensor(steps, image, generators)
    if first is None:
        return None
    value: Any = apply_steps(image, report)
    with generators.scratch() as have_drawn:
        for step in steps[first:]:
            if type(step).__name__ != "RandomErasing":
                value = step(value)
        if have_drawn():
            return None  # a random step that the report does not resolve
    return erase_boxes(value, report)


def _first_on_tensor(steps: list[Any], image: Any, generators: Generators) -> int | None:
    """Returns the number of the first transform whose result is a tensor."""
    with generators.scratch():
        for number, step in enumerate(steps):
            image = step(image)
            if isinstance(image, torch.Tensor):
                return number
    return None


def apply_steps(image: RgbImage, steps: Iterable[Step]) -> RgbImage:
    """Does the steps of a `SampleReport` in their order; `erase_boxes` does the "erase" steps.

    Raises ValueError for an unknown kind of step, and KeyError for one of torchvision's if torchvision is not loaded.
    """
    for kind, *values in steps:
        if kind in _ACTIONS:
            image = _ACTIONS[kind](image, *values)
        elif kind != "erase":
            raise ValueError(f"reported step of unknown kind {kind!r}")
    return image


def erase_boxes(tensor: torch.Tensor, steps: Iterable[Step]) -> torch.Tensor:
    """Returns `tensor` [3, height, width] after the "erase" steps of a `SampleReport`."""
    for kind, *values in steps:
        if kind == "erase":
            left, top, width, height, value = values
            color = torch.frombuffer(bytearray(value), dtype=tensor.dtype)
            tensor = tensor.clone()
            tensor[:, top : top + height, left : left + width] = color[:, None, None]
    return tensor


def _crop(image: RgbImage, left: int, top: int, width: int, height: int, *pads: int) -> RgbImage:
    # Pillow fills the area outside of the image with zeros, as the native loader does.
    return image.crop((left - pads[0], top - pads[1], left + width + pads[2], top + height + pads[3]))


def _pad(image: RgbImage, left: int, top: int, right: int, bottom: int, mode: str, fill: Any) -> Any:
    return _recognize.functional("v1").pad(image, [left, top, right, bottom], fill, mode)


def _gaussian_blur(image: RgbImage, width: int, height: int, sigma: float, family: Family) -> Any:
    functions = _recognize.functional(family)
    return functions.gaussian_blur(image, [width, height], [sigma, sigma])


def _affine(image: Any, *values: Any) -> Any:
    *matrix, fill, filter_name = values
    return image.transform(image.size, _AFFINE, matrix, _RESAMPLING[filter_name], fillcolor=fill)


def _by_torchvision(name: str) -> _Action:
    return lambda image, *values: getattr(_recognize.functional("v1"), name)(image, *values)


# Kind of a step -> a function that does it to an image; the step's values are its arguments.
_ACTIONS: dict[str, _Action] = {
    "crop": _crop,
    "resize": lambda image, width, height, name: image.resize((width, height), _RESAMPLING[name]),
    "pad": _pad,
    "affine": _affine,
    "grayscale": lambda image: image.convert("L").convert("RGB"),
    "gaussian_blur": _gaussian_blur,
    **{kind: operator.methodcaller("transpose", method) for kind, method in _TRANSPOSITIONS.items()},
    **{
        name: _by_torchvision(f"adjust_{name}") for name in ("brightness", "contrast", "saturation", "sharpness", "hue")
    },
    **{name: _by_torchvision(name) for name in ("posterize", "solarize", "autocontrast", "equalize", "invert")},
}
