"""The native work of a loader: whole batches, or the native part of each sample."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._delivery._batch_memory import ViewForm
from fastload.sources._lowering import LoweredSource
from fastload.transforms._lowering import LoweredTransform
from fastload.transforms._tensor_part import SampleForm


@dataclass(frozen=True)
class NativePlan:
    """A loader's work in the engine's form.

    Attributes:
        source: the dataset as arrays.
        views: steps, output type and layout of each view of an image.
        forms: what is written for each view, and what the user gets.
        is_multi_view: whether a sample has a list of views; otherwise it has just the one view.
        lowered: the transform from which the views were made.
        draws_as_torch: whether random choices equal torch's draws; otherwise a counter makes them.
        first_steps: steps applied to each image before its pixels are kept, with which `views` go on; None: no pixels
            are kept.
    """

    source: LoweredSource
    views: tuple[_native.TransformPlan, ...]
    forms: tuple[ViewForm, ...]
    is_multi_view: bool
    lowered: LoweredTransform
    draws_as_torch: bool
    first_steps: _native.FirstSteps | None = None

    @property
    def has_ordered_draws(self) -> bool:
        """Whether samples draw from torch's generators, one after another."""
        return self.draws_as_torch and any(view.is_random for view in self.views)


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


@dataclass(frozen=True)
class NativePartPlan:
    """The native part of samples that the user's own Python completes. Refers to none of the user's objects.

    Attributes:
        source: The dataset as arrays.
        transform: The native steps and their final form; with first_steps, the steps after those.
        form: The form of the native part's results.
        is_decoding_only: Whether there are no native steps, and the result is an image.
        image_type: torchvision's tv_tensors.Image if the native part ends in one.
        max_pixels: Larger images are left to Pillow.
        draws_as_torch: As in NativePlan.
        first_steps: As in NativePlan.
    """

    source: LoweredSource
    transform: _native.TransformPlan
    form: SampleForm
    is_decoding_only: bool
    image_type: type[torch.Tensor] | None
    max_pixels: int
    draws_as_torch: bool
    first_steps: _native.FirstSteps | None = None
