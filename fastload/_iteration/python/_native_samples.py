"""The samples of a data set of image files: native code begins each, and the user's own Python completes it."""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import get_worker_info

from fastload import _native
from fastload._errors import SampleError, sample_error
from fastload._images._deferred import image_of, is_deferred, pillow_obeys
from fastload._images._pipelines import PythonPart
from fastload._images._tally import native_tally
from fastload._pillow import _pillow
from fastload._pillow._decode_image import OpenCache, new_decoder, no_draws, thread_decoder
from fastload._pillow._failures import exception_of, exception_of_pillow
from fastload._planning._plan import NativePartPlan
from fastload._process._interrupts import is_interrupt
from fastload._process._worker_process import is_worker
from fastload._workers._inherited import kept_directory
from fastload._workers._native_draws import thread_draws, thread_generator
from fastload.transforms._tensor_part import tensor_of

# Transforms of torchvision that call the user's code, which may look at an image's EXIF data.
_CALLING_OTHERS = ("Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")
_Result = TypeVar("_Result")
# Called with a path, and the descriptor of the directory that it is in, or None.
_Open = Callable[[bytes, int | None], _Result]


class _NotApplicableError(Exception):
    """The native steps cannot be applied to an image; torchvision's steps run on it instead."""


@dataclass
class _Counts:
    """The counts of some samples."""

    num_native: int = 0
    num_failed: int = 0
    fallback_reasons: dict[str, int] = field(default_factory=dict)
    fallback_seconds: float = 0.0
    python_seconds: float = 0.0

    def add(self, fallback_reason: str | None) -> None:
        if fallback_reason is None:
            self.num_native += 1
        else:
            self.fallback_reasons[fallback_reason] = self.fallback_reasons.get(fallback_reason, 0) + 1


