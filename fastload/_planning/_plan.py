"""The plan of a loader: what makes its batches, the findings at each stage, and the data that each part needs.

Each stage of the flow is examined by itself; the one that needs most Python decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import DataLoader

from fastload import _native
from fastload._delivery._batch_memory import ViewForm
from fastload._delivery._device import BatchLayout
from fastload._pillow import _pillow
from fastload._planning._verdicts import (
    Mode,
    StageVerdict,
    batching_verdicts,
    decoder,
    random_verdict,
    transform_verdicts,
)
from fastload._workers._native_draws import with_torch_exp
from fastload.sources._lowering import LoweredSource, NotLoweredError
from fastload.transforms._first_steps import NoFirstStepsError, first_steps_of, hash_of, size_after
from fastload.transforms._lowering import LoweredTransform, lower_transform
from fastload.transforms._pillow_rules import resize_order
from fastload.transforms._recognize import image_type
from fastload.transforms._stage import RunsInPythonError, Size
from fastload.transforms._tensor_part import SampleForm


@dataclass(frozen=True)
class NativePlan:
    """A loader's work in the engine's form.

    Attributes:
        source: the dataset as arrays.
        views: steps, output type and layout of each view of an image.
        forms: what is written for each view, and what the user gets.
        lowered: the transform from which the views were made; if it has no views, a sample has just this one.
        draws_as_torch: whether random choices equal torch's draws; otherwise a counter makes them.
        first_steps: steps applied to each image before its pixels are kept, with which `views` go on; None: no pixels
            are kept.
    """

    source: LoweredSource
    views: tuple[_native.TransformPlan, ...]
    forms: tuple[ViewForm, ...]
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

    Attributes that NativePlan does not have:
        transform: The native steps and their final form; with first_steps, the steps after those.
        form: The form of the native part's results.
        is_decoding_only: Whether there are no native steps, and the result is an image.
        image_type: torchvision's tv_tensors.Image if the native part ends in one.
        max_pixels: Larger images are left to Pillow.
    """

    source: LoweredSource
    transform: _native.TransformPlan
    form: SampleForm
    is_decoding_only: bool
    image_type: type[torch.Tensor] | None
    max_pixels: int
    draws_as_torch: bool
    first_steps: _native.FirstSteps | None = None


@dataclass(frozen=True)
class LoaderPlan:
    """How the batches of a loader are made.

    Attributes:
        verdicts: Verdicts on every stage, in the order of the flow.
        rng: The loader's, "torch" or "sample".
        source: The dataset as arrays; None if it is not lowered.
        transform: The lowered transform of each image; None if it is unknown.
    """

    verdicts: tuple[StageVerdict, ...]
    rng: str
    source: LoweredSource | None = None
    transform: LoweredTransform | None = None

    @property
    def mode(self) -> Mode:
        return max(verdict.mode for verdict in self.verdicts)

    def native(
        self, memory_format: torch.memory_format, *, is_converted_later: bool, keeps_pixels: bool = False
    ) -> NativePlan:
        """Returns the plan for a loader that is entirely native.

        Args:
            memory_format: Memory format of the batches.
            is_converted_later: Whether uint8 pixels are written if a device can make the user's elements from them.
            keeps_pixels: Whether the image after the first steps is made separately, so that it can be kept.

        Raises:
            NoFirstStepsError: There is no such image that is worth keeping.
        """
        assert self.source is not None, "a native loader is lowered"
        assert self.transform is not None
        views = self.transform.views or (self.transform,)
        forms = [_view_form(view, memory_format, is_converted_later=is_converted_later) for view in views]
        first, size, others = _cut(views) if keeps_pixels else (None, None, views)
        plans = [
            self._transform_plan(view, form.table is not None, form.layout.memory_format is torch.channels_last, size)
            for view, form in zip(others, forms, strict=True)
        ]
        return NativePlan(
            self.source,
            tuple(plans),
            tuple(forms),
            lowered=self.transform,
            draws_as_torch=self.rng == "torch",
            first_steps=first,
        )

    def why_no_pixels(self) -> str | None:
        """Returns why no image after first steps can be kept, as a clause; None if one can."""
        try:
            self.kept_first_steps()
        except NoFirstStepsError as error:
            return str(error)
        return None

    def kept_first_steps(self) -> _native.FirstSteps:
        """Returns the steps applied to each image before its pixels are kept. Raises NoFirstStepsError."""
        if self.mode is Mode.PYTHON or self.transform is None:
            raise NoFirstStepsError("samples are not loaded natively")
        views = self.transform.views if self.mode is Mode.NATIVE else ()
        return _cut(views or (self.transform,))[0]

    def native_part(self, *, keeps_pixels: bool = False) -> NativePartPlan:
        """Returns the plan for samples that native code begins and Python ends; Python calls a MultiView as it is.

        Raises:
            NoFirstStepsError: As native().
            UnknownDrawsError: rng is "torch", and native code does not know this torch's draws.
        """
        assert self.source is not None, "a partly native loader is lowered"
        assert self.transform is not None
        form = self.transform.form
        is_image = form.sample == "pil"
        first, size, (rest,) = _cut((self.transform,)) if keeps_pixels else (None, None, (self.transform,))
        return NativePartPlan(
            self.source.without_code(),
            self._transform_plan(rest, is_image, form.is_interleaved, size, allow_variable_size=True),
            form,
            is_decoding_only=is_image and not self.transform.steps,
            image_type=image_type(),
            max_pixels=_pillow.max_pixels(),
            draws_as_torch=self.rng == "torch",
            first_steps=first,
        )

    def _transform_plan(
        self,
        lowered: LoweredTransform,
        is_pixels: bool,
        channels_last: bool,
        source_size: Size | None,
        *,
        allow_variable_size: bool = False,
    ) -> _native.TransformPlan:
        """Returns the native steps of `lowered`; with `is_pixels` they end in an image, otherwise in its elements."""
        return _native.TransformPlan(
            with_torch_exp(lowered.steps) if self.rng == "torch" else list(lowered.steps),
            element_size=1 if is_pixels else lowered.form.dtype.itemsize,
            channels_last=is_pixels or channels_last,
            table=None if is_pixels else lowered.form.table,
            resize_order=resize_order(_pillow.pillow_info().version),
            allow_variable_size=allow_variable_size,
            source_size=source_size,
        )


