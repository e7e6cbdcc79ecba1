"""One opened JPEG file: its contents, and the pixels that are made of them."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from fastload import _native
from fastload._images._batch_rows import Place
from fastload._images._tally import ImageTally
from fastload._pillow import _pillow
from fastload._pillow._decode_image import thread_decoder
from fastload.transforms._pillow_rules import resize_order

Steps = tuple[_native.Step, ...]


class StepsFailedError(RuntimeError):
    """Steps cannot be applied to an image. Never those that an image remembers, which were checked."""


@functools.cache
def _no_draws() -> _native.DrawSource:
    """For steps that images remember, which are decided when they are called."""
    return _native.CounterDraws(0, 0, 0)


_NO_PLACE = (None, 0)
# Of one image that are decoded alone: two views of most self-supervised programs.
_MAX_PARTS = 2


class ImageSource:
    """What all images that come from one opened file share. Thread-safe.

    The first parts of the image that are asked for are decoded alone. Then the whole image is, and kept: each of many
    crops would decode most of it again.

    Args:
        contents: Of a file that ``SampleDecoder.check_bytes`` has taken, so that Pillow decodes it without an error.
        tally: To count in.
        opened: What ``SampleDecoder.read_open`` said of the file.
    """

    def __init__(self, contents: bytes, tally: ImageTally, opened: bytes = b"") -> None:
        self._contents: bytes | None = contents
        self._opened = opened
        self._whole: NDArray[np.uint8] | None = None
        self._tally = tally
        self._num_parts = 0

    def run(
        self,
        plan: _native.TransformPlan,
        begin_draws: Callable[[], _native.DrawSource] | None = None,
        place: Place | None = None,
    ) -> NDArray[np.uint8]:
        """What `plan` makes of the image: as SampleDecoder gives it.

        Args:
            begin_draws: Gives what a random plan draws from, always at the same place; called for each try.
            place: Where the result is written, if it fits.

        Raises:
            MemoryError: There is none for it.
            StepsFailedError: They cannot be applied to the image.
        """
        begin_draws = begin_draws or _no_draws
        rows, row = place or _NO_PLACE
        contents = self._contents
        if contents is not None and self._num_parts < _MAX_PARTS:
            result = thread_decoder().run_bytes(contents, plan, begin_draws(), rows, row, self._opened)
            if self._num_parts == 0 and result is None:
                self._tally.left_to_pillow(thread_decoder().fallback_reason)
            elif self._num_parts == 0:
                self._tally.images_native += 1
            self._num_parts += 1
            if result is not None:
                return _checked(result)
        whole = self._decoded_whole(contents)
        height, width, _ = whole.shape
        return _checked(thread_decoder().run_pixels(whole.data, width, height, plan, begin_draws(), rows, row))

    def _decoded_whole(self, contents: bytes | None) -> NDArray[np.uint8]:
        if self._whole is None:
            assert contents is not None, "contents are kept until the whole image is there"
            result = thread_decoder().run_bytes(contents, plan_of(()), _no_draws(), opened=self._opened)
            self._whole = _decoded_by_pillow(contents) if result is None else _checked(result)
            self._contents = None
        return self._whole

    def kept(self) -> ImageSource:
        """What steps that are remembered start from."""
        return self


class ImagePixels:
    """The pixels of an RGB image, in the place of an ImageSource.

    Args:
        pixels: height * width * 3 bytes.
        size: (width, height)
    """

    mode = "RGB"

    def __init__(self, pixels: bytes, size: tuple[int, int]) -> None:
        self._pixels = pixels
        self._size = size

    def tobytes(self) -> bytes:
        return self._pixels

    def kept(self) -> ImagePixels:
        """As ImageSource.kept()."""
        return self

    def run(
        self,
        plan: _native.TransformPlan,
        begin_draws: Callable[[], _native.DrawSource] | None = None,
        place: Place | None = None,
    ) -> NDArray[np.uint8]:
        """As ImageSource.run()."""
        draws, (rows, row) = (begin_draws or _no_draws)(), place or _NO_PLACE
        return _checked(thread_decoder().run_pixels(self._pixels, *self._size, plan, draws, rows, row))


class SharedPixels:
    """The pixels of a gray image that are in an array of the program's, in the place of an ImageSource.

    Pillow does not copy them: what is written to the array is in the image. So they are read when they are needed.

    Args:
        array: uint8 [height, width], contiguous.
    """

    mode = "L"

    def __init__(self, array: NDArray[np.uint8]) -> None:
        self._array = array

    def tobytes(self) -> bytes:
        return self._array.tobytes()

    def kept(self) -> ImagePixels:
        """As ImageSource.kept()."""
        height, width = self._array.shape
        return ImagePixels(self._array.repeat(3).tobytes(), (width, height))

    def run(
        self,
        plan: _native.TransformPlan,
        begin_draws: Callable[[], _native.DrawSource] | None = None,
        place: Place | None = None,
    ) -> NDArray[np.uint8]:
        """As ImageSource.run()."""
        return self.kept().run(plan, begin_draws, place)

    def core(self) -> Any:
        """Pillow's memory, which is the array's."""
        height, width = self._array.shape
        # What Image.frombuffer calls, which may be exchanged.
        return Image.core.map_buffer(self._array, (width, height), "raw", 0, ("L", 0, 1))  # type: ignore[attr-defined]


Source = ImageSource | ImagePixels | SharedPixels


def plan_of(steps: Steps) -> _native.TransformPlan:
    """The plan of `steps`, which ends in uint8 pixels [height, width, 3]."""
    return _new_plan(steps) if steps else _whole_image()


@functools.cache
def _whole_image() -> _native.TransformPlan:
    return _new_plan(())


def _new_plan(steps: Steps) -> _native.TransformPlan:
    return _native.TransformPlan(
        list(enumerate(steps)),
        element_size=1,
        channels_last=True,
        table=None,
        resize_order=resize_order_of_pillow(),
        allow_variable_size=True,
    )


@functools.cache
def resize_order_of_pillow() -> str:
    return resize_order(_pillow.pillow_info().version)


def _checked(result: NDArray[np.uint8] | _native.StatusFailure | None) -> NDArray[np.uint8]:
    if isinstance(result, np.ndarray):
        return result
    assert result is not None, "pixels are not left to Pillow"
    raise (MemoryError if result["is_out_of_memory"] else StepsFailedError)(f"{result['text']}: {result['detail']}")


def _decoded_by_pillow(contents: bytes) -> NDArray[np.uint8]:
    """The RGB pixels of a file whose data libjpeg warns about, which Pillow does not tell."""
    return np.asarray(JpegImageFile(io.BytesIO(contents)).convert("RGB"))
