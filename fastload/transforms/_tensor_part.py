"""The transforms that make a tensor and change each element by itself, as a table from pixel values to elements.

They are not interpreted: torch runs the user's own objects on images that hold every value in every channel.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._pillow._pillow import as_reference, rgb_image
from fastload._process._interrupts import equal_arrays, is_interrupt
from fastload.transforms import _parameters, _recognize
from fastload.transforms._stage import Family, RunsInPythonError

DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class SampleForm:
    """The form of a sample after native steps.

    Attributes:
        dtype: Type of its elements.
        table: 3 * 256 elements in `dtype` (value v of channel c becomes element 256 * c + v), or None if the result is
            the uint8 image itself.
        sample: "pil" for an RGB PIL image, "tensor" for a torch.Tensor [3, height, width], "tv_image" for a
            torchvision.tv_tensors.Image of that shape, which batches as a plain tensor.
        is_interleaved: Whether the tensor has the memory layout [height, width, channel], as PILToTensor leaves it. It
            matters to a Python part, not to a batch.
        pixel_strides: Strides of the tensor of one pixel. torch keeps any strides for sides of 1.
    """

    dtype: torch.dtype = torch.uint8
    table: bytes | None = None
    sample: Literal["pil", "tensor", "tv_image"] = "pil"
    is_interleaved: bool = False
    pixel_strides: tuple[int, ...] = (1, 1, 1)


@functools.cache
def _numpy_type(dtype: torch.dtype) -> np.dtype[Any] | None:
    """Returns NumPy's type for `dtype`; None if there is none, as for bfloat16."""
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return None


def tensor_of(pixels: NDArray[np.uint8], form: SampleForm, image_type: type[torch.Tensor] | None) -> torch.Tensor:
    """Returns the tensor in which a transform of `form` ends, from the bytes that native code has made."""
    element = _numpy_type(form.dtype)
    # This makes one tensor less: the end of a tensor releases the GIL.
    tensor = torch.from_numpy(pixels).view(form.dtype) if element is None else torch.from_numpy(pixels.view(element))
    if form.is_interleaved:
        tensor = tensor.permute(2, 0, 1)
    if tensor.numel() == len(form.pixel_strides):
        tensor = tensor.as_strided(tensor.size(), form.pixel_strides)
    if form.sample == "tensor":
        return tensor
    assert image_type is not None, "steps that make tv_tensors come with their type"
    return tensor.as_subclass(image_type)


class TensorProbe:
    """Three images on their way through the tensor part, one transform after the other.

    The first holds each value once in each channel: its results are the table. The second holds the values several
    times, in a different order in each channel and in a shape that does not fill vector registers evenly: its results
    must agree with the table. The third is a single pixel, for its strides.
    """

    def __init__(self) -> None:
        columns, mixed, _ = _probes()
        self._images: list[Any] = [rgb_image(pixels) for pixels in (columns, mixed, columns[:1, :1])]

    def apply(self, transform: Any) -> SampleForm:
        """Runs `transform`, too, and returns the form after it.

        Raises:
            RunsInPythonError: it fails, or an element does not depend on its own value and channel only.
        """
        try:
            with torch.enable_grad(), as_reference():
                self._images = [transform(image) for image in self._images]
        except Exception as error:
            if is_interrupt(error):
                raise
            # torchvision raises it again for the first sample, in Python.
            raise RunsInPythonError(f"the tensor part raises {type(error).__name__}: {error}") from error
        first, again, pixel = self._images
        columns, mixed, table_indices = _probes()
        table = _elements(first, columns)
        if again.dtype != first.dtype or not equal_arrays(_elements(again, mixed), table.ravel()[table_indices]):
            raise RunsInPythonError("the tensor part does not treat each element for itself")
        is_identity = first.dtype == torch.uint8 and equal_arrays(table[:, 0], columns[0].T)
        return SampleForm(
            first.dtype,
            None if is_identity else table.tobytes(),
            _sample(again),
            _is_interleaved(again),
            tuple(pixel.stride()),
        )


