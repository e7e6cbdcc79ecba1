"""What native code does for a loader: whole batches, or the native part of each sample."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
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
    """A loader's work in the form the engine takes.

    Attributes:
        source: the dataset as arrays.
        views: steps, output type and layout of what is made of each image.
        forms: what is written for each view, and what the user gets.
        is_multi_view: whether a sample has a list of views; else it has the one view itself.
        lowered: what the views were made of.
        draws_as_torch: whether random choices are those that torch would draw; else the counter makes them.
        first_steps: what is done to each image before its pixels are kept, and `views` go on with; None: none are.
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
        """Whether samples draw from torch's generators, one after the other."""
        return self.draws_as_torch and any(view.is_random for view in self.views)


@functools.cache
def _numpy_type(dtype: torch.dtype) -> np.dtype[Any] | None:
    """None where NumPy has none, as of bfloat16."""
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError:
        return None


def tensor_of(pixels: NDArray[np.uint8], form: SampleForm, image_type: type[torch.Tensor] | None) -> torch.Tensor:
    """The tensor that a transform of `form` ends in, of the bytes that native code has made."""
    element = _numpy_type(form.dtype)
    # A tensor less: where one ends, the GIL is given away.
    tensor = torch.from_numpy(pixels).view(form.dtype) if element is None else torch.from_numpy(pixels.view(element))
    if form.is_interleaved:
        tensor = tensor.permute(2, 0, 1)
    if tensor.numel() == len(form.pixel_strides):
        tensor = tensor.as_strided(tensor.size(), form.pixel_strides)
    if form.sample == "tensor":
        return tensor
    assert image_type is not None, "what makes tv_tensors comes with their type"
    return tensor.as_subclass(image_type)


@dataclass(frozen=True)
class NativePartPlan:
    """What every thread of an iteration shares whose samples native code begins and the user's own Python ends.

    Attributes:
        source: The dataset as arrays.
        transform: The native steps and the form they end in; with first_steps those behind them.
        lowered: What the steps were lowered from, with the transforms that Python goes on with.
        image_type: torchvision's tv_tensors.Image, where the native part ends in one.
        max_pixels: Larger images are left to Pillow.
        is_native_jpeg_exact: False leaves every file to Pillow.
        first_steps: As of a NativePlan.
    """

    source: LoweredSource
    transform: _native.TransformPlan
    lowered: LoweredTransform
    image_type: type[torch.Tensor] | None
    max_pixels: int
    is_native_jpeg_exact: bool
    first_steps: _native.FirstSteps | None = None

    @property
    def python_position(self) -> int:
        """Of the first transform that runs in Python, in the user's pipeline."""
        stages = self.lowered.stages
        return next((position for position, stage in enumerate(stages) if stage.problem is not None), len(stages))

    def without_code(self) -> NativePartPlan:
        """The same without the user's objects, of which each worker has its own."""
        source = replace(self.source, transforms=(), target_transform=None, _checks=())
        return replace(self, source=source, lowered=replace(self.lowered, python_part=(), stages=(), views=()))
