"""Whether Pillow still opens and changes images with its own functions, which native code replaces."""

from __future__ import annotations

from typing import Any

from PIL import Image, ImageEnhance, ImageFile, ImageOps, JpegImagePlugin

from fastload._process._originals import Originals, Owner, is_of_module, original_of

_FORMAT = "JPEG"
# Functions that a data set's loader calls.
_OPENING = [
    Owner("PIL.Image", Image, ("open",)),
    Owner("PIL.Image.Image", Image.Image, ("convert", "load")),
    Owner("PIL.ImageFile.ImageFile", ImageFile.ImageFile, ("load",)),
    Owner("PIL.JpegImagePlugin", JpegImagePlugin, ("JpegImageFile",)),
]
# Methods that torchvision's transforms call on images.
_IMAGE_METHODS = (
    *("convert", "copy", "crop", "filter", "getbands", "load", "paste", "point", "resize", "rotate", "split"),
    *("tobytes", "transform", "transpose"),
)
_CHANGING = [
    Owner("PIL.Image.Image", Image.Image, _IMAGE_METHODS),
    Owner("PIL.Image", Image, ("blend", "fromarray", "merge", "new")),
    Owner("PIL.ImageOps", ImageOps, ("autocontrast", "equalize", "expand", "invert", "posterize", "solarize")),
    Owner("PIL.ImageEnhance", ImageEnhance, ("Brightness", "Color", "Contrast", "Sharpness")),
]

_opening = Originals(_OPENING, is_of_module)
changing = Originals(_CHANGING, is_of_module)


def replaced_opening() -> str | None:
    """Returns why opening a JPEG file may not give Pillow's image, as a clause; None if it gives that."""
    name = _opening.replaced()
    return foreign_opener() if name is None else f"{name} was replaced"


def foreign_opener() -> str | None:
    """Returns what opens JPEG files instead of Pillow or fastload, as a clause; None if nothing does."""
    opener: Any = Image.OPEN.get(_FORMAT, (None,))[0]
    if original_of(opener) is JpegImagePlugin.jpeg_factory:
        return None
    name = f"{getattr(opener, '__module__', '?')}.{getattr(opener, '__qualname__', opener)}"
    return f"JPEG files are opened by {name}, which was registered with PIL.Image.register_open"
