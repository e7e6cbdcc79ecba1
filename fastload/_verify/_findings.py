"""Differences counted, the first of each stage kept, and the worst sample with its images."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fastload import _native
from fastload._pillow import _pillow
from fastload._verify._compare import Sample, ValueDifference, Where
from fastload._verify._image import as_image
from fastload._verify._report import STAGES, BatchDifference, SampleDifference, Stage, VerifyReport

_MAX_EXAMPLES_PER_STAGE = 3
_MAX_DETAIL = 300


@dataclass(frozen=True)
class Finding:
    """The stage of a sample, and a sentence's worth of what differs there."""

    stage: Stage
    detail: str


def shortened(text: str, ending: str = "", limit: int = _MAX_DETAIL) -> str:
    """`text` in one line and `ending`, together of at most `limit` characters."""
    text = " ".join(text.split())
    limit -= len(ending)
    return f"{text if len(text) <= limit else f'{text[: limit - 3]}...'}{ending}"


class BatchFindings:
    """The differing samples of one batch.

    Args:
        batch: its number, counted from 0.
        num_samples: in it.
        bytes_compared: in it.
    """

    def __init__(self, batch: int, num_samples: int, bytes_compared: int) -> None:
        self.batch = batch
        self.num_samples = num_samples
        self.bytes_compared = bytes_compared
        self.differing_bytes = 0
        self.samples: list[SampleDifference] = []

    def add(
        self,
        finding: Finding,
        indices: tuple[Any, Any],
        paths: Sequence[str | None],
        differing: Mapping[Where, ValueDifference],
        position: int | None,
    ) -> None:
        """Adds a sample; `indices` and `paths` are the old and the new loader's."""
        differing_bytes = sum(found.differing_bytes for found in differing.values())
        self.differing_bytes += differing_bytes
        numbers = {where: found for where, found in differing.items() if found.max_abs is not None}
        place = max(numbers, key=lambda where: numbers[where].max_abs or 0.0, default=None)
        worst = None if place is None else numbers[place]
        self.samples.append(
            SampleDifference(
                batch=self.batch,
                position=position,
                old_index=_plain_index(indices[0]),
                new_index=_plain_index(indices[1]),
                old_path=paths[0],
                new_path=paths[1],
                stage=finding.stage,
                detail=finding.detail,
                differing_bytes=differing_bytes,
                max_abs_difference=None if worst is None else worst.max_abs,
                where="" if place is None or worst is None else _where_text(place, worst.index),
            )
        )

    @property
    def last(self) -> SampleDifference:
        """The sample added last."""
        return self.samples[-1]

    def record(self) -> BatchDifference:
        """The batch's entry in the report."""
        gaps = [sample.max_abs_difference for sample in self.samples if sample.max_abs_difference is not None]
        return BatchDifference(
            batch=self.batch,
            stages=_by_stage(Counter(sample.stage for sample in self.samples)),
            samples=self.num_samples,
            bytes_compared=self.bytes_compared,
            differing_bytes=self.differing_bytes,
            max_abs_difference=max(gaps, default=None),
        )


class Findings:
    """What the report will say; grows by one record per differing batch."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._batches = 0
        self._samples = 0
        self._bytes = 0
        self._failed_alike = 0
        self._differences: list[BatchDifference] = []
        self._stages: Counter[Stage] = Counter()
        self._examples: list[SampleDifference] = []
        self._worst: SampleDifference | None = None
        self._twins: tuple[torch.Tensor, torch.Tensor] | None = None
        self._twins_of: SampleDifference | None = None

    def add(self, batch: BatchFindings, *, is_failed_alike: bool = False) -> None:
        """Counts a batch, differing or not; `is_failed_alike`: both loaders raised the same kind of error for it."""
        self._batches += 1
        self._failed_alike += is_failed_alike
        self._samples += batch.num_samples
        self._bytes += batch.bytes_compared
        if not batch.samples:
            return
        self._differences.append(batch.record())
        for sample in batch.samples:
            self._stages[sample.stage] += 1
            if sum(example.stage == sample.stage for example in self._examples) < _MAX_EXAMPLES_PER_STAGE:
                self._examples.append(sample)
            if self._worst is None or _rank(sample) > _rank(self._worst):
                self._worst = sample

    def offer_twins(self, sample: SampleDifference, old: Sample, new: Sample) -> None:
        """Keeps the images of `sample` if it is the worst so far."""
        if self._twins_of is not None and _rank(sample) <= _rank(self._twins_of):
            return
        images = [(as_image(value), as_image(new.get(where))) for where, value in old.items()]
        self._twins_of = sample
        self._twins = next(((left, right) for left, right in images if left is not None and right is not None), None)

    def report(self, old: str, new: str, *, seed: int, batches_limit: int | None) -> VerifyReport:
        """The report on two loaders, described in a line each."""
        return VerifyReport(
            old=old,
            new=new,
            seed=seed,
            batches_limit=batches_limit,
            versions=_versions(),
            batches_compared=self._batches,
            samples_compared=self._samples,
            bytes_compared=self._bytes,
            batches_failed_alike=self._failed_alike,
            differences=tuple(self._differences),
            stages=_by_stage(self._stages),
            examples=tuple(self._examples),
            worst=self._worst,
            notes=tuple(self.notes),
            _twins=self._twins if self._twins_of is self._worst else None,
        )


def _rank(sample: SampleDifference) -> tuple[bool, float]:
    """How bad: two pictures in exchanged places tell less than one picture that differs from itself."""
    return sample.stage != "order", sample.max_abs_difference or 0.0


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
