"""What stands in an image until its pixels are asked for.

Note [deferred images]
An image of this kind is Pillow's own ``PIL.Image.Image``: programs ask for its type, compare and pickle it. Only what
it has in ``_im``, where Pillow's memory with the pixels is otherwise, is a `Deferred`. Pillow reaches its memory
through the property ``Image.im``, which asks ``isinstance(self._im, DeferredError)`` first and then reads ``_im``
again. The first makes Python ask for the ``__class__`` of what is there, and that makes the pixels and puts them in its
own place. A Deferred is false, as Pillow asks ``self._im and self._im.readonly``.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fastload import _native
from fastload._images._source import ImagePixels, ImageSource, SharedPixels, Source, Steps, plan_of


class Deferred:
    """Makes the pixels of one image when they are asked for. Thread-safe.

    Args:
        source: Where they come from.
        steps: What has been asked of the image since it was opened.
        mode: Of the image, "RGB" or "L". Gray images are RGB with three times the same channel until the end.
        size: (width, height)

    Attributes:
        recipe: What the pixels are made of; None where Pillow has them, or they are gray and made.
    """

    __slots__ = ("_image", "_made", "mode", "recipe", "size")

    def __init__(self, source: Source, steps: Steps, mode: str, size: tuple[int, int]) -> None:
        self.mode = mode
        self.size = size
        self.recipe: tuple[Source, Steps] | None = (source, steps)
        self._made: dict[str, Any] = {}  # "pixels": bytes; "core": Pillow's memory
        self._image: weakref.ref[Image.Image] | None = None

    def stand_in(self, image: Image.Image) -> None:
        """Puts this in the place of the pixels of `image`."""
        self._image = weakref.ref(image)
        vars(image)["_im"] = self

    def pixels(self) -> bytes | None:
        """height * width * channels bytes, as Image.tobytes() gives them; None where Pillow has them by now."""
        recipe, pixels = self.recipe, self._made.get("pixels")
        if recipe is None or pixels is not None:
            return pixels
        source, steps = recipe
        if not steps and not isinstance(source, ImageSource) and source.mode == self.mode:
            return source.tobytes()
        array = source.run(plan_of(steps))
        pixels = self._made.setdefault("pixels", (array[:, :, 0] if self.mode == "L" else array).tobytes())
        self.recipe = None if self.mode == "L" else (ImagePixels(pixels, self.size), ())
        return pixels  # type: ignore[no-any-return]

    def make(self) -> Any:
        """Pillow's memory with the pixels, which the image has from now on."""
        if "core" not in self._made and (core := self._new_core()) is not None:
            # Of several threads that make it, one is first.
            self._made.setdefault("core", core)
        core = self._made["core"]
        self.recipe = None
        self._made.pop("pixels", None)
        image = None if self._image is None else self._image()
        if image is not None:
            _native.exchange_item(vars(image), "_im", self, core)
        return core

    def _new_core(self) -> Any:
        """None where another thread has put one in its place meanwhile."""
        if self.recipe is not None and isinstance(self.recipe[0], SharedPixels):
            return self.recipe[0].core()
        pixels = self.pixels()
        return None if pixels is None else Image.frombytes(self.mode, self.size, pixels).im

    def __bool__(self) -> bool:
        return False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        core = self.make()
        # Another image may have taken over the attributes of the one that this was made for.
        asking = sys._getframe(1).f_locals.get("self")
        if issubclass(type(asking), Image.Image):
            _native.exchange_item(vars(asking), "_im", self, core)
        return type(core)

    def __getattr__(self, name: str) -> Any:
        """What Pillow's memory has."""
        return getattr(self.make(), name)


def image_of(pixels: NDArray[np.uint8], before: Image.Image | None = None) -> Image.Image:
    """An image that native code has made, in Pillow's class; its pixels are copied.

    Args:
        pixels: uint8 [height, width, 3].
        before: The image it was made of, RGB or gray, which hands on what Pillow's own methods hand on; None: RGB.
    """
    height, width, _ = pixels.shape
    mode = "RGB" if before is None else before.mode
    deferred = Deferred(ImagePixels(pixels.tobytes(), (width, height)), (), mode, (width, height))
    image = (Image.Image() if before is None else before)._new(deferred)  # type: ignore[arg-type]  # asks for mode, size
    deferred.stand_in(image)
    return image


def image_in(array: Any, mode: str | None) -> Image.Image | None:
    """As ``Image.fromarray(array, mode)``: an RGB image of a copy of the pixels, or a gray one that shares them.

    Returns:
        None for any other image, and for what is no plain array.
    """
    if type(array) is not np.ndarray or array.dtype != np.uint8 or not array.size:
        return None
    if array.ndim == 3 and array.shape[2] == 3 and mode in (None, "RGB"):
        return image_of(array)
    if array.ndim != 2 or not array.flags.c_contiguous or mode not in (None, "L"):
        return None
    height, width = array.shape
    deferred = Deferred(SharedPixels(array), (), "L", (width, height))
    image = Image.Image()._new(deferred)  # type: ignore[arg-type]  # which asks for its mode and size
    deferred.stand_in(image)
    image.readonly = 1
    return image


def is_deferred(image: Image.Image) -> bool:
    """Whether pixels of `image` are still to be made natively."""
    held = vars(image).get("_im")
    return type(held) is Deferred and held.recipe is not None


@functools.cache
def pillow_obeys() -> bool:
    """Whether the installed Pillow's images find their pixels by way of a Deferred: Note [deferred images]."""
    if not isinstance(vars(Image.Image).get("im"), property):
        return False
    image = Image.Image()
    probe = _Probe(image)
    vars(image)["_im"] = probe
    try:
        return image.readonly == 0 and not probe.is_asked and image.im is probe.core and image._im is probe.core
    except Exception:  # noqa: BLE001 - another Pillow's
        return False


class _Probe(Deferred):
    """Has its pixels."""

    __slots__ = ("core", "is_asked", "target")

    def __init__(self, image: Image.Image) -> None:
        self.core = Image.new("L", (1, 1)).im
        self.is_asked = False
        self.target = image

    def make(self) -> Any:
        self.is_asked = True
        self.target._im = self.core
        return self.core


class DeferredAccess:
    """What ``Image.load()`` gives for a deferred image: Pillow's pixel access, made when it is used."""

    __slots__ = ("_access", "_deferred", "_readonly")
    __iter__ = None  # Python would count from 0

    def __init__(self, deferred: Deferred, readonly: int) -> None:
        self._deferred = deferred
        self._readonly = readonly
        self._access: Any = None

    def _made(self) -> Any:
        if self._access is None:
            self._access = self._deferred.make().pixel_access(self._readonly)
        return self._access

    def __getitem__(self, position: Any) -> Any:
        return self._made()[position]

    def __setitem__(self, position: Any, value: Any) -> None:
        self._made()[position] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made(), name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._made())
