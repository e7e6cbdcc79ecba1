"""How a loader's batches are made: by native code alone, ended or made in Python by threads, or by torch's iterator.

Each stage of the flow is looked at for itself; the one that needs most of Python decides.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, IterDataPipe, MapDataPipe
from torch.utils.data._utils import collate
from torch.utils.data._utils.collate import default_collate

from fastload import _fallback, _native
from fastload._batch_memory import ViewForm
from fastload._device import BatchLayout
from fastload._iterator import NativePlan
from fastload._stats import LoaderStats
from fastload._torch_draws import UnknownDrawsError, uniform_rule, with_torch_exp
from fastload.sources._lowering import LoweredSource, NotLowered
from fastload.transforms._lowering import LoweredTransform, TransformStage, lower_transform, lower_views
from fastload.transforms._lowering import NotLowered as TransformNotLowered
from fastload.transforms._pillow_rules import resize_order


class Way(enum.IntEnum):
    """Who makes the batches; a larger one needs more of Python."""

    NATIVE = 0
    TAIL = 1  # native code begins the samples, the user's own Python ends them in threads
    PYTHON = 2  # the user's dataset makes the samples in threads
    TORCH = 3


@dataclass(frozen=True)
class StageVerdict:
    """One row of explain().

    Attributes:
        stage: Of the flow.
        what: Was found there.
        reason: Why it is not native; None where it is.
        way: That it needs.
    """

    stage: str
    what: str
    reason: str | None = None
    way: Way = Way.NATIVE

    def __str__(self) -> str:
        return f"{self.stage:<10} {self.what}: {self.reason or 'native'}"


@dataclass(frozen=True)
class Findings:
    """What was found of a loader.

    Attributes:
        verdicts: On every stage, in the order of the flow.
        views: What is made of each image: one pipeline, or those of a MultiView; empty where it is not known.
        is_multi_view: Whether a sample has a list of views.
    """

    verdicts: tuple[StageVerdict, ...]
    views: tuple[LoweredTransform, ...] = ()
    is_multi_view: bool = False

    @property
    def way(self) -> Way:
        return max(verdict.way for verdict in self.verdicts)


def examine(loader: DataLoader[Any], rng: str, source: LoweredSource | NotLowered) -> Findings:
    """Look at each stage of `loader`, whose dataset was lowered to `source`."""
    dataset = type(loader.dataset).__qualname__
    batching = _batching_verdicts(loader)
    if isinstance(loader.dataset, (IterDataPipe, MapDataPipe)):
        reason = "torch's iterator seeds and shards the graph of a DataPipe"
        return Findings((StageVerdict("source", dataset, reason, Way.TORCH), *batching))
    if isinstance(source, NotLowered):
        return Findings((StageVerdict("source", dataset, source.reason, Way.PYTHON), *batching))
    verdicts = [StageVerdict("source", f"{dataset}, {len(source)} samples")]
    transform = _lower_parts(source)
    views: Sequence[LoweredTransform] | None = lower_views(source.transform) if len(source.transforms) == 1 else None
    if isinstance(transform, TransformNotLowered):
        verdicts.append(StageVerdict("transform", "as a whole", transform.reason, Way.PYTHON))
        return Findings((*verdicts, *batching))
    for number, view in enumerate(views or [transform], start=1):
        verdicts += _transform_verdicts(view, f"view {number}: " if views else "")
    if source.target_transform is not None:
        verdicts.append(StageVerdict("labels", "target_transform", "it runs in Python", Way.TAIL))
    verdicts += [_random_verdict(rng, loader.num_workers), StageVerdict("decode", _decoder())]
    if _fallback.pillow_info().is_simd:
        verdicts.append(StageVerdict("resize", "as plain Pillow, which Pillow-SIMD does not equal"))
    findings = Findings((*verdicts, *batching), tuple(views or [transform]), views is not None)
    if findings.way is Way.TAIL and views is not None:  # then Python calls the MultiView as it is
        return Findings(findings.verdicts, (transform,))
    return findings


def native_plan(
    findings: Findings,
    source: LoweredSource,
    index: _native.SampleIndex,
    rng: str,
    memory_format: torch.memory_format,
    *,
    is_converted_later: bool,
) -> NativePlan:
    """The plan of a loader of which everything is native.

    With `is_converted_later` uint8 pixels are written where the user's elements can be made of them on a device.
    """
    forms = [_view_form(view, memory_format, is_converted_later=is_converted_later) for view in findings.views]
    return NativePlan(
        source,
        index,
        tuple(_view_plan(view, rng, form) for view, form in zip(findings.views, forms, strict=True)),
        tuple(forms),
        findings.is_multi_view,
        draws_as_torch=rng == "torch",
    )


def _view_plan(view: LoweredTransform, rng: str, form: ViewForm) -> _native.TransformPlan:
    is_pixels = form.table is not None
    return _native.TransformPlan(
        with_torch_exp(view.steps) if rng == "torch" else list(view.steps),
        element_size=1 if is_pixels else view.element_size,
        channels_last=is_pixels or form.layout.memory_format is torch.channels_last,
        table=None if is_pixels else view.table,
        resize_order=resize_order(_fallback.pillow_info().version),
    )


def _view_form(view: LoweredTransform, memory_format: torch.memory_format, *, is_converted_later: bool) -> ViewForm:
    assert view.height is not None, "native results have one size"
    assert view.width is not None
    layout = BatchLayout(view.height, view.width, view.dtype, memory_format)
    # RandomErasing writes elements that no pixel may become.
    is_erased = any(isinstance(step, _native.RandomErasing) for _, step in view.steps)
    if not is_converted_later or view.table is None or is_erased:
        return ViewForm(layout)
    return ViewForm(layout, torch.frombuffer(bytearray(view.table), dtype=view.dtype).view(3, 256))


# More than this, and a second thread gains less than half.
_BUSY_GIL_SHARE = 0.7
_ENOUGH_GIL_CHECKS = 10


def gil_advice(stats: LoaderStats) -> str | None:
    """A row of explain() on the GIL, where threads were seen to wait for one another; None where they were not."""
    if stats.gil_checks < _ENOUGH_GIL_CHECKS or stats.gil_held_share < _BUSY_GIL_SHARE:
        return None
    return (
        f"{'GIL':<10} held {stats.gil_held_share:.0%} of the time: the dataset's own Python keeps threads from running "
        "in parallel. Move its work into functions that let go of the GIL (NumPy, PIL, torch, zlib, reading files), or "
        "into native transforms; where that cannot be, torch.utils.data.DataLoader with worker processes is faster"
    )


# The verdicts of each stage.


def _lower_parts(source: LoweredSource) -> LoweredTransform | TransformNotLowered:
    """The one transform of all parts of `source`."""
    first, *others = map(lower_transform, source.transforms)
    if any(other != first for other in others):
        return TransformNotLowered("not native: parts have different transforms")
    return first


def _transform_verdicts(transform: LoweredTransform, where: str) -> list[StageVerdict]:
    verdicts = [_stage_verdict(stage, where) for stage in transform.stages]
    if all(verdict.way is Way.NATIVE for verdict in verdicts) and (reason := _result_obstacle(transform)):
        verdicts.append(StageVerdict("transform", f"{where}as a whole", reason, Way.TAIL))
    return verdicts


def _stage_verdict(stage: TransformStage, where: str) -> StageVerdict:
    what = f"{where}{stage.position + 1} of {stage.total}, {stage.name}"
    return StageVerdict("transform", what, stage.problem, Way.NATIVE if stage.problem is None else Way.TAIL)


def _result_obstacle(transform: LoweredTransform) -> str | None:
    """Why native code does not make batches of what native steps alone end in, or None."""
    if not transform.stages:
        return "there is no transform, so the samples are PIL images"
    if transform.sample == "pil":
        return "the result is a PIL image (native: with a PILToTensor or ToTensor)"
    if transform.height is None:
        return (
            "the size of the result depends on the image (native: with a CenterCrop, a RandomResizedCrop or a Resize "
            "to height and width)"
        )
    return None


def _random_verdict(rng: str, num_workers: int) -> StageVerdict:
    if rng == "sample":
        return StageVerdict("random", "a counter for each sample")
    what = f"torch's numbers for num_workers={num_workers}"
    try:
        uniform_rule()
    except UnknownDrawsError as error:
        return StageVerdict("random", what, str(error), Way.PYTHON)
    return StageVerdict("random", what)


def _decoder() -> str:
    exactness = _fallback.native_jpeg_is_exact()
    return "clean JPEG, others by Pillow" if exactness.is_exact else f"all by Pillow: {exactness.reason}"


def _batching_verdicts(loader: DataLoader[Any]) -> list[StageVerdict]:
    sampler = type(loader.sampler).__qualname__
    if loader.batch_sampler is None:
        verdicts = [StageVerdict("batches", f"sampler {sampler}", "batch_size=None runs in Python", Way.TAIL)]
    else:
        verdicts = [StageVerdict("batches", f"{type(loader.batch_sampler).__qualname__} over {sampler}")]
        name = getattr(loader.collate_fn, "__qualname__", type(loader.collate_fn).__qualname__)
        reason = _collate_obstacle(loader.collate_fn)
        verdicts.append(StageVerdict("collate", name, reason, Way.NATIVE if reason is None else Way.TAIL))
    if loader.worker_init_fn is not None and loader.num_workers > 0:
        verdicts.append(StageVerdict("workers", "worker_init_fn, called for each"))
    return verdicts


def _collate_obstacle(collate_fn: object) -> str | None:
    """Why `collate_fn` is not what native batches are made as, or None."""
    if collate_fn is not default_collate:
        return "only default_collate is native"
    for kind, function in collate.default_collate_fn_map.items():
        is_torchs = getattr(function, "__module__", None) == collate.__name__
        if not is_torchs and any(issubclass(part, kind) for part in (tuple, torch.Tensor, int)):
            return f"default_collate_fn_map has a function of another module for {kind}"
    return None
