"""Gray images in native pipelines, which have three channels: all three are the gray one.

So a transform runs natively only if it treats each channel as torchvision treats the one and raises nothing, or if it
follows a Grayscale that turns the one into three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastload.transforms._nodes import Node
from fastload.transforms._recognize import family_of

_BY_CHANNEL = frozenset(
    {
        *("CenterCrop", "Pad", "RandomCrop", "RandomHorizontalFlip", "RandomResizedCrop", "RandomRotation"),
        *("RandomVerticalFlip", "Resize", "ConvertImageDtype", "Normalize", "PILToTensor", "ToDtype", "ToImage"),
        "ToTensor",
    }
)


def mode_of_gray(nodes: Sequence[Node]) -> str | None:
    """Returns the mode, "L" or "RGB", that a sequence of known transforms gives gray images; None if not native."""
    for node in nodes:
        if _makes_three(node):
            return "RGB"
        if not _takes_gray(node):
            return None
    return "L"


def _makes_three(node: Node) -> bool:
    """Returns whether it copies the channel to three: the luma of three equal channels equals each of them."""
    kind = type(node.transform)
    is_known = node.held is None and kind.__name__ == "Grayscale" and family_of(kind) is not None
    return is_known and getattr(node.transform, "num_output_channels", 1) == 3


def _takes_gray(node: Node) -> bool:
    """Returns whether a known transform treats each channel as torchvision treats the one."""
    if node.held is not None:
        return all(map(_takes_gray, node.held))
    transform, kind = node.transform, type(node.transform)
    if kind.__name__ not in _BY_CHANNEL or family_of(kind) is None or type(getattr(transform, "fill", 0)) is not int:
        return False
    return all(_is_one(values) for values in (getattr(transform, "mean", None), getattr(transform, "std", None)))


def _is_one(values: Any) -> bool:
    """Returns whether a Normalize has numbers for one channel; True if there is no such attribute."""
    return values is None or (type(values) in (list, tuple) and len(values) == 1)


def rgb_bytes(image: Image.Image) -> bytes:
    """Returns the pixels of an RGB image, or each pixel of a gray one three times."""
    pixels = image.tobytes()
    return pixels if image.mode == "RGB" else np.frombuffer(pixels, np.uint8).repeat(3).tobytes()


def first_channel(pixels: NDArray[np.uint8], element_size: int, *, is_interleaved: bool) -> NDArray[np.uint8]:
    """Returns the elements of one of three channels: bytes [height, width, element_size], in memory of their own.

    `pixels` are the bytes of [3, height, width] elements, or with `is_interleaved` of [height, width, 3].
    """
    channel = pixels[:, :, :element_size] if is_interleaved else pixels[0].reshape(pixels.shape[1], -1, element_size)
    return np.array(channel)
