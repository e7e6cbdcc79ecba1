"""The native part of a sample, decoded by Pillow if native code cannot, up to the steps that Python runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload._images._deferred import image_of, is_deferred, pillow_obeys
from fastload._images._tally import native_tally
from fastload._pillow import _pillow
from fastload._pillow._decode_image import thread_decoder
from fastload._pillow._failures import exception_of, exception_of_pillow
from fastload._planning._native_plans import NativePartPlan, tensor_of
from fastload._process import _config
from fastload._process._interrupts import is_interrupt
from fastload._workers._random_stream import RandomStream
from fastload._workers._working_directory import kept_directory

# Transforms of torchvision that call the user's code, which may look at an image's EXIF data.
_CALLING_OTHERS = ("Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")


class NotApplicableError(Exception):
    """The native steps cannot be applied to an image; the caller runs torchvision's steps on it instead."""


class NativePart:
    """Makes the images of samples in one thread. Not thread-safe."""

    def __init__(
        self,
        plan: NativePartPlan,
        stream: RandomStream,
        python_part: tuple[Any, ...],
        cache: _native.DecodeCache | None,
    ) -> None:
        self._plan = plan
        self._stream = stream
        self._native = _native.SampleDecoder(
            max_file_bytes=_config.MAX_FILE_BYTES,
            max_pixels=plan.max_pixels,
            native_jpeg=plan.is_native_jpeg_exact,
            cache=cache,
        )
        self._has_info = not python_part or not all(map(_ignores_info, python_part))
        # If no native step comes first, decoding is deferred: the Python steps decide how much to decode.
        is_plain = not plan.lowered.steps and plan.lowered.form.sample == "pil"
        is_active = native_tally() is not None
        self._is_deferring = is_plain and is_active
        self._image_of = image_of if is_active and pillow_obeys() else _pillow.rgb_image
        self._directory = kept_directory()
        # The reason why Pillow decoded the last image or has to; None: it was decoded natively.
        self.fallback_reason: str | None = None
        self._fallback_seconds = 0.0

    def image(self, file: int, index: int) -> Any:
        """Returns the image of file `file`, transformed natively, in the form that NativePartPlan.lowered.form names.

        Args:
            file: Number of the file in the source's table.
            index: The sample's index, for errors.

        Raises:
            SampleError: The file cannot be read or decoded.
            NotApplicableError: Pillow decodes the image, but the steps cannot be applied to it. The stream has not
                moved.
        """
        plan = self._plan
        path = plan.source.table.path_bytes(file)
        self.fallback_reason = None
        if self._is_deferring:
            return self._deferred(file, index)
        info: dict[Any, Any] | None = None
        result = self._native.run_file(path, plan.transform, self._draws(), self._directory, plan.first_steps)
        if result is None:
            self.fallback_reason = self._native.fallback_reason
            image = self.opened(file, index)
            info = image.info
            pixels = image.tobytes()
            result = self._native.run_pixels(
                pixels, image.width, image.height, plan.transform, self._draws(), first_steps=plan.first_steps
            )
        if isinstance(result, dict):
            if result["stage"] == "transform":
                self.fallback_reason = result["detail"]
                raise NotApplicableError
            raise exception_of({**result, "position": 0, "path": path, "drawn_size": None}, index)
        if plan.transform.is_random:
            self._stream.end_native_draws()
        return self._handed_over(result, file, index, info)

    def _deferred(self, file: int, index: int) -> _pillow.RgbImage:
        image = self._opened(file, index, _pillow.open_rgb_deferred_in)
        if not is_deferred(image):
            self.fallback_reason = thread_decoder().fallback_reason
        return image

    def opened(self, file: int, index: int) -> _pillow.RgbImage:
        """Returns the image of file `file` as Pillow decodes it. Raises SampleError: it cannot."""
        return self._opened(file, index, _pillow.open_rgb_in)

    def _opened(
        self, file: int, index: int, open_rgb_in: Callable[[int | None, bytes], _pillow.RgbImage]
    ) -> _pillow.RgbImage:
        path = self._plan.source.table.path_bytes(file)
        begin = time.perf_counter()
        try:
            return open_rgb_in(self._fileno(), path)
        except Exception as error:
            if is_interrupt(error):
                raise
            raise exception_of_pillow(error, path, index, self._fileno()) from error
        finally:
            self._fallback_seconds += time.perf_counter() - begin

    def take_counters(self) -> dict[str, Any]:
        """Returns the bytes read and the seconds per stage since the last call."""
        seconds, self._fallback_seconds = self._fallback_seconds, 0.0
        counters = self._native.take_counters()
        return {**counters, "stage_seconds": {**counters["stage_seconds"], "fallback": seconds}}

    def _fileno(self) -> int | None:
        return None if self._directory is None else self._directory.fileno()

    def _draws(self) -> _native.DrawSource:
        return self._stream.native_draws() if self._plan.transform.is_random else _NO_DRAWS

    def _info(self, file: int, index: int) -> dict[Any, Any]:
        path = self._plan.source.table.path_bytes(file)
        try:
            return _pillow.image_info_in(self._fileno(), path)
        except Exception as error:
            if is_interrupt(error):
                raise
            # The file has changed since it was decoded.
            raise exception_of_pillow(error, path, index, self._fileno()) from error

    def _handed_over(self, pixels: NDArray[np.uint8], file: int, index: int, info: dict[Any, Any] | None) -> Any:
        form = self._plan.lowered.form
        if form.sample == "pil":
            image = self._image_of(pixels)
            if self._has_info and self._native.keeps_info:
                image.info = self._info(file, index) if info is None else info
            return image
        return tensor_of(pixels, form, self._plan.image_type)


# For plans that draw nothing.
_NO_DRAWS = _native.CounterDraws(0, 0, 0)


def _ignores_info(transform: object) -> bool:
    kind = type(transform)
    return kind.__module__.startswith("torchvision.transforms.") and kind.__name__ not in _CALLING_OTHERS
