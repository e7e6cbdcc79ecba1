"""The result of comparing two loaders: for people, for programs, and as a picture."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import torch

from fastload import _native
from fastload._display._units import counted
from fastload._pillow import _pillow
from fastload._tools.verify._compare import ValueDifference, Where
from fastload._tools.verify._image import as_image, write_twins
from fastload._tools.verify._runner import DeliveredSample

Stage = Literal[
    "order", "structure", "read", "decode", "cache", "resize", "colour", "rounding", "random numbers", "label", "values"
]
# The stages in the order of the flow, with the meaning of each; docs/verify.md has the rules.
STAGES: dict[Stage, str] = {
    "order": "the samplers gave other indices, or one loader ended earlier",
    "structure": "containers, types, shapes or devices differ",
    "read": "another file, or one loader could not read it",
    "decode": "a file of equal bytes decoded to other pixels, or one loader could not decode it",
    "cache": "the image of one loader is right without its cache",
    "resize": "a crop, resize, flip or another geometric transform",
    "colour": "a transform of values, such as Normalize or ColorJitter",
    "rounding": "a conversion of types",
    "random numbers": "the transforms agree, and one loader's report shows that the loaders drew differently",
    "label": "everything but the image",
    "values": "the values differ; the stage cannot be told",
}
_MAX_LISTED_BATCHES = 10
_MAX_EXAMPLES_PER_STAGE = 3
_MAX_DETAIL = 300


@dataclass(frozen=True)
class SampleDifference:
    """One sample that differs.

    Attributes:
        batch: number of its batch, from 0.
        position: position in the batch; None if the batch could not be taken apart.
        old_index, new_index: data set index of each loader's sample, as text if it is not an int; None if unknown.
        old_path, new_path: file of each loader's sample, or None.
        stage: the first stage that differs.
        detail: a clause that says how.
        differing_bytes: number of bytes that differ in all values of the sample.
        max_abs_difference: the largest difference of two numbers; None if shapes or types differ.
        where: place of that number: keys of the value in the batch, then its index in the sample's tensor.
    """

    batch: int
    position: int | None
    old_index: int | str | None
    new_index: int | str | None
    old_path: str | None
    new_path: str | None
    stage: Stage
    detail: str
    differing_bytes: int
    max_abs_difference: float | None
    where: str

    def __str__(self) -> str:
        index = (
            f"{self.old_index}" if self.old_index == self.new_index else f"{self.old_index} against {self.new_index}"
        )
        paths = f"{self.old_path}" if self.old_path == self.new_path else f"{self.old_path} against {self.new_path}"
        name = f"batch {self.batch}" if self.position is None else f"batch {self.batch}, sample {self.position}"
        known = [f"index {index}"] if self.old_index is not None or self.new_index is not None else []
        known += [paths] if self.old_path is not None or self.new_path is not None else []
        return ", ".join([name, *known])


@dataclass(frozen=True)
class BatchDifference:
    """One batch that differs.

    Attributes:
        batch: number of the batch, from 0.
        stages: number of differing samples by stage, in the order of the flow.
        samples: number of samples in the larger of the two batches.
        bytes_compared: number of bytes in the old loader's batch.
        differing_bytes: how many of them differ.
        max_abs_difference: the largest difference in the batch; None if none could be computed.
    """

    batch: int
    stages: Mapping[Stage, int]
    samples: int
    bytes_compared: int
    differing_bytes: int
    max_abs_difference: float | None


@dataclass(frozen=True)
class VerifyReport:
    """The result of `fastload.verify`.

    Attributes:
        old, new: the loaders, in words.
        seed: seed of the process's generators when each loader began.
        batches_limit: limit on the batches to compare, or None for the whole epoch.
        versions: versions of torch, torchvision, Pillow and fastload, and the kernel table in use.
        batches_compared: batches that were asked of both loaders, whether they gave them, raised errors or had ended.
        samples_compared: samples in them.
        bytes_compared: bytes in them.
        batches_failed_alike: batches for which both loaders raised the same kind of error; they count as equal.
        differences: a record of each batch that differs.
        stages: number of differing samples by stage, in the order of the flow.
        examples: the first few differing samples of each stage.
        worst: the sample with the largest difference; a sample in another order only if there are no other
            differences. None if the loaders are equal.
        notes: further remarks, a sentence each.
    """

    old: str
    new: str
    seed: int
    batches_limit: int | None
    versions: Mapping[str, str]
    batches_compared: int
    samples_compared: int
    bytes_compared: int
    batches_failed_alike: int
    differences: tuple[BatchDifference, ...]
    stages: Mapping[Stage, int]
    examples: tuple[SampleDifference, ...]
    worst: SampleDifference | None
    notes: tuple[str, ...]
    _twins: tuple[torch.Tensor, torch.Tensor] | None = field(repr=False, compare=False, default=None)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 if nothing differs, else 1."""
        return 0 if self.is_equal else 1

    @property
    def has_image(self) -> bool:
        """Whether there is a worst sample that `save_image` can draw."""
        return self._twins is not None

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain dicts, lists and numbers, for logging as JSON.

        Returns:
            Names of fields -> values, and "is_equal".
        """
        names = [name for name in self.__dataclass_fields__ if not name.startswith("_")]
        values = {name: _plain(getattr(self, name)) for name in names}
        return {"is_equal": self.is_equal, **values}

    def to_json(self) -> str:
        """Converts the report to a JSON object; an infinite difference is the text "inf".

        Returns:
            The indented text of as_dict().

        Example:
            >>> import json
            >>> report = fastload.verify(old_loader, new_loader, batches=2)
            >>> json.loads(report.to_json())["is_equal"]
            True
        """
        return json.dumps(self.as_dict(), indent=2, allow_nan=False)

    def save_image(self, path: str | os.PathLike[str]) -> None:
        """Writes the worst sample as a PNG: the old loader's image, the new one's, and their difference amplified.

        uint8 values are shown as they are. Others are scaled so that the smallest value of both images is black and the
        largest white. The difference is scaled so that its largest value is white; it is left out if the two images
        differ in size.

        Args:
            path: path of the PNG file.

        Raises:
            ValueError: the loaders are equal, or the worst sample is not an image of one or three channels.
            OSError: the file cannot be written.
        """
        if self.worst is None:
            raise ValueError("the loaders are equal, so there is no worst sample to draw")
        if self._twins is None:
            raise ValueError(f"the worst sample ({self.worst}) is not an image of one or three channels")
        write_twins(*self._twins, path)

    def __str__(self) -> str:
        found = [] if self.is_equal else [*self._stage_rows(), *self._batch_rows(), *self._worst_rows()]
        return "\n".join([*self._head(), *found, *self._tail()])

    def _head(self) -> list[str]:
        if self.batches_compared == 0 and self.is_equal:
            verdict = "nothing compared: the loaders give no batch"
        elif self.is_equal:
            verdict = f"0 differences in {counted(self.samples_compared, 'sample')}"
        else:
            found = f"{sum(self.stages.values()):,} of {counted(self.samples_compared, 'sample')}"
            verdict = f"{found} in {len(self.differences):,} of {_batches(self.batches_compared)} differ"
        extent = "whole epoch" if self.batches_limit is None else f"at most {_batches(self.batches_limit)}"
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        differing = sum(batch.differing_bytes for batch in self.differences)
        return [
            f"fastload verify: {verdict}",
            f"  old       {self.old}",
            f"  new       {self.new}",
            f"  compared  {_batches(self.batches_compared)} ({extent}), seed {self.seed}, "
            f"{self.bytes_compared:,} bytes, {differing:,} of them different",
            f"  versions  {versions}",
        ]

    def _stage_rows(self) -> list[str]:
        rows = ["", "  stage            samples  what"]
        for stage, count in self.stages.items():
            rows.append(f"  {stage:<15} {count:>8,}  {STAGES[stage]}")
            details = dict.fromkeys(example.detail for example in self.examples if example.stage == stage)
            rows += [f"{'':<27}- {detail}" for detail in details]
        return rows

    def _batch_rows(self) -> list[str]:
        rows = ["", "  batch  samples  differing bytes  largest difference  stages"]
        for batch in self.differences[:_MAX_LISTED_BATCHES]:
            stages = ", ".join(f"{stage} {count}" for stage, count in batch.stages.items())
            rows.append(
                f"  {batch.batch:>5}  {batch.samples:>7}  {batch.differing_bytes:>15,}  "
                f"{_number(batch.max_abs_difference):>18}  {stages}"
            )
        if (hidden := len(self.differences) - _MAX_LISTED_BATCHES) > 0:
            rows.append(f"  ... and {_batches(hidden)} more")
        return rows

    def _worst_rows(self) -> list[str]:
        if self.worst is None:
            return []
        rows = ["", f"  worst: {self.worst}", f"         {self.worst.stage}: {self.worst.detail}"]
        if self.worst.max_abs_difference is not None:
            rows.append(f"         differs by up to {_number(self.worst.max_abs_difference)} at {self.worst.where}")
        return rows

    def _tail(self) -> list[str]:
        notes = list(self.notes)
        if self.batches_failed_alike:
            notes.append(f"Both loaders raised the same error for {_batches(self.batches_failed_alike)}.")
        return [""] * bool(notes) + [f"  {note}" for note in notes]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    if isinstance(value, (SampleDifference, BatchDifference)):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _batches(number: int) -> str:
    return counted(number, "batch", "batches")


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

        `num_samples` are in the larger of the two batches, and `bytes_compared` in the old loader's, of which
        `differing_bytes` differ, by default the sum over the samples. `is_failed_alike`: both raised one kind of error.
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


def image_libraries() -> dict[str, str]:
    """Returns the versions of torchvision and of Pillow by their names."""
    try:
        torchvision = importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        torchvision = "not installed"
    pillow = _pillow.pillow_info()
    return {"torchvision": torchvision, "Pillow-SIMD" if pillow.is_simd else "Pillow": pillow.version}


def _versions() -> dict[str, str]:
    kernels = _native.build_info().active_kernel_table
    return {"torch": str(torch.__version__), **image_libraries(), "fastload": _native.version, "kernels": kernels}
