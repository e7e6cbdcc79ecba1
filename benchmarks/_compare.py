"""Compares what the contenders return, before anything is timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._children import Child
from benchmarks._protocol import Batch, LoaderSettings, SampleReport
from benchmarks.contenders._base import CROP_SIZE, MEAN, STD

# A fair coin stays inside in all but about one of 10^9 epochs of 200 images or more.
_FLIP_SHARES = (0.28, 0.72)
_FLIPS_NEED_IMAGES = 200


class ResultsDiffer(RuntimeError):
    """A contender that promises the reference's bytes returned others: nothing it does may be timed."""


@dataclass(frozen=True)
class Comparison:
    """What comparing one contender with the reference gave.

    Attributes:
        method: how it was compared, for the reader.
        is_equal: whether all bytes were equal; None when they could not be compared.
        max_abs_difference: over all normalised values of all images; None when they could not be compared.
        mean_abs_difference: likewise; a level of 8 bits is about 0.017.
        sources: how many samples the contender loaded in which way, where it reports that.
    """

    contender: str
    mode: str
    workers: int
    image_count: int
    method: str
    is_equal: bool | None = None
    max_abs_difference: float | None = None
    mean_abs_difference: float | None = None
    sources: dict[str, int] | None = None


def compare_evaluation(
    name: str, candidate: Child, reference: Child, settings: LoaderSettings, must_be_equal: bool
) -> Comparison:
    """Compares all batches of one evaluation epoch, in step, with the reference's.

    Raises: ResultsDiffer when they must be equal and are not, or when number, shape or labels differ in any case.
    """
    largest = total = 0.0
    value_count = 0
    is_equal = True
    image_count = 0
    streams = zip(_epoch(candidate, settings), _epoch(reference, settings), strict=False)
    for number, (got, wanted) in enumerate(streams):
        where = f"{name}, evaluation, batch {number}"
        _check_frame(where, got, wanted.images.shape, wanted.labels)
        if not _same_bytes(got.images, wanted.images):
            if must_be_equal:
                raise ResultsDiffer(f"{where}: {_first_difference(got.images, wanted.images)}")
            is_equal = False
            differences = np.abs(got.images - wanted.images)
            largest = max(largest, float(differences.max()))
            total += float(differences.sum(dtype=np.float64))
        value_count += wanted.images.size
        image_count += len(got.labels)
    if image_count != settings.image_count:
        raise ResultsDiffer(f"{name}, evaluation: {image_count} images in an epoch, expected {settings.image_count}")
    method = "bytes of every batch with torch_pil's"
    return Comparison(
        name, "eval", settings.workers, image_count, method, is_equal, largest, total / max(1, value_count)
    )


def compare_training(name: str, candidate: Child, settings: LoaderSettings) -> Comparison:
    """Applies the reported crops and flips with Pillow and torchvision to the reported files and compares all bytes.

    Raises: ResultsDiffer at the first difference, or when the reports do not describe an epoch of training.
    """
    reports: list[SampleReport] = []
    for number, batch in enumerate(_epoch(candidate, settings)):
        where = f"{name}, training, batch {number}"
        if batch.reports is None:
            raise ResultsDiffer(f"{where}: the iterator reports no crops and flips, so nothing can be compared")
        wanted = np.stack([replay(sample) for sample in batch.reports])
        _check_frame(where, batch, wanted.shape, _labels_of(batch.reports, settings))
        if not _same_bytes(batch.images, wanted):
            raise ResultsDiffer(f"{where}: {_first_difference(batch.images, wanted, batch.reports)}")
        reports += batch.reports
    _check_training_epoch(name, reports, settings)
    kinds = sorted({report.source for report in reports})
    sources = {kind: sum(report.source == kind for report in reports) for kind in kinds}
    method = "bytes of every batch with the reported crops and flips applied by Pillow and torchvision"
    return Comparison(name, "train", settings.workers, len(reports), method, True, 0.0, 0.0, sources)


def no_promise_in_training(name: str, settings: LoaderSettings) -> Comparison:
    """The record for a contender that draws its own crops and reports none."""
    return _not_comparable(name, settings, "draws crops of its own, which it does not report")