@functools.cache
def _probes() -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]:
    """Returns the two images [height, width, 3], and the table indices [3, height, width] of the second's elements."""
    columns = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    counting = np.arange(27 * 19).reshape(27, 19)
    mixed = np.stack([counting * step + 31 * step for step in (5, 77, 201)], axis=2).astype(np.uint8)
    return columns, mixed, mixed.transpose(2, 0, 1) + np.arange(0, 768, 256)[:, None, None]


def _elements(result: Any, pixels: NDArray[np.uint8]) -> NDArray[Any]:
    """Returns the result for the image of `pixels`, [3, height, width], with each element's bits as an int."""
    height, width, _ = pixels.shape
    is_tensor = type(result) is torch.Tensor or type(result) is _recognize.image_type()
    if not is_tensor or result.dtype not in DTYPES or result.device.type != "cpu":
        raise RunsInPythonError(f"the tensor part gives {_describe(result)}", "plain CPU tensors of real numbers")
    if result.requires_grad:
        raise RunsInPythonError("the tensor part gives tensors that require gradients")
    if tuple(result.shape) != (3, height, width):
        raise RunsInPythonError(f"the tensor part makes {tuple(result.shape)} of (3, {height}, {width})")
    plain = result.as_subclass(torch.Tensor).contiguous()
    elements: NDArray[Any] = plain.view(_BITS[plain.element_size()]).numpy()
    return elements


def _sample(result: torch.Tensor) -> Literal["tensor", "tv_image"]:
    if type(result) is torch.Tensor:
        return "tensor"
    # default_collate stacks, which gives a plain tensor unless set_return_type("TVTensor") is in force.
    if type(torch.stack([result])) is not torch.Tensor:
        raise RunsInPythonError("batches of its results are not plain tensors")
    return "tv_image"


def _is_interleaved(result: torch.Tensor) -> bool:
    if result.is_contiguous():
        return False
    if result.permute(1, 2, 0).is_contiguous():
        return True
    raise RunsInPythonError(f"it leaves strides of {result.stride()}", "contiguous, or as PILToTensor gives them")


def _describe(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{type(value).__name__} of {value.dtype} on {value.device}"
    return _recognize.class_name(type(value))


def lower_random_erasing(transform: Any, family: Family, dtype: torch.dtype) -> _native.RandomErasing:
    """Returns the step of a RandomErasing on tensors of `dtype`."""
    scale = _parameters.interval(transform.scale, "scale")
    ratio = _parameters.interval(transform.ratio, "ratio")
    if scale[0] < 0 or ratio[0] <= 0:
        raise RunsInPythonError(f"scale {scale} or ratio {ratio} is not positive")
    if family == "v2" and _parameters.is_number(transform.value):  # its constructor makes a list
        raise RunsInPythonError(f"value {transform.value!r} was set on the object")
    return _native.RandomErasing(
        probability=_parameters.probability(transform.p),
        scale=scale,
        ratio=ratio,
        log_ratio=_parameters.log_ratio(transform, family),
        value=_erased_elements(transform.value, dtype),
    )


def _erased_elements(value: object, dtype: torch.dtype) -> bytes:
    """Returns the bytes of the three channels' elements, converted from float32 by an assignment of torch."""
    channels: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(channels) not in (1, 3) or not all(map(_parameters.is_number, channels)):
        raise RunsInPythonError(f"value {value!r}", "a number, or one for each channel")
    elements = torch.tensor([float(channel) for channel in channels])
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        # float32 rounds the limit of a wide type up to a number that the type does not hold.
        if not all(limits.min <= element.item() < limits.max + 1 for element in elements):
            raise RunsInPythonError(f"value {value!r} in {dtype}", f"numbers from {limits.min} to {limits.max}")
    converted = torch.empty(3, dtype=dtype)
    converted[:] = elements
    return converted.view(torch.uint8).numpy().tobytes()