@dataclass(eq=False)
class NativeSamples:
    """A map-style data set with the samples of the user's. Not thread-safe: each worker has its own.

    It draws from the calling thread's generators, and makes its decoder with the first sample.

    Attributes:
        plan: The native part of each sample.
        python_part: The user's transforms that follow, in calling order.
        transform: All transforms of a sample.
        target_transform: The transform of its label; None: none.
        open_cache: Opens the cache of decoded images; None: there is none.
    """

    plan: NativePartPlan
    python_part: tuple[Callable[[Any], Any], ...]
    transform: Any
    target_transform: Callable[[Any], Any] | None
    open_cache: OpenCache | None
    _counts: _Counts = field(default_factory=_Counts, init=False)
    # The reason why Pillow decoded the last image or has to; None: it was decoded natively.
    _fallback_reason: str | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self.plan.source)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        """Returns the image and the label.

        Raises:
            IndexError, ValueError, TypeError: The user's data set has no such index.
            SampleError: The file cannot be read, decoded or transformed.
        """
        number = operator.index(index)
        file = self.plan.source.file(number)
        try:
            sample = self._sample(file, number)
        except SampleError:
            self._counts.num_failed += 1
            raise
        self._counts.add(self._fallback_reason)
        return sample

    def take_counters(self) -> dict[str, Any]:
        """Returns the counters since the last call, by their names in LoaderStats."""
        counts, self._counts = self._counts, _Counts()
        decoder = self._decoder.take_counters()
        num_fallback = sum(counts.fallback_reasons.values())
        has_python_part = bool(self.python_part) or self.target_transform is not None
        seconds = {"fallback": counts.fallback_seconds, "tail": counts.python_seconds}
        return {
            **decoder,
            "samples_native": counts.num_native,
            "samples_fallback": num_fallback,
            "samples_failed": counts.num_failed,
            "samples_python_tail": counts.num_native + num_fallback if has_python_part else 0,
            "fallback_reasons": counts.fallback_reasons,
            "stage_seconds": {**decoder["stage_seconds"], **seconds},
        }

    @functools.cached_property
    def _decoder(self) -> _native.SampleDecoder:
        is_exact = _pillow.native_jpeg_is_exact().is_exact
        return new_decoder(self.plan.max_pixels, self.open_cache, native_jpeg=is_exact)

    @functools.cached_property
    def _python_steps(self) -> PythonPart:
        return PythonPart(self.python_part)

    @functools.cached_property
    def _needs_info(self) -> bool:
        """Whether the Python part may look at what a file says besides its pixels."""
        return not self.python_part or not all(map(_ignores_info, self.python_part))

    def _sample(self, file: int, index: int) -> tuple[Any, Any]:
        steps = self._python_steps
        try:
            image = self._image(file, index)
        except _NotApplicableError:  # torchvision's steps run from the start, and raise or succeed
            image, steps = self._opened(file, index), PythonPart([self.transform])
        begin = time.perf_counter()
        try:
            image = steps.run(image)
            label: Any = self.plan.source.table.label(file)
            return image, label if self.target_transform is None else self.target_transform(label)
        except Exception as error:
            if is_interrupt(error):
                raise
            raise self._transform_error(error, file, index) from error
        finally:
            self._counts.python_seconds += time.perf_counter() - begin

    def _transform_error(self, error: Exception, file: int, index: int) -> SampleError:
        next_step = "Run the transform on this file alone to see why."
        if (worker := get_worker_info()) is not None:
            kind = "process" if is_worker() else "thread"
            next_step = f"Caught {type(error).__name__} in DataLoader worker {kind} {worker.id}. {next_step}"
        path = self.plan.source.table.path_bytes(file)
        return sample_error(index, path, "transform", error, next_step=next_step)

    # ---- the native part -------------------------------------------------------------------------------------------

    def _image(self, file: int, index: int) -> Any:
        """Returns the image of file `file`, transformed natively, in the form that NativePartPlan.form names.

        Args:
            file: Number of the file in the source's table.
            index: The sample's index, for errors.

        Raises:
            SampleError: The file cannot be read or decoded.
            _NotApplicableError: Pillow decodes the image, but the steps cannot be applied to it. They have not drawn.
        """
        plan = self.plan
        path = plan.source.table.path_bytes(file)
        self._fallback_reason = None
        if plan.is_decoding_only and native_tally() is not None:
            # The Python steps decide how much to decode.
            return self._deferred(file, index)
        info: dict[Any, Any] | None = None
        result = self._decoder.run_file(path, plan.transform, self._draws(), kept_directory(), plan.first_steps)
        if result is None:
            self._fallback_reason = self._decoder.fallback_reason
            image = self._opened(file, index)
            info = image.info
            pixels = image.tobytes()
            result = self._decoder.run_pixels(
                pixels, image.width, image.height, plan.transform, self._draws(), first_steps=plan.first_steps
            )
        if isinstance(result, dict):
            if result["stage"] == "transform":
                self._fallback_reason = result["detail"]
                raise _NotApplicableError
            raise exception_of({**result, "position": 0, "path": path, "drawn_size": None}, index)
        if plan.transform.is_random and plan.draws_as_torch:
            thread_draws().end(thread_generator())
        return self._in_form(result, file, index, info)

    def _draws(self) -> _native.DrawSource:
        """Returns native draws from the thread's current state, which _image() advances if it succeeds."""
        if not self.plan.transform.is_random:
            return no_draws()
        if self.plan.draws_as_torch:
            return thread_draws().begin(thread_generator())
        own: Any = _native.thread_generators()  # WorkerGenerators
        return _native.CounterDraws(*own.counter)

    def _in_form(self, pixels: NDArray[np.uint8], file: int, index: int, info: dict[Any, Any] | None) -> Any:
        form = self.plan.form
        if form.sample != "pil":
            return tensor_of(pixels, form, self.plan.image_type)
        is_active = native_tally() is not None and pillow_obeys()
        image: Any = image_of(pixels) if is_active else _pillow.rgb_image(pixels)
        if self._needs_info and self._decoder.keeps_info:
            image.info = self._info(file, index) if info is None else info
        return image

    # ---- files that Pillow opens -----------------------------------------------------------------------------------

    def _deferred(self, file: int, index: int) -> _pillow.RgbImage:
        image = self._decoded_by_pillow(_pillow.open_rgb_deferred, file, index)
        if not is_deferred(image):
            self._fallback_reason = thread_decoder().fallback_reason
        return image

    def _opened(self, file: int, index: int) -> _pillow.RgbImage:
        """Returns the image of file `file` as Pillow decodes it."""
        return self._decoded_by_pillow(_pillow.open_rgb, file, index)

    def _decoded_by_pillow(self, open_rgb: _Open[_pillow.RgbImage], file: int, index: int) -> _pillow.RgbImage:
        begin = time.perf_counter()
        try:
            return self._asked_of_pillow(open_rgb, file, index)
        finally:
            self._counts.fallback_seconds += time.perf_counter() - begin

    def _info(self, file: int, index: int) -> dict[Any, Any]:
        # If this fails, the file has changed since it was decoded.
        return self._asked_of_pillow(_pillow.image_info_in, file, index)

    def _asked_of_pillow(self, function: _Open[_Result], file: int, index: int) -> _Result:
        """Calls `function` with the thread's directory and the file's path. Raises SampleError: it has failed."""
        path = self.plan.source.table.path_bytes(file)
        directory = kept_directory()
        fileno = None if directory is None else directory.fileno()
        try:
            return function(path, fileno)
        except Exception as error:
            if is_interrupt(error):
                raise
            raise exception_of_pillow(error, path, index, fileno) from error


def _ignores_info(transform: object) -> bool:
    kind = type(transform)
    return kind.__module__.startswith("torchvision.transforms.") and kind.__name__ not in _CALLING_OTHERS
