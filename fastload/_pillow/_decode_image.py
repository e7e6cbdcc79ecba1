"""Decoding of single images, for users who write their own data sets."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._pillow import _pillow
from fastload._process import _config

_OUTPUTS = ("tensor", "numpy", "pil")
FileOrBytes: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview"
# Opens a cache of decoded images, or returns the one that is open; None where nothing is kept. For the first image.
OpenCache: TypeAlias = Callable[[], _native.DecodeCache | None]


@overload
def decode_image(source: FileOrBytes, *, output: Literal["tensor"] = "tensor") -> torch.Tensor: ...
@overload
def decode_image(source: FileOrBytes, *, output: Literal["numpy"]) -> NDArray[np.uint8]: ...
@overload
def decode_image(source: FileOrBytes, *, output: Literal["pil"]) -> _pillow.RgbImage: ...
def decode_image(source: FileOrBytes, *, output: Literal["tensor", "numpy", "pil"] = "tensor") -> Any:
    """Decodes an image file to RGB: the pixels of ``PIL.Image.open(source).convert("RGB")``.

    Clean sequential and progressive JPEG files are decoded natively with the GIL released, all other files by the
    installed Pillow. Threads decode in parallel; each keeps its decoding memory, at most 64 MiB.

    Args:
        source: a path (str or PathLike), or the contents of a file (bytes, bytearray or memoryview; later changes by
            another thread have no effect).
        output: "tensor", "numpy" or "pil".

    Returns:
        "tensor": torch.uint8 [3, height, width]; "numpy": uint8 [height, width, 3], both contiguous; "pil": a
        PIL.Image.Image of mode RGB with the ``info`` (EXIF, ICC profile, ...) that Pillow gives it. It shares no
        memory. EXIF orientation is not applied.

    Raises:
        ValueError, TypeError: for another output or source.
        OSError: a file that cannot be read, is truncated, or is a FIFO or device.
        PIL.UnidentifiedImageError: Pillow does not recognise it as an image.
        PIL.Image.DecompressionBombError: it has more pixels than Pillow accepts.
        Exception: any other exception of Pillow for this file.

    Example:
        >>> fastload.decode_image("cat.jpg").shape
        torch.Size([3, 375, 500])
    """
    if output not in _OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(map(repr, _OUTPUTS))}, got {output!r}")
    if isinstance(source, (bytearray, memoryview)):
        source = bytes(source)
    if not isinstance(source, (str, bytes, os.PathLike)):
        raise TypeError(f"source must be a path (str, PathLike) or bytes, got {type(source).__name__}")
    contents = source if isinstance(source, bytes) else None
    path = "" if isinstance(source, bytes) else os.fspath(source)
    pixels = _decode_natively(path, contents, is_planar=output == "tensor")
    if pixels is None:
        image = _pillow.open_rgb(path) if contents is None else _pillow.open_rgb_bytes(contents)
        return image if output == "pil" else _as_array(image, output)
    if output == "pil":
        image = _pillow.rgb_image(pixels)
        image.info = _pillow.image_info(path if contents is None else io.BytesIO(contents))
        return image
    return torch.from_numpy(pixels) if output == "tensor" else pixels


def pil_loader(path: str) -> _pillow.RgbImage:
    """Opens an image like torchvision.datasets.folder.pil_loader, with the native decoder.

    Args:
        path: path of the file.

    Returns:
        A PIL.Image.Image of mode RGB, with its pixels loaded.

    Raises:
        OSError: like pil_loader, and for a FIFO or device, on which pil_loader would wait forever.
        Exception: any other exception that pil_loader raises for the file.

    Example:
        >>> files = datasets.DatasetFolder("train", fastload.pil_loader, extensions=(".jpg",), transform=transform)
        >>> fastload.DataLoader(files).explain().is_native
        True
    """
    return decode_image(path, output="pil")


def _as_array(image: _pillow.RgbImage, output: str) -> Any:
    pixels = np.array(image)
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous() if output == "tensor" else pixels


class _ThreadDecoder(threading.local):
    """The calling thread's decoder; made anew once its cache or the pixel limit, which users may change, is another."""

    made_for: tuple[int, OpenCache | None] | None = None
    open_cache: OpenCache | None = None
    decoder: _native.SampleDecoder


def new_decoder(max_pixels: int, open_cache: OpenCache | None, *, native_jpeg: bool = True) -> _native.SampleDecoder:
    """Returns a decoder of images with at most `max_pixels`, which Pillow decodes unless `native_jpeg`."""
    return _native.SampleDecoder(
        max_file_bytes=_config.MAX_FILE_BYTES,
        max_pixels=max_pixels,
        native_jpeg=native_jpeg,
        cache=None if open_cache is None else open_cache(),
    )


_thread = _ThreadDecoder()


def thread_decoder(max_pixels: int | None = None) -> _native.SampleDecoder:
    """Returns the calling thread's decoder, with the lower of Pillow's current pixel limit and `max_pixels`."""
    limit = _pillow.max_pixels() if max_pixels is None else min(_pillow.max_pixels(), max_pixels)
    if _thread.made_for != (limit, _thread.open_cache):
        _thread.decoder = new_decoder(limit, _thread.open_cache)
        _thread.made_for = limit, _thread.open_cache
    return _thread.decoder


@contextlib.contextmanager
def keeping(open_cache: OpenCache | None) -> Iterator[None]:
    """Lets the calling thread's decoder store what it learns about images in a cache; in none if it is None."""
    before, _thread.open_cache = _thread.open_cache, open_cache
    try:
        yield
    finally:
        _thread.open_cache = before


@functools.cache
def no_draws() -> _native.DrawSource:
    """Returns the source of draws for plans that draw nothing."""
    return _native.CounterDraws(0, 0, 0)


@functools.cache
def whole_image(*, is_planar: bool) -> _native.TransformPlan:
    """Returns the plan without steps."""
    return _native.TransformPlan(
        [], channels_last=not is_planar, resize_order="horizontal_first", allow_variable_size=True
    )


def _decode_natively(path: str, contents: bytes | None, *, is_planar: bool) -> NDArray[np.uint8] | None:
    """Returns the pixels; None if Pillow has to decide what they are."""
    if not _pillow.native_jpeg_is_exact().is_exact:
        return None
    decoder = thread_decoder()
    plan = whole_image(is_planar=is_planar)
    if contents is None:
        result = decoder.run_file(os.fsencode(path), plan, no_draws())
    else:
        result = decoder.run_bytes(contents, plan, no_draws())
    return None if isinstance(result, dict) else result
