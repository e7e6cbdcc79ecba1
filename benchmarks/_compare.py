"""Compares the contenders' results before anything is timed."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._children import Child
from benchmarks._protocol import OUTPUT_DTYPES, Batch, LoaderSettings, SampleReport
from benchmarks.contenders import reference_of
from benchmarks.contenders._base import CROP_SIZE, MEAN, STD

# A fair coin stays inside in all but about one of 10^9 epochs of 200 images or more.
_FLIP_SHARES = (0.28, 0.72)
_FLIPS_NEED_IMAGES = 200


class ResultsDiffer(RuntimeError):
    """A contender that promises the reference's bytes returned others: none of its work may be timed."""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing one contender with the reference in one row.

    Attributes:
        method: how it was compared, for the reader.
        is_equal: whether all bytes were equal; None if they could not be compared.
        max_abs_levels: largest difference of all values of all images in levels of 8 bits (0 to 255), normalisation
            undone; None if they could not be compared.
        mean_abs_levels: likewise, the mean.
        psnr_db: peak signal-to-noise ratio over all images; None also if there is no difference.
        sources: number of samples by the way in which the contender loaded them, if it reports that.
    """

    row: str
    contender: str
    image_count: int
    method: str
    is_equal: bool | None = None
    max_abs_levels: float | None = None
    mean_abs_levels: float | None = None
    psnr_db: float | None = None
    sources: dict[str, int] | None = None


def epoch_batches(child: Child, settings: LoaderSettings) -> Iterator[Batch]:
    """Returns all batches of one epoch of a loader that is opened for it."""
    child.call("open", settings)
    child.call("start")
    while (batch := child.call("next")) is not None:
        yield batch
    child.call("close")


def compare_batches(
    row: str, name: str, candidate: Child, wanted: Sequence[Batch], settings: LoaderSettings, must_be_equal: bool
) -> Comparison:
    """Compares all batches of an epoch without random choices with the reference's.

    Raises: ResultsDiffer if they must be equal and are not, or if number, shape or labels differ in any case.
    """
    difference = _Difference()
    is_equal = True
    image_count = 0
    for number, (got, expected) in enumerate(zip(epoch_batches(candidate, settings), [*wanted, None], strict=False)):
        if expected is None:
            raise ResultsDiffer(f"{row}, {name}: more than the {settings.image_count} images of an epoch")
        where = f"{row}, {name}, batch {number}"
        _check_frame(where, got, expected.images.shape, expected.labels, settings.output)
        if not _same_bytes(got.images, expected.images):
            if must_be_equal:
                raise ResultsDiffer(f"{where}: {_first_difference(got.images, expected.images)}")
            is_equal = False
        difference.add(got.images, expected.images)
        image_count += len(got.labels)
    if image_count != settings.image_count:
        raise ResultsDiffer(f"{row}, {name}: {image_count} images in an epoch, expected {settings.image_count}")
    method = f"bytes of every batch with {reference_of(settings.mode)}'s"
    return Comparison(row, name, image_count, method, is_equal, *difference.figures())


def compare_training(row: str, name: str, candidate: Child, settings: LoaderSettings) -> Comparison:
    """Applies the reported crops and flips with Pillow and torchvision to the reported files and compares all bytes.

    Raises: ResultsDiffer at the first difference, or if the reports do not describe an epoch of training.
    """
    reports: list[SampleReport] = []
    for number, batch in enumerate(epoch_batches(candidate, settings)):
        where = f"{row}, {name}, batch {number}"
        if batch.reports is None:
            raise ResultsDiffer(f"{where}: the iterator reports no crops and flips, so nothing can be compared")
        wanted = np.stack([replay(sample, settings.output) for sample in batch.reports])
        _check_frame(where, batch, wanted.shape, _labels_of(batch.reports, settings), settings.output)
        if not _same_bytes(batch.images, wanted):
            raise ResultsDiffer(f"{where}: {_first_difference(batch.images, wanted, batch.reports)}")
        reports += batch.reports
    _check_training_epoch(f"{row}, {name}", reports, settings)
    kinds = sorted({report.source for report in reports})
    sources = {kind: sum(report.source == kind for report in reports) for kind in kinds}
    method = "bytes of every batch with the reported crops and flips applied by Pillow and torchvision"
    return Comparison(row, name, len(reports), method, True, 0.0, 0.0, None, sources)


def no_promise_in_training(row: str, name: str) -> Comparison:
    """Returns the record for a contender that draws its own crops and reports none."""
    return Comparison(row, name, 0, "not compared: draws crops of its own, which it does not report")


# The kernel tables of one loader make the same choices, so one epoch of images serves them all.
@functools.lru_cache(maxsize=512)
def replay(sample: SampleReport, output: str = "float32") -> NDArray[Any]:
    """Repeats the reported steps with Pillow and torchvision, then converts to the output; [3, height, width]."""
    from PIL import Image

    from benchmarks.contenders._torch_common import to_output
    from fastload._tools.verify._replay import apply_steps

    conversion = to_output(output)  # loads torchvision, which apply_steps looks for among the loaded modules
    with Image.open(sample.path) as file:
        image = conversion(apply_steps(file.convert("RGB"), sample.steps))
    array: NDArray[Any] = image.view(torch.uint16 if output == "bfloat16" else image.dtype).numpy()
    return array


class _Difference:
    """Sums up the distance of images from the reference's, in levels of 8 bits."""

    def __init__(self) -> None:
        self._value_count = 0
        self._largest = self._sum = self._sum_of_squares = 0.0

    def add(self, got: NDArray[Any], wanted: NDArray[Any]) -> None:
        self._value_count += wanted.size
        if _same_bytes(got, wanted):
            return
        levels = np.abs(_levels(got) - _levels(wanted))
        self._largest = max(self._largest, float(levels.max()))
        self._sum += float(levels.sum(dtype=np.float64))
        self._sum_of_squares += float(np.square(levels).sum(dtype=np.float64))

    def figures(self) -> tuple[float, float, float | None]:
        """Returns largest and mean difference, and PSNR in dB."""
        count = max(1, self._value_count)
        psnr_db = 10 * math.log10(255**2 * count / self._sum_of_squares) if self._sum_of_squares else None
        return self._largest, self._sum / count, psnr_db


