"""The plan of a loader: who makes its batches, what was found at each stage, and what each part needs to know.

Each stage of the flow is looked at for itself; the one that needs most of Python decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, IterDataPipe, MapDataPipe

from fastload import _native
from fastload._delivery._batch_memory import ViewForm
from fastload._delivery._device import BatchLayout
from fastload._pillow import _pillow
from fastload._planning._native_part_plan import NativePartPlan
from fastload._planning._native_plan import NativePlan
from fastload._planning._torch_draws import with_torch_exp
from fastload._planning._verdicts import (
    Mode,
    StageVerdict,
    batching_verdicts,
    decoder,
    random_verdict,
    transform_verdicts,
)
from fastload.sources._lowering import LoweredSource, NotLowered
from fastload.transforms._lowering import LoweredTransform, lower_transform, lower_views
from fastload.transforms._lowering import NotLowered as TransformNotLowered
from fastload.transforms._pillow_rules import resize_order


@dataclass(frozen=True)
class LoaderPlan:
    """How the batches of a loader are made.

    Attributes:
        verdicts: On every stage, in the order of the flow.
        rng: "torch" or "sample", as of the loader.
        source: The dataset as arrays; None where it is not lowered.
        views: What is made of each image: one pipeline, or those of a MultiView; empty where it is not known.
        is_multi_view: Whether a sample has a list of views.
    """

    verdicts: tuple[StageVerdict, ...]
    rng: str
    source: LoweredSource | None = None
    views: tuple[LoweredTransform, ...] = ()
    is_multi_view: bool = False

    @property
    def mode(self) -> Mode:
        return max(verdict.mode for verdict in self.verdicts)

    def native(
        self, index: _native.SampleIndex, memory_format: torch.memory_format, *, is_converted_later: bool
    ) -> NativePlan:
        """For a loader of which everything is native.

        With `is_converted_later` uint8 pixels are written where the user's elements can be made of them on a device.
        """
        assert self.source is not None, "what is native is lowered"
        forms = [_view_form(view, memory_format, is_converted_later=is_converted_later) for view in self.views]
        return NativePlan(
            self.source,
            index,
            tuple(self._view_plan(view, form) for view, form in zip(self.views, forms, strict=True)),
            tuple(forms),
            self.is_multi_view,
            draws_as_torch=self.rng == "torch",
        )

    def native_part(self, image_type: type[torch.Tensor] | None) -> NativePartPlan:
        """For a loader whose samples native code begins and Python ends.

        Raises:
            UnknownDrawsError: rng is "torch", whose draws native code does not know.
        """
        assert self.source is not None, "what is partly native is lowered"
        (lowered,) = self.views
        is_image = lowered.sample == "pil"
        return NativePartPlan(
            self.source,
            self._transform_plan(
                lowered, is_uint8=is_image, channels_last=is_image or lowered.is_interleaved, allow_variable_size=True
            ),
            lowered,
            image_type,
            _pillow.pillow_info().max_pixels,
            _pillow.native_jpeg_is_exact().is_exact,
        )

    def _view_plan(self, view: LoweredTransform, form: ViewForm) -> _native.TransformPlan:
        is_pixels = form.table is not None
        channels_last = is_pixels or form.layout.memory_format is torch.channels_last
        return self._transform_plan(view, is_uint8=is_pixels, channels_last=channels_last, allow_variable_size=False)

    def _transform_plan(
        self, lowered: LoweredTransform, *, is_uint8: bool, channels_last: bool, allow_variable_size: bool
    ) -> _native.TransformPlan:
        """The native steps of `lowered`; with `is_uint8` they end in pixels, else in its own elements."""
        return _native.TransformPlan(
            with_torch_exp(lowered.steps) if self.rng == "torch" else list(lowered.steps),
            element_size=1 if is_uint8 else lowered.element_size,
            channels_last=channels_last,
            table=None if is_uint8 else lowered.table,
            resize_order=resize_order(_pillow.pillow_info().version),
            allow_variable_size=allow_variable_size,
        )


def plan_loader(loader: DataLoader[Any], rng: str, source: LoweredSource | NotLowered) -> LoaderPlan:
    """Looks at each stage of `loader`, whose dataset was lowered to `source`."""
    dataset = type(loader.dataset).__qualname__
    batching = batching_verdicts(loader)
    if isinstance(loader.dataset, (IterDataPipe, MapDataPipe)):
        reason = "torch's iterator seeds and shards the graph of a DataPipe"
        return LoaderPlan((StageVerdict("source", dataset, reason, Mode.TORCH), *batching), rng)
    if isinstance(source, NotLowered):
        return LoaderPlan((StageVerdict("source", dataset, source.reason, Mode.PYTHON), *batching), rng)
    verdicts = [StageVerdict("source", f"{dataset}, {len(source)} samples")]
    transform = _lower_parts(source)
    views: Sequence[LoweredTransform] | None = lower_views(source.transform) if len(source.transforms) == 1 else None
    if isinstance(transform, TransformNotLowered):
        verdicts.append(StageVerdict("transform", "as a whole", transform.reason, Mode.PYTHON))
        return LoaderPlan((*verdicts, *batching), rng, source)
    for number, view in enumerate(views or [transform], start=1):
        verdicts += transform_verdicts(view, f"view {number}: " if views else "")
    if source.target_transform is not None:
        verdicts.append(StageVerdict("labels", "target_transform", "it runs in Python", Mode.PARTLY_NATIVE))
    verdicts += [random_verdict(rng, loader.num_workers), StageVerdict("decode", decoder())]
    if _pillow.pillow_info().is_simd:
        verdicts.append(StageVerdict("resize", "as plain Pillow, which Pillow-SIMD does not equal"))
    plan = LoaderPlan((*verdicts, *batching), rng, source, tuple(views or [transform]), views is not None)
    if plan.mode is Mode.PARTLY_NATIVE and views is not None:  # then Python calls the MultiView as it is
        return LoaderPlan(plan.verdicts, rng, source, (transform,))
    return plan


def _lower_parts(source: LoweredSource) -> LoweredTransform | TransformNotLowered:
    """The one transform of all parts of `source`."""
    first, *others = map(lower_transform, source.transforms)
    if any(other != first for other in others):
        return TransformNotLowered("not native: parts have different transforms")
    return first


def _view_form(view: LoweredTransform, memory_format: torch.memory_format, *, is_converted_later: bool) -> ViewForm:
    assert view.height is not None, "native results have one size"
    assert view.width is not None
    layout = BatchLayout(view.height, view.width, view.dtype, memory_format)
    # RandomErasing writes elements that no pixel may become.
    is_erased = any(isinstance(step, _native.RandomErasing) for _, step in view.steps)
    if not is_converted_later or view.table is None or is_erased:
        return ViewForm(layout)
    return ViewForm(layout, torch.frombuffer(bytearray(view.table), dtype=view.dtype).view(3, 256))
