"""What every thread of an iteration with a Python tail shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch.utils.data import DataLoader

from fastload import _fallback, _native, _torch_draws
from fastload.sources._lowering import LoweredSource
from fastload.transforms._pillow_rules import resize_order

Rng = Literal["torch", "sample"]


class LoweredHead(Protocol):
    """The parts of a lowered transform that are needed here; see there."""

    @property
    def steps(self) -> Sequence[tuple[int, _native.Step]]: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def element_size(self) -> int: ...
    @property
    def table(self) -> bytes | None: ...
    @property
    def sample(self) -> Literal["pil", "tensor", "tv_image"]: ...
    @property
    def is_interleaved(self) -> bool: ...
    @property
    def tail(self) -> Sequence[Callable[[Any], Any]]: ...
    @property
    def stages(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class TailPlan:
    """How a sample is made, by native code and then by the user's own Python, and a batch of samples.

    Attributes:
        source: The dataset as arrays.
        index: Its paths.
        transform: The native steps and the form they end in.
        head: What the steps were lowered from.
        image_type: torchvision's tv_tensors.Image, where the head makes one.
        collate_fn: Called with the list of samples, or with one sample where there are no batches.
        is_batched: Whether the sampler gives lists of indices.
        max_pixels: Larger images are left to Pillow.
        is_native_jpeg_exact: False leaves every file to Pillow.
    """

    source: LoweredSource
    index: _native.SampleIndex
    transform: _native.TransformPlan
    head: LoweredHead
    image_type: type[torch.Tensor] | None
    collate_fn: Callable[[Any], Any]
    is_batched: bool
    max_pixels: int
    is_native_jpeg_exact: bool

    @classmethod
    def of(
        cls,
        loader: DataLoader[Any],
        source: LoweredSource,
        index: _native.SampleIndex,
        head: LoweredHead,
        rng: Rng,
        image_type: type[torch.Tensor] | None = None,
    ) -> TailPlan:
        """The plan for one iteration of `loader`, whose dataset and transform were lowered to the other arguments.

        Raises:
            UnknownDrawsError: `rng` is "torch", whose draws native code does not know.
        """
        return cls(
            source,
            index,
            native_transform(head, rng),
            head,
            image_type,
            loader.collate_fn,
            loader.batch_sampler is not None,
            _fallback.pillow_info().max_pixels,
            _fallback.native_jpeg_is_exact().is_exact,
        )

    @property
    def has_python_part(self) -> bool:
        """Whether Python has a part in a sample, besides its batch."""
        return bool(self.head.tail) or self.source.target_transform is not None

    @property
    def tail_position(self) -> int:
        """Of the first transform that runs in Python, in the user's pipeline."""
        return next((stage.position for stage in self.head.stages if stage.problem is not None), len(self.head.stages))


def native_transform(head: LoweredHead, rng: Rng) -> _native.TransformPlan:
    """The steps of `head` in the form and memory layout in which Python takes over.

    Raises:
        UnknownDrawsError: rng is "torch", whose draws native code does not know.
    """
    return _native.TransformPlan(
        _torch_draws.with_torch_exp(head.steps) if rng == "torch" else list(head.steps),
        element_size=1 if head.sample == "pil" else head.element_size,
        channels_last=head.sample == "pil" or head.is_interleaved,
        table=None if head.sample == "pil" else head.table,
        resize_order=resize_order(_fallback.pillow_info().version),
        allow_variable_size=True,
    )