def _levels(images: NDArray[Any]) -> NDArray[np.float32]:
    """Returns the values as they were before normalisation, 0 to 255."""
    if images.dtype == np.uint8:
        return images.astype(np.float32)
    if images.dtype == np.uint16:
        images = (images.astype(np.uint32) << 16).view(np.float32)
    mean, std = (np.array(values, dtype=np.float32)[:, None, None] for values in (MEAN, STD))
    levels: NDArray[np.float32] = 255 * (images * std + mean)
    return levels


def _check_frame(where: str, got: Batch, shape: Sequence[int], labels: NDArray[np.int64], output: str) -> None:
    dtype = OUTPUT_DTYPES[output]
    if got.images.shape != tuple(shape) or got.images.dtype != dtype:
        raise ResultsDiffer(f"{where}: {got.images.dtype} {got.images.shape}, expected {dtype} {tuple(shape)}")
    if not np.array_equal(got.labels, labels):
        raise ResultsDiffer(f"{where}: labels {got.labels.tolist()}, expected {labels.tolist()}")


def _bits(images: NDArray[Any]) -> NDArray[Any]:
    """Returns the values' bit patterns, in which -0.0 and 0.0 differ."""
    return images.view(f"u{images.dtype.itemsize}")


def _same_bytes(got: NDArray[Any], wanted: NDArray[Any]) -> bool:
    return np.array_equal(_bits(got), _bits(wanted))


def _first_difference(got: NDArray[Any], wanted: NDArray[Any], reports: Sequence[SampleReport] | None = None) -> str:
    differs = _bits(got) != _bits(wanted)
    position = tuple(int(i) for i in np.argwhere(differs)[0])
    sample, *place = position
    axes = ("row", "column", "channel") if differs.shape[-1] == 3 else ("channel", "row", "column")
    where = ", ".join(f"{axis} {number}" for axis, number in zip(axes, place, strict=True))
    whose = f" ({reports[sample]})" if reports else ""
    return (
        f"{int(differs.sum())} of {differs.size} values differ from the reference's; the first is sample {sample}, "
        f"{where}: {got[position]!r}, expected {wanted[position]!r}{whose}"
    )


def _labels_of(reports: Sequence[SampleReport], settings: LoaderSettings) -> NDArray[np.int64]:
    classes = sorted(folder.name for folder in Path(settings.data).iterdir() if folder.is_dir())
    labels = [classes.index(Path(report.path).relative_to(settings.data).parts[0]) for report in reports]
    return np.array(labels, dtype=np.int64)


def _is_random_resized_crop(report: SampleReport) -> bool:
    """Returns whether the steps are a crop and a resize. A resize to the size it already has is not reported."""
    crops = [step for step in report.steps if step[0] == "crop"]
    sizes = [step[1:3] for step in report.steps if step[0] == "resize"]
    wanted = (CROP_SIZE, CROP_SIZE)
    return len(crops) == 1 and (sizes == [wanted] or (not sizes and tuple(crops[0][3:5]) == wanted))


def _check_training_epoch(where: str, reports: Sequence[SampleReport], settings: LoaderSettings) -> None:
    """Checks that the reports describe the request: each image once, cropped, resized, and half of them flipped."""
    if sorted(report.index for report in reports) != list(range(settings.image_count)):
        last = settings.image_count - 1
        raise ResultsDiffer(f"{where}: the reported indices are not each of 0 to {last} once")
    for report in reports:
        if not _is_random_resized_crop(report):
            raise ResultsDiffer(f"{where}: {report} is no random crop resized to {CROP_SIZE}x{CROP_SIZE}")
    flips = sum(("hflip",) in report.steps for report in reports) / len(reports)
    if len(reports) >= _FLIPS_NEED_IMAGES and not _FLIP_SHARES[0] < flips < _FLIP_SHARES[1]:
        raise ResultsDiffer(f"{where}: {flips:.0%} of the samples are flipped, expected about half")
