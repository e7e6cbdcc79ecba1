"""Errors: equal ones on both sides count as equal; an error of one loader differs at the stage that failed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from child_loader import num_native_threads, wait_for
from numbered import Made
from torch.utils.data import DataLoader, IterableDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

BAD = 6  # the sample whose file is spoilt; its batch of four is number 1

Change = Callable[[int, Callable[[Path], object]], Path]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


def write_text(path: Path) -> None:
    path.write_text("no image")


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("spoil", [truncate, write_text])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_bad_file_in_both_is_equal_and_counted(
    evaluation: ImageFolder, changed_copy: Change, spoil: Any, num_workers: int
) -> None:
    dataset = ImageFolder(str(changed_copy(BAD, spoil)), evaluation.transform)
    old = DataLoader(dataset, 4, num_workers=num_workers)
    report = fastload.verify(old, fastload.DataLoader(dataset, 4, num_workers=num_workers))
    assert report.is_equal, report
    assert (report.batches_compared, report.samples_compared, report.batches_failed_alike) == (3, 11, 1)
    assert "Both loaders raised the same error for 1 batch." in str(report)


@pytest.mark.parametrize(("spoil", "stage"), [(truncate, "decode"), (write_text, "decode"), (remove, "read")])
@pytest.mark.parametrize("new_kind", [DataLoader, fastload.DataLoader])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_bad_file_in_one_only_names_stage_and_file(
    evaluation: ImageFolder, changed_copy: Change, spoil: Any, stage: str, new_kind: Any, num_workers: int
) -> None:
    copy = changed_copy(BAD, lambda path: None)
    new = ImageFolder(str(copy), evaluation.transform)
    spoil(Path(new.samples[BAD][0]))
    report = fastload.verify(DataLoader(evaluation, 4), new_kind(new, 4, num_workers=num_workers))
    assert dict(report.stages) == {stage: 1}
    assert [batch.batch for batch in report.differences] == [1]
    assert report.worst is not None
    assert report.worst.new_index == BAD
    assert report.worst.new_path == new.samples[BAD][0]
    assert report.worst.detail.startswith("the new loader raises ")
    assert fastload.verify(new_kind(new, 4), DataLoader(evaluation, 4)).worst.detail.startswith(
        "the old loader raises "
    )


class Refusing:
    """Raises KeyError for images of one height, and leaves others unchanged."""

    def __init__(self, height: int) -> None:
        self.height = height

    def __call__(self, image: Any) -> Any:
        if image.height == self.height:
            raise KeyError("refused")
        return image


class RefusingCrop(transforms.CenterCrop):  # type: ignore[misc]
    """A crop that keeps the whole image, and raises KeyError for images of one height."""

    def __init__(self, height: int) -> None:
        super().__init__(height)
        self._refusing = Refusing(height)

    def forward(self, image: Any) -> Any:
        return self._refusing(image)


@pytest.mark.parametrize(("kind", "stage"), [(Refusing, "values"), (RefusingCrop, "resize")])
@pytest.mark.parametrize("new_kind", [DataLoader, fastload.DataLoader])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_transform_that_raises_is_blamed_itself(
    evaluation: ImageFolder, num_workers: int, new_kind: Any, kind: Any, stage: str
) -> None:
    height = ImageFolder(evaluation.root)[BAD][0].height
    new = ImageFolder(evaluation.root, transforms.Compose([kind(height), *evaluation.transform.transforms]))
    new_loader = new_kind(new, 4, num_workers=num_workers)
    report = fastload.verify(DataLoader(evaluation, 4), new_loader)
    assert dict(report.stages) == {stage: 1}
    assert report.worst is not None
    assert (report.worst.new_index, report.worst.new_path) == (BAD, new.samples[BAD][0])
    assert "the new loader raises KeyError" in report.worst.detail
    assert report.worst.detail.endswith(f"; raised by {kind.__name__}")
    failed_alike = fastload.verify(DataLoader(new, 4), new_loader)
    assert failed_alike.is_equal, failed_alike
    assert failed_alike.batches_failed_alike == 1


def _raising(kind: Callable[[str], Exception]) -> Made:
    def sample(index: int) -> Any:
        if index == 2:
            raise kind("of this sample")
        return torch.zeros(3)

    return Made(sample, 4)


def test_other_kinds_of_errors_differ_and_equal_kinds_do_not() -> None:
    assert fastload.verify(DataLoader(_raising(ValueError)), DataLoader(_raising(ValueError), num_workers=1)).is_equal
    # torch's workers cannot rebuild this exception and raise RuntimeError instead.
    unpicklable = _raising(lambda text: UnicodeDecodeError("utf-8", b"x", 0, 1, text))
    assert fastload.verify(DataLoader(unpicklable), DataLoader(unpicklable, num_workers=1)).is_equal
    report = fastload.verify(DataLoader(_raising(ValueError)), DataLoader(_raising(IndexError)))
    assert dict(report.stages) == {"values": 1}
    assert report.worst is not None
    assert "the new loader raises IndexError: of this sample; the other raises ValueError" in report.worst.detail


def test_failing_alike_in_another_order_is_order() -> None:
    dataset = _raising(ValueError)
    batches = [[0, 1], [2, 3]]
    old = DataLoader(dataset, batch_sampler=batches)
    assert fastload.verify(old, DataLoader(dataset, batch_sampler=batches)).batches_failed_alike == 1
    report = fastload.verify(old, DataLoader(dataset, batch_sampler=[[0, 1], [3, 2]]))
    assert dict(report.stages) == {"order": 2}
    assert report.batches_failed_alike == 0


class _Broken(IterableDataset[Any]):
    """Raises for ever."""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        raise OSError("broken")


def test_loaders_that_only_raise_are_given_up() -> None:
    report = fastload.verify(DataLoader(_Broken()), DataLoader(_Broken()))
    assert report.batches_failed_alike == 100
    assert "Stopped after 100 errors in a row." in str(report)


@pytest.mark.parametrize("kind", [DataLoader, fastload.DataLoader])
def test_what_iter_raises_comes_out_and_nothing_is_left(evaluation: ImageFolder, kind: Any) -> None:
    state, threads, children = torch.get_rng_state(), num_native_threads(), multiprocessing.active_children()
    with pytest.raises(AssertionError) as raised:
        fastload.verify(kind(evaluation, num_workers=1), DataLoader(evaluation, timeout=3))
    # Although the exception's frames still hold the loader that had begun.
    assert set(multiprocessing.active_children()) <= set(children)
    assert wait_for(lambda: num_native_threads() <= threads)
    assert torch.equal(torch.get_rng_state(), state)
    del raised
