"""Makes the pixels of images in a batch, in the thread that has made the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image

from fastload._images._deferred import Deferred
from fastload._images._opened import load_at_once, marks

# Frequent types in batches that hold no image.
_LEAVES = frozenset({int, float, bool, str, bytes, type(None)})


def make_pixels(batch: Any) -> None:
    """Makes the pixels of the images in `batch`: in dicts, lists and tuples, where torch's pin_memory looks.

    An image that was opened but not loaded is loaded, unless Pillow has to do that.
    """
    waiting = [batch] if marks.is_used else []
    containers: dict[int, Any] = {}  # by identity: a batch may contain one often, and itself
    while waiting:
        item = waiting.pop()
        if isinstance(item, Image.Image):
            _make_pixels_of(item)
        elif isinstance(item, (list, tuple, Mapping)) and id(item) not in containers:
            containers[id(item)] = item
            parts = item.values() if isinstance(item, Mapping) else item
            waiting += [part for part in parts if type(part) not in _LEAVES]


def _make_pixels_of(image: Image.Image) -> None:
    if type(vars(image).get("_im")) is Deferred:
        _ = image.im
    else:
        load_at_once(image)
