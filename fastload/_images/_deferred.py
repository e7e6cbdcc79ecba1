"""A stand-in for an image's pixels until they are needed.

Note [deferred images]
A deferred image is Pillow's own ``PIL.Image.Image``: programs check its type, compare and pickle it. Only its ``_im``,
which normally holds Pillow's memory with the pixels, is a `Deferred`. Pillow reaches its memory through the property
``Image.im``, which first asks ``isinstance(self._im, DeferredError)`` and then reads ``_im`` again. The isinstance()
makes Python read the Deferred's ``__class__``, which makes the pixels and replaces the Deferred by them. A Deferred is
false because Pillow asks ``self._im and self._im.readonly``.
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
    """Makes the pixels of one image when they are needed. Thread-safe.

    `steps` were done to the image since it was opened from `source`; `size` is (width, height). Until the end, gray
    images are RGB with three equal channels. `recipe` has source and steps; it is None if Pillow has the pixels, or if
    they are gray and made.
    """

    __slots__ = ("_image", "_made", "mode", "recipe", "size")

    def __init__(self, source: Source, steps: Steps, mode: str, size: tuple[int, int]) -> None:
        self.mode = mode
        self.size = size
        self.recipe: tuple[Source, Steps] | None = (source, steps)
        self._made: dict[str, Any] = {}  # "pixels": bytes; "core": Pillow's memory
        self._image: weakref.ref[Image.Image] | None = None

    def stand_in(self, image: Image.Image) -> None:
        """Replaces the pixels of `image` by this object."""
        self._image = weakref.ref(image)
        vars(image)["_im"] = self

    def pixels(self) -> bytes | None:
        """Returns height * width * channels bytes, like Image.tobytes(); None if Pillow has them by now."""
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
        """Returns Pillow's memory with the pixels, which the image has from now on."""
        if "core" not in self._made and (core := self._new_core()) is not None:
            # If several threads make it, the first one wins.
            self._made.setdefault("core", core)
        core = self._made["core"]
        self.recipe = None
        self._made.pop("pixels", None)
        image = None if self._image is None else self._image()
        if image is not None:
            _native.exchange_item(vars(image), "_im", self, core)
        return core

    def _new_core(self) -> Any:
        """Returns Pillow's memory; None if another thread has made it meanwhile."""
        if self.recipe is not None and isinstance(self.recipe[0], SharedPixels):
            return self.recipe[0].core()
        pixels = self.pixels()
        return None if pixels is None else Image.frombytes(self.mode, self.size, pixels).im

    def __bool__(self) -> bool:
        return False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        core = self.make()
        # Another image may have taken over the attributes of the image for which this was made.
        asking = sys._getframe(1).f_locals.get("self")
        if issubclass(type(asking), Image.Image):
            _native.exchange_item(vars(asking), "_im", self, core)
        return type(core)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of Pillow's memory."""
        return getattr(self.make(), name)


def deferred_like(before: Image.Image, deferred: Deferred) -> Image.Image:
    """Returns an image with what Pillow's methods pass on from `before`, and with the pixels of `deferred`."""
    image = before._new(deferred)  # type: ignore[arg-type]  # which reads its mode and size
    deferred.stand_in(image)
    return image


def image_of(pixels: NDArray[np.uint8], before: Image.Image | None = None) -> Image.Image:
    """Returns an image of Pillow's class from native code's pixels, uint8 [height, width, 3], which are copied.

    The image `before`, RGB or gray, passes on what Pillow's methods pass on; without one the image is RGB.
    """
    height, width, _ = pixels.shape
    mode = "RGB" if before is None else before.mode
    source = ImagePixels(pixels.tobytes(), (width, height))
    return deferred_like(Image.Image() if before is None else before, Deferred(source, (), mode, (width, height)))


def image_in(array: Any, mode: str | None) -> Image.Image | None:
    """Returns ``Image.fromarray(array, mode)``: an RGB image of a copy of the pixels, or a gray one that shares them.

    None for any other image, and if `array` is not a plain array.
    """
    if type(array) is not np.ndarray or array.dtype != np.uint8 or not array.size:
        return None
    if array.ndim == 3 and array.shape[2] == 3 and mode in (None, "RGB"):
        return image_of(array)
    if array.ndim != 2 or not array.flags.c_contiguous or mode not in (None, "L"):
        return None
    height, width = array.shape
    image = deferred_like(Image.Image(), Deferred(SharedPixels(array), (), "L", (width, height)))
    image.readonly = 1
    return image


def is_deferred(image: Image.Image) -> bool:
    """Returns whether the pixels of `image` are still to be made natively."""
    held = vars(image).get("_im")
    return type(held) is Deferred and held.recipe is not None


@functools.cache
def pillow_obeys() -> bool:
    """Returns whether the installed Pillow's images find their pixels through a Deferred: Note [deferred images]."""
    if not isinstance(vars(Image.Image).get("im"), property):
        return False
    image = Image.Image()
    probe = _Probe(image)
    vars(image)["_im"] = probe
    try:
        return image.readonly == 0 and not probe.is_asked and image.im is probe.core and image._im is probe.core
    except Exception:  # noqa: BLE001 - raised by some other Pillow
        return False


class _Probe(Deferred):
    """A Deferred that already has its pixels."""

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
    """The result of ``Image.load()`` for a deferred image: Pillow's pixel access, made when it is used."""

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
