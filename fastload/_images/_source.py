"""The origins of images' pixels: an opened JPEG file, or pixels in memory."""

from __future__ import annotations

import functools
import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from fastload import _native
from fastload._images._batch_rows import Place
from fastload._images._tally import ImageTally
from fastload._pillow import _pillow
from fastload._pillow._decode_image import no_draws, thread_decoder, whole_image
from fastload.transforms._pillow_rules import resize_order

Steps = tuple[_native.Step, ...]
_Result: TypeAlias = "NDArray[np.uint8] | _native.StatusFailure | None"  # None: Pillow has to decode
_BeginDraws = Callable[[], _native.DrawSource]
_MaybePlace = Place | tuple[None, int]


class StepsFailedError(RuntimeError):
    """Steps cannot be applied to an image. Never raised for the steps that an image remembers, which were checked."""


# Parts of one image that are decoded alone: the two views of most self-supervised programs.
_MAX_PARTS = 2


class _PixelSource(ABC):
    """The origin of an image's pixels, shared by all images that were derived from it."""

    def run(
        self,
        plan: _native.TransformPlan,
        begin_draws: _BeginDraws | None = None,
        place: Place | None = None,
    ) -> NDArray[np.uint8]:
        """Returns what `plan` makes of the image, in SampleDecoder's form, written to `place` if it fits.

        `begin_draws` returns the source of a random plan's draws, always at the same position, and is called for each
        try. Raises MemoryError, or StepsFailedError if the steps cannot be applied to the image.
        """
        return _checked(self._run(plan, begin_draws or no_draws, place or (None, 0)))

    @abstractmethod
    def _run(self, plan: _native.TransformPlan, begin_draws: _BeginDraws, place: _MaybePlace) -> _Result: ...


class ImageSource(_PixelSource):
    """One opened file. Thread-safe.

    The first parts of the image that are needed are decoded alone. Then the whole image is decoded and kept: otherwise
    each of many crops would decode most of it again. ``SampleDecoder.check_bytes`` has accepted `contents`, so Pillow
    decodes them without an error; `opened` is the note of ``SampleDecoder.read_open`` about the file, and `tally`
    counts for this image's thread.
    """

    def __init__(self, contents: bytes, tally: ImageTally, opened: bytes = b"") -> None:
        self._contents: bytes | None = contents
        self._opened = opened
        self._whole: NDArray[np.uint8] | None = None
        self._tally = tally
        self._num_parts = 0

    def _run(self, plan: _native.TransformPlan, begin_draws: _BeginDraws, place: _MaybePlace) -> _Result:
        contents, (rows, row) = self._contents, place
        if contents is not None and self._num_parts < _MAX_PARTS:
            result = thread_decoder().run_bytes(contents, plan, begin_draws(), rows, row, self._opened)
            if self._num_parts == 0 and result is None:
                self._tally.left_to_pillow(thread_decoder().fallback_reason)
            elif self._num_parts == 0:
                self._tally.images_native += 1
            self._num_parts += 1
            if result is not None:
                return result
        whole = self._decoded_whole(contents)
        height, width, _ = whole.shape
        return thread_decoder().run_pixels(whole.data, width, height, plan, begin_draws(), rows, row)

    def _decoded_whole(self, contents: bytes | None) -> NDArray[np.uint8]:
        if self._whole is None:
            assert contents is not None, "contents are kept until the whole image is there"
            result = thread_decoder().run_bytes(contents, plan_of(()), no_draws(), opened=self._opened)
            self._whole = _decoded_by_pillow(contents) if result is None else _checked(result)
            self._contents = None
        return self._whole

    def kept(self) -> ImageSource:
        """Returns the source from which remembered steps start."""
        return self


class ImagePixels(_PixelSource):
    """The pixels of an RGB image of `size`, (width, height): height * width * 3 bytes."""

    mode = "RGB"

    def __init__(self, pixels: bytes, size: tuple[int, int]) -> None:
        self._pixels = pixels
        self._size = size

    def tobytes(self) -> bytes:
        return self._pixels

    def kept(self) -> ImagePixels:
        return self

    def _run(self, plan: _native.TransformPlan, begin_draws: _BeginDraws, place: _MaybePlace) -> _Result:
        return thread_decoder().run_pixels(self._pixels, *self._size, plan, begin_draws(), *place)


class SharedPixels(_PixelSource):
    """The pixels of a gray image, in an array of the program: uint8 [height, width], contiguous.

    Pillow does not copy them: a write to the array changes the image. So they are read when they are needed.
    """

    mode = "L"

    def __init__(self, array: NDArray[np.uint8]) -> None:
        self._array = array

    def tobytes(self) -> bytes:
        return self._array.tobytes()

    def kept(self) -> ImagePixels:
        """Returns a copy of the pixels as they are now."""
        height, width = self._array.shape
        return ImagePixels(self._array.repeat(3).tobytes(), (width, height))

    def _run(self, plan: _native.TransformPlan, begin_draws: _BeginDraws, place: _MaybePlace) -> _Result:
        return self.kept()._run(plan, begin_draws, place)

    def core(self) -> Any:
        """Returns Pillow's memory object, which shares the array's memory."""
        height, width = self._array.shape
        # Image.frombuffer, which may be replaced, calls this.
        return Image.core.map_buffer(self._array, (width, height), "raw", 0, ("L", 0, 1))  # type: ignore[attr-defined]


Source = ImageSource | ImagePixels | SharedPixels


def plan_of(steps: Steps) -> _native.TransformPlan:
    """Returns the plan of `steps`, which ends in uint8 pixels [height, width, 3]."""
    if not steps:
        return whole_image(is_planar=False)
    return _native.TransformPlan(
        list(enumerate(steps)), resize_order=resize_order_of_pillow(), allow_variable_size=True
    )


@functools.cache
def resize_order_of_pillow() -> str:
    return resize_order(_pillow.pillow_info().version)


def _checked(result: _Result) -> NDArray[np.uint8]:
    if isinstance(result, np.ndarray):
        return result
    assert result is not None, "pixels are not left to Pillow"
    raise (MemoryError if result["is_out_of_memory"] else StepsFailedError)(f"{result['text']}: {result['detail']}")


def _decoded_by_pillow(contents: bytes) -> NDArray[np.uint8]:
    """Returns the RGB pixels of a file about whose data libjpeg warns; Pillow hides these warnings."""
    return np.asarray(JpegImageFile(io.BytesIO(contents)).convert("RGB"))
