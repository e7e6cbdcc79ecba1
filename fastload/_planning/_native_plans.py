"""The native work of a loader: whole batches, or the native part of each sample."""

from __future__ import annotations

from dataclasses import dataclass

import torch

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
