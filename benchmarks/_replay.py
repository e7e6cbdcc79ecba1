"""What a loader reports to have done to an image, done again by Pillow and torchvision. Import torchvision first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F
from torchvision.transforms.v2 import functional as F2

Step = tuple[Any, ...]


def _crop(image: Image.Image, left: int, top: int, width: int, height: int, *pads: int) -> Image.Image:
    padded: Image.Image = F.pad(F.crop(image, top, left, height, width), list(pads))
    return padded


def _resize(image: Image.Image, width: int, height: int, interpolation: str) -> Image.Image:
    resized: Image.Image = F.resize(image, [height, width], InterpolationMode(interpolation))
    return resized


def _pad(image: Image.Image, left: int, top: int, right: int, bottom: int, mode: str, fill: Any) -> Image.Image:
    padded: Image.Image = F.pad(image, [left, top, right, bottom], fill, mode)
    return padded


def _affine(image: Image.Image, *values: Any) -> Image.Image:
    *matrix, fill = values
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=fill)


def _gaussian_blur(image: Image.Image, width: int, height: int, sigma: float, family: str) -> Image.Image:
    functions = F if family == "v1" else F2
    blurred: Image.Image = functions.gaussian_blur(image, [width, height], [sigma, sigma])
    return blurred


_ON_IMAGES: dict[str, Callable[..., Image.Image]] = {
    "crop": _crop,
    "resize": _resize,
    "hflip": F.hflip,
    "vflip": F.vflip,
    "pad": _pad,
    "brightness": F.adjust_brightness,
    "contrast": F.adjust_contrast,
    "saturation": F.adjust_saturation,
    "sharpness": F.adjust_sharpness,
    "hue": F.adjust_hue,
    "posterize": F.posterize,
    "solarize": F.solarize,
    "autocontrast": F.autocontrast,
    "equalize": F.equalize,
    "invert": F.invert,
    "grayscale": lambda image: F.to_grayscale(image, 3),
    "affine": _affine,
    "rotate90": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "rotate180": lambda image: image.transpose(Image.Transpose.ROTATE_180),
    "gaussian_blur": _gaussian_blur,
    "rotate270": lambda image: image.transpose(Image.Transpose.ROTATE_270),
}


def apply_steps(image: Image.Image, steps: Iterable[Step]) -> Image.Image:
    """Applies the steps of a fastload.SampleReport in their order; "erase" is left to `erase_boxes`.

    Raises:
        ValueError: a step of another kind.
    """
    for kind, *values in steps:
        if kind in _ON_IMAGES:
            image = _ON_IMAGES[kind](image, *values)
        elif kind != "erase":
            raise ValueError(f"reported step of unknown kind {kind!r}")
    return image


def erase_boxes(tensor: torch.Tensor, steps: Iterable[Step]) -> torch.Tensor:
    """Applies the "erase" steps to what the last transforms make of the image: a tensor [3, height, width]."""
    for kind, *values in steps:
        if kind == "erase":
            left, top, width, height, value = values
            color = torch.frombuffer(bytearray(value), dtype=tensor.dtype)[:, None, None]
            tensor = F.erase(tensor, top, left, height, width, color)
    return tensor
