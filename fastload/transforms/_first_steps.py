"""The steps of a pipeline whose result may be kept, so that the next epoch begins behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fastload import _native
from fastload.transforms._lowering import LoweredTransform
from fastload.transforms._stage import PlacedStep, Size

# What makes images of the files' sizes ones of another size.
_SIZING = (
    _native.Resize,
    _native.BoxResize,
    _native.ResizeShorterSide,
    _native.CenterCrop,
    _native.FixedCrop,
)


class NoFirstStepsError(Exception):
    """Why nothing is worth keeping, as a clause."""


def first_steps_of(views: Sequence[LoweredTransform]) -> tuple[PlacedStep, ...]:
    """The steps that all views have in common before the first that draws; never empty.

    Raises:
        NoFirstStepsError: They do not fix or reduce the size of images: whole decoded images are 5 times their files.
    """
    first: list[PlacedStep] = []
    steps = [view.steps for view in views]
    for together in zip(*steps, strict=False):
        position, step = together[0]
        if step.is_random or any(other != step for _, other in together):
            break
        first.append((position, step))
    if any(isinstance(step, _SIZING) for _, step in first):
        return tuple(first)
    behind = [step for _, step in views[0].steps[len(first) :]]
    if not behind:
        part = "transform's native part" if views[0].python_part else "transform"
        raise NoFirstStepsError(f"this {part} does not change the size of images")
    name = type(behind[0]).__name__
    why = "draws" if behind[0].is_random else "is not the same in all views"
    raise NoFirstStepsError(f"this transform's {name} {why} before the size of images is fixed or reduced")


def size_behind(steps: Sequence[PlacedStep]) -> Size | None:
    """(height, width) of every image behind `steps`; None where it depends on the image."""
    size: Size | None = None
    for _, step in steps:
        size = step.size_after(size)
    return size


def hash_of(steps: Sequence[PlacedStep], surroundings: str) -> bytes:
    """16 bytes that stand for what is done to an image: the steps, and what else their result depends on."""
    text = "\n".join([surroundings, *(repr(step) for _, step in steps)])
    return hashlib.sha256(text.encode()).digest()[:16]