def _not_comparable(name: str, settings: LoaderSettings, reason: str) -> Comparison:
    return Comparison(name, "train", settings.workers, 0, f"not compared: {reason}")


def replay(sample: SampleReport) -> NDArray[np.float32]:
    """The reported steps done by Pillow and torchvision, then ToTensor and Normalize; float32 [3, height, width]."""
    from benchmarks._torchvision import load_torchvision

    load_torchvision()
    from PIL import Image
    from torchvision.transforms import functional

    from benchmarks._replay import apply_steps

    with Image.open(sample.path) as file:
        image = apply_steps(file.convert("RGB"), sample.steps)
    array: NDArray[np.float32] = functional.normalize(functional.to_tensor(image), MEAN, STD).numpy()
    return array


def _epoch(child: Child, settings: LoaderSettings) -> Iterator[Batch]:
    child.call("open", settings)
    child.call("start")
    while (batch := child.call("next")) is not None:
        yield batch
    child.call("close")


def _check_frame(where: str, got: Batch, shape: Sequence[int], labels: NDArray[np.int64]) -> None:
    if got.images.shape != tuple(shape) or got.images.dtype != np.float32:
        raise ResultsDiffer(f"{where}: {got.images.dtype} {got.images.shape}, expected float32 {tuple(shape)}")
    if not np.array_equal(got.labels, labels):
        raise ResultsDiffer(f"{where}: labels {got.labels.tolist()}, expected {labels.tolist()}")


def _same_bytes(got: NDArray[np.float32], wanted: NDArray[np.float32]) -> bool:
    return np.array_equal(got.view(np.uint32), wanted.view(np.uint32))


def _first_difference(
    got: NDArray[np.float32], wanted: NDArray[np.float32], reports: Sequence[SampleReport] | None = None
) -> str:
    differs = got.view(np.uint32) != wanted.view(np.uint32)
    position = tuple(int(i) for i in np.argwhere(differs)[0])
    sample, channel, row, column = position
    whose = f" ({reports[sample]})" if reports else ""
    return (
        f"{int(differs.sum())} of {differs.size} values differ from the reference's; the first is sample {sample}, "
        f"channel {channel}, row {row}, column {column}: {got[position]!r}, expected {wanted[position]!r}{whose}"
    )


def _labels_of(reports: Sequence[SampleReport], settings: LoaderSettings) -> NDArray[np.int64]:
    classes = sorted(folder.name for folder in Path(settings.data).iterdir() if folder.is_dir())
    labels = [classes.index(Path(report.path).relative_to(settings.data).parts[0]) for report in reports]
    return np.array(labels, dtype=np.int64)


def _is_random_resized_crop(report: SampleReport) -> bool:
    """A crop, and a resize unless the crop already has its size: a step that changes nothing is not reported."""
    crops = [step for step in report.steps if step[0] == "crop"]
    sizes = [step[1:3] for step in report.steps if step[0] == "resize"]
    wanted = (CROP_SIZE, CROP_SIZE)
    return len(crops) == 1 and (sizes == [wanted] or (not sizes and tuple(crops[0][3:5]) == wanted))


def _check_training_epoch(name: str, reports: Sequence[SampleReport], settings: LoaderSettings) -> None:
    """That the reports describe what was asked for: each image once, cropped, resized, and half of them flipped."""
    if sorted(report.index for report in reports) != list(range(settings.image_count)):
        last = settings.image_count - 1
        raise ResultsDiffer(f"{name}, training: the reported indices are not each of 0 to {last} once")
    for report in reports:
        if not _is_random_resized_crop(report):
            raise ResultsDiffer(f"{name}, training: {report} is no random crop resized to {CROP_SIZE}x{CROP_SIZE}")
    flips = sum(("hflip",) in report.steps for report in reports) / len(reports)
    if len(reports) >= _FLIPS_NEED_IMAGES and not _FLIP_SHARES[0] < flips < _FLIP_SHARES[1]:
        raise ResultsDiffer(f"{name}, training: {flips:.0%} of the samples are flipped, expected about half")
