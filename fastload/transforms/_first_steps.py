"""The first steps of a pipeline, whose result may be kept so that the next epoch begins after them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fastload import _native
from fastload.transforms._lowering import LoweredTransform
from fastload.transforms._stage import PlacedStep, Size

# The steps that change the size of a file's image.
_SIZING = (
    _native.Resize,
    _native.BoxResize,
    _native.ResizeShorterSide,
    _native.CenterCrop,
    _native.FixedCrop,
)


class NoFirstStepsError(Exception):
    """Nothing is worth keeping; the message is a clause that says why."""


def first_steps_of(views: Sequence[LoweredTransform]) -> tuple[PlacedStep, ...]:
    """Returns the steps that all views have in common before the first random one; never empty.

    Raises NoFirstStepsError if they do not fix or reduce the size of images: a whole decoded image is 5 times its file.
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
    rest = [step for _, step in views[0].steps[len(first) :]]
    if not rest:
        part = "transform's native part" if views[0].python_part else "transform"
        raise NoFirstStepsError(f"this {part} does not change the size of images")
    name = type(rest[0]).__name__
    why = "draws" if rest[0].is_random else "is not the same in all views"
    raise NoFirstStepsError(f"this transform's {name} {why} before the size of images is fixed or reduced")


def size_after(steps: Sequence[PlacedStep]) -> Size | None:
    """Returns (height, width) of every image after `steps`; None if it depends on the image."""
    size: Size | None = None
    for _, step in steps:
        size = step.size_after(size)
    return size


def hash_of(steps: Sequence[PlacedStep], surroundings: str) -> bytes:
    """Returns 16 bytes that identify what is done to an image: the steps, and what else their result depends on."""
    text = "\n".join([surroundings, *(repr(step) for _, step in steps)])
    return hashlib.sha256(text.encode()).digest()[:16]
