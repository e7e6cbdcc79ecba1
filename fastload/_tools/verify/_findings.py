"""The differences found: counts, the first examples of each stage, and the worst sample with its images."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from fastload import _native
from fastload._pillow import _pillow
from fastload._tools.verify._compare import ValueDifference, Where
from fastload._tools.verify._image import as_image
from fastload._tools.verify._report import STAGES, BatchDifference, SampleDifference, Stage, VerifyReport
from fastload._tools.verify._runner import DeliveredSample

_MAX_EXAMPLES_PER_STAGE = 3
_MAX_DETAIL = 300


@dataclass(frozen=True)
class Finding:
    """The stage at which a sample differs, and a clause that says how."""

    stage: Stage
    detail: str


def shortened(text: str, ending: str = "", limit: int = _MAX_DETAIL) -> str:
    """Returns `text` in one line followed by `ending`, together at most `limit` characters."""
    text = " ".join(text.split())
    limit -= len(ending)
    return f"{text if len(text) <= limit else f'{text[: limit - 3]}...'}{ending}"


class Findings:
    """The contents of the report, which grow batch by batch."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        # Fields of the report.
        self._totals = {"batches_compared": 0, "samples_compared": 0, "bytes_compared": 0, "batches_failed_alike": 0}
        self._batch: list[SampleDifference] = []
        self._differences: list[BatchDifference] = []
        self._examples: list[SampleDifference] = []
        self._worst: SampleDifference | None = None
        self._twins: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def has_batch_differences(self) -> bool:
        """Whether a sample of the batch under comparison was added."""
        return bool(self._batch)

    def add(
        self,
        finding: Finding,
        old: DeliveredSample,
        new: DeliveredSample,
        differing: Mapping[Where, ValueDifference] = MappingProxyType({}),
        position: int | None = None,
    ) -> None:
        """Adds a differing sample of the batch under comparison."""
        numbers = {where: found for where, found in differing.items() if found.max_abs is not None}
        place = max(numbers, key=lambda where: numbers[where].max_abs or 0.0, default=None)
        sample = SampleDifference(
            batch=self._totals["batches_compared"],
            position=position,
            old_index=_plain_index(old.index),
            new_index=_plain_index(new.index),
            old_path=old.path,
            new_path=new.path,
            stage=finding.stage,
            detail=finding.detail,
            differing_bytes=sum(found.differing_bytes for found in differing.values()),
            max_abs_difference=None if place is None else numbers[place].max_abs,
            where="" if place is None else _where_text(place, numbers[place].index),
        )
        self._batch.append(sample)
        if sum(example.stage == sample.stage for example in self._examples) < _MAX_EXAMPLES_PER_STAGE:
            self._examples.append(sample)
        if self._worst is None or _rank(sample) > _rank(self._worst):
            self._worst, self._twins = sample, _images(old, new)

    def end_batch(
        self,
        num_samples: int,
        bytes_compared: int = 0,
        *,
        differing_bytes: int | None = None,
        is_failed_alike: bool = False,
    ) -> None:
        """Counts a batch, differing or not; samples that are added later belong to the next one.

        Args:
            num_samples: samples in the larger of the two batches.
            bytes_compared: bytes of the old loader's batch.
            differing_bytes: how many of them differ; None: the sum over the samples.
            is_failed_alike: both loaders raised the same kind of error for it.
        """
        samples, self._batch = self._batch, []
        if samples:
            gaps = [sample.max_abs_difference for sample in samples if sample.max_abs_difference is not None]
            if differing_bytes is None:
                differing_bytes = sum(sample.differing_bytes for sample in samples)
            self._differences.append(
                BatchDifference(
                    batch=samples[0].batch,
                    stages=_by_stage(Counter(sample.stage for sample in samples)),
                    samples=num_samples,
                    bytes_compared=bytes_compared,
                    differing_bytes=differing_bytes,
                    max_abs_difference=max(gaps, default=None),
                )
            )
        self._totals["batches_compared"] += 1
        self._totals["samples_compared"] += num_samples
        self._totals["bytes_compared"] += bytes_compared
        self._totals["batches_failed_alike"] += is_failed_alike and not samples

    def report(self, old: str, new: str, *, seed: int, batches_limit: int | None) -> VerifyReport:
        """Returns the report on two loaders, described in a line each."""
        stages: Counter[Stage] = Counter()
        for batch in self._differences:
            stages.update(batch.stages)
        return VerifyReport(
            old=old,
            new=new,
            seed=seed,
            batches_limit=batches_limit,
            versions=_versions(),
            **self._totals,
            differences=tuple(self._differences),
            stages=_by_stage(stages),
            examples=tuple(self._examples),
            worst=self._worst,
            notes=tuple(self.notes),
            _twins=self._twins,
        )


def _rank(sample: SampleDifference) -> tuple[bool, float]:
    """Ranks how bad a difference is: exchanged pictures tell less than a picture that differs from itself."""
    return sample.stage != "order", sample.max_abs_difference or 0.0


def _images(old: DeliveredSample, new: DeliveredSample) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Returns the first images of two samples that lie at the same place."""
    images = ((as_image(value), as_image(new.values.get(where))) for where, value in old.values.items())
    return next(((left, right) for left, right in images if left is not None and right is not None), None)


def _by_stage(counts: Mapping[Stage, int]) -> dict[Stage, int]:
    return {stage: counts[stage] for stage in STAGES if counts.get(stage)}


def _plain_index(index: Any) -> int | str | None:
    if index is None or isinstance(index, int):
        return index
    try:
        return int(index)  # NumPy's integers and tensors of one
    except (TypeError, ValueError):
        return repr(index)


def _where_text(where: Where, index: tuple[int, ...] | None) -> str:
    return "".join(f"[{key!r}]" for key in where) + (f"[{', '.join(map(str, index))}]" if index else "")


def _versions() -> dict[str, str]:
    versions = {"torch": str(torch.__version__)}
    try:
        versions["torchvision"] = importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        versions["torchvision"] = "not installed"
    pillow = _pillow.pillow_info()
    versions["Pillow-SIMD" if pillow.is_simd else "Pillow"] = pillow.version
    versions["fastload"] = _native.version
    versions["kernels"] = _native.build_info().active_kernel_table
    return versions