def plan_loader(
    loader: DataLoader[Any], rng: str, lower_source: Callable[[], LoweredSource], *, calls_are_native: bool
) -> LoaderPlan:
    """Examines each stage of `loader`; `lower_source` lowers its dataset, or raises NotLoweredError.

    With `calls_are_native`, transforms that Python calls with images are native in its workers.

    Note [asked again]: the user's objects can change at any time without notice, and torch's defaults and torchvision's
    functions affect them. So explain() and each new iterator make a plan, and no part of a plan is older than the
    iterator that uses it; with persistent_workers it lasts, as torch's workers keep their copy. The dataset's table is
    kept while `LoweredSource.is_current`, which compares. A transform is lowered again, which asks every object once
    and is as cheap as a comparison: slow results are cached by value (torch's weights of a blur, a policy's list of
    operations, torch's exp).
    """
    dataset = type(loader.dataset).__qualname__
    batching = batching_verdicts(loader)
    try:
        source = lower_source()
    except NotLoweredError as error:
        return LoaderPlan((StageVerdict("source", dataset, str(error), Mode.PYTHON), *batching), rng)
    verdicts = [StageVerdict("source", f"{dataset}, {len(source)} samples")]
    try:
        transform = _lower_parts(source)
    except RunsInPythonError as error:
        verdicts.append(StageVerdict("transform", "as a whole", str(error), Mode.PYTHON))
        return LoaderPlan((*verdicts, *batching), rng, source)
    for number, view in enumerate(transform.views or (transform,), start=1):
        where = f"view {number}: " if transform.views else ""
        verdicts += transform_verdicts(view, where, calls_are_native=calls_are_native)
    if source.target_transform is not None:
        verdicts.append(StageVerdict("labels", "target_transform", "it runs in Python", Mode.PARTLY_NATIVE))
    verdicts += [random_verdict(rng, loader.num_workers), StageVerdict("decode", decoder())]
    if _pillow.pillow_info().is_simd:
        verdicts.append(StageVerdict("resize", "like plain Pillow, whose resize differs from Pillow-SIMD's"))
    return LoaderPlan((*verdicts, *batching), rng, source, transform)


def guarded(plan: LoaderPlan, on_error: str) -> LoaderPlan:
    """Returns `plan` for a loader in which bad samples do not end in an error."""
    short = ", batches may be short" if on_error == "skip" else ""
    reason = None if plan.mode is Mode.NATIVE else "bad samples are found one by one"
    mode = Mode.NATIVE if plan.mode is Mode.NATIVE else Mode.PARTLY_NATIVE
    verdict = StageVerdict("errors", f"on_error={on_error!r}{short}", reason, mode)
    return replace(plan, verdicts=(*plan.verdicts, verdict))


def _cut(
    views: tuple[LoweredTransform, ...],
) -> tuple[_native.FirstSteps, Size | None, tuple[LoweredTransform, ...]]:
    """Returns the first steps of all views, the size after them if it is fixed, and the views without them."""
    steps, info = first_steps_of(views), _pillow.pillow_info()
    order = resize_order(info.version)
    plan = _native.TransformPlan(list(steps), channels_last=False, resize_order=order, allow_variable_size=True)
    # The hash covers what else their result depends on; csrc/engine/cache/record_kinds.h counts the rest.
    surroundings = f"{order}, Pillow {info.version}, libjpeg {info.libjpeg_turbo}"
    others = tuple(replace(view, steps=view.steps[len(steps) :]) for view in views)
    return _native.FirstSteps(plan, hash_of(steps, surroundings)), size_after(steps), others


def _lower_parts(source: LoweredSource) -> LoweredTransform:
    """Returns the one transform of all parts of `source`, or raises RunsInPythonError."""
    first, *others = map(lower_transform, source.transforms)
    if any(other != first for other in others):
        raise RunsInPythonError("not native: parts have different transforms")
    return replace(first, views=()) if others else first


def _view_form(view: LoweredTransform, memory_format: torch.memory_format, *, is_converted_later: bool) -> ViewForm:
    assert view.size is not None, "native results have one size"
    form = view.form
    layout = BatchLayout(*view.size, form.dtype, memory_format)
    # RandomErasing writes elements that no pixel can have.
    is_erased = any(isinstance(step, _native.RandomErasing) for _, step in view.steps)
    if not is_converted_later or form.table is None or is_erased:
        return ViewForm(layout)
    return ViewForm(layout, torch.frombuffer(bytearray(form.table), dtype=form.dtype).view(3, 256))
