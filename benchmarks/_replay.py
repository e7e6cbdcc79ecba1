"""What a loader reports to have done to an image, done again by Pillow and torchvision. Import torchvision first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F


def apply_steps(image: Image.Image, steps: Iterable[tuple[Any, ...]]) -> Image.Image:
    """Applies ("crop", left, top, width, height, pad_left, pad_top, pad_right, pad_bottom), where the pads are zeros
    around what was cropped, ("resize", width, height, interpolation) and ("hflip",), in their order.

    Raises:
        ValueError: a step of another kind.
    """
    for kind, *values in steps:
        if kind == "crop":
            left, top, width, height, *pads = values
            image = F.pad(F.crop(image, top, left, height, width), pads)
        elif kind == "resize":
            width, height, interpolation = values
            image = F.resize(image, [height, width], InterpolationMode(interpolation))
        elif kind == "hflip":
            image = F.hflip(image)
        else:
            raise ValueError(f"reported step of unknown kind {kind!r}")
    return image
