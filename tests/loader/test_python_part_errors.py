"""Samples and batches that fail in their Python part: the cost, and the error's text."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from image_folders import make_mixed_folder, save_jpeg
from PIL import Image, UnidentifiedImageError
from python_part_cases import PIPELINES, WORKERS, assert_equals_torch, dataset_of, noisy, outcomes
from python_part_loader import PythonPartLoader
from torch.utils.data import ConcatDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload
from fastload import SampleError
from fastload._pillow import _pillow


class Refusal(Exception):
    """An exception whose constructor takes more than a text."""

    def __init__(self, what: str, why: int) -> None:
        super().__init__(what, why)


def refuse_class_1(error: BaseException) -> Callable[[int], int]:
    def target_transform(label: int) -> int:
        if label == 1:
            raise error
        return label

    return target_transform


def with_bad_files(tmp_path: Path) -> Path:
    """Makes a folder whose middle class has a file that is no image, a truncated one and a missing one."""
    root = make_mixed_folder(tmp_path / "images")
    bad = root / "class1"
    (bad / "0000.jpg").write_bytes(b"no image")
    save_jpeg(bad / "0001.jpg", 3, 100, 90)
    (bad / "0001.jpg").write_bytes((bad / "0001.jpg").read_bytes()[:900])
    (bad / "0002.png").symlink_to("nowhere.png")
    return root


@WORKERS
@pytest.mark.parametrize("persistent", [False, True])
def test_bad_files_cost_their_batches_and_no_draw_elsewhere(tmp_path: Path, num_workers: int, persistent: bool) -> None:
    pipeline, num_native = PIPELINES["images"]
    dataset = dataset_of(with_bad_files(tmp_path), pipeline)
    arguments = {"batch_size": 2, "num_workers": num_workers, "persistent_workers": persistent and num_workers > 0}
    found = assert_equals_torch(dataset, num_native, **arguments)
    kinds = [item for item in found[0][0] if isinstance(item, type)]
    assert kinds == [UnidentifiedImageError, OSError, FileNotFoundError]


@WORKERS
@pytest.mark.parametrize("error", [ValueError("not this one"), KeyError("key"), ZeroDivisionError()])
def test_an_exception_of_the_python_part_costs_its_batch_alone(
    mixed_folder: Path, num_workers: int, error: Exception
) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    dataset = dataset_of(mixed_folder, pipeline, refuse_class_1(error))
    ((batches, _), *_) = assert_equals_torch(dataset, num_native, batch_size=3, shuffle=True, num_workers=num_workers)
    assert type(error) in batches
    assert any(not isinstance(batch, type) for batch in batches)


@WORKERS
def test_a_sample_error_of_the_python_part_says_where_and_is_caught_as_what_was_raised(
    mixed_folder: Path, num_workers: int
) -> None:
    def fail(image: torch.Tensor) -> torch.Tensor:
        raise Refusal("too bright", 7)

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(20), transforms.ToTensor(), fail])
    loader = PythonPartLoader(dataset, 2, batch_size=3, num_workers=num_workers, workers="threads")
    with pytest.raises(Refusal) as caught:
        next(iter(loader))
    error = caught.value
    assert isinstance(error, SampleError)
    assert (error.index, error.path, error.stage) == (0, dataset.samples[0][0], "transform")
    assert isinstance(error.__cause__, Refusal)
    assert error.__cause__.args == ("too bright", 7)
    assert error.__cause__.__traceback__ is not None
    in_thread = "Caught Refusal in DataLoader worker thread 0. " if num_workers else ""
    assert str(error) == (
        f"sample 0 ({dataset.samples[0][0]!r}): transform: ('too bright', 7). {in_thread}"
        "Run the transform on this file alone to see why."
    )


@WORKERS
def test_a_stop_iteration_of_the_users_does_not_end_the_epoch(mixed_folder: Path, num_workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        raise StopIteration

    pipeline = [transforms.CenterCrop(20), transforms.ToTensor()]
    of_target = dataset_of(mixed_folder, pipeline, refuse_class_1(StopIteration()))
    batches = outcomes(iter(PythonPartLoader(of_target, 2, batch_size=4, num_workers=num_workers)))
    assert len(batches) == 4
    assert StopIteration in batches
    of_collate = PythonPartLoader(
        dataset_of(mixed_folder, pipeline), 2, batch_size=4, num_workers=num_workers, collate_fn=collate
    )
    assert outcomes(iter(of_collate)) == [RuntimeError] * 4


@WORKERS
@pytest.mark.parametrize("bad", [16, -17, "first", 2.0, None])
def test_an_index_that_the_dataset_does_not_have_costs_its_batch(
    mixed_folder: Path, num_workers: int, bad: Any
) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    batches = [[0, 1], [2, bad, 3], [4, 5], [6, 7], []]
    dataset = dataset_of(mixed_folder, pipeline)
    assert_equals_torch(dataset, num_native, batch_sampler=batches, num_workers=num_workers)
    whole = ConcatDataset([dataset])
    assert_equals_torch(whole, num_native, (1000,), batch_sampler=batches, num_workers=num_workers)


@WORKERS
def test_images_too_small_for_a_crop_raise_what_torchvision_raises(mixed_folder: Path, num_workers: int) -> None:
    dataset = dataset_of(
        mixed_folder, [transforms.RandomHorizontalFlip(), transforms.RandomCrop(120), transforms.ToTensor(), noisy]
    )
    ((batches, _), *_) = assert_equals_torch(dataset, 3, batch_size=1, num_workers=num_workers, shuffle=True)
    assert 0 < batches.count(ValueError) < 16


@WORKERS
def test_a_damaged_image_too_small_for_a_crop_is_an_error_that_names_it(tmp_path: Path, num_workers: int) -> None:
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "0.jpg"
    Image.effect_noise((20, 20), 50).convert("RGB").save(path)
    path.write_bytes(path.read_bytes()[:-60])
    dataset = dataset_of(tmp_path, [transforms.RandomCrop(32), transforms.ToTensor(), noisy])
    with pytest.raises(OSError, match="truncated") as raised:
        next(iter(fastload.DataLoader(dataset, num_workers=num_workers)))
    assert isinstance(raised.value, fastload.SampleError)
    assert (raised.value.index, raised.value.path, raised.value.stage) == (0, str(path), "decode")


def test_a_file_that_vanishes_before_its_info_is_read_is_an_error_that_names_it(
    mixed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(path: str) -> Any:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)

    monkeypatch.setattr(_pillow, "image_info", vanished)
    dataset = dataset_of(mixed_folder, [transforms.RandomHorizontalFlip(), np.asarray])
    dataset.samples = [sample for sample in dataset.samples if sample[0].endswith(".JPEG")]
    with pytest.raises(FileNotFoundError) as raised:
        next(iter(fastload.DataLoader(dataset)))
    assert isinstance(raised.value, fastload.SampleError)
    assert (raised.value.index, raised.value.path, raised.value.stage) == (0, dataset.samples[0][0], "open")


@pytest.mark.parametrize("module", [transforms, v2])
def test_a_blur_that_reaches_over_more_than_the_image_fails_as_in_torch(mixed_folder: Path, module: Any) -> None:
    pipeline = module.Compose([module.CenterCrop(8), module.GaussianBlur(23), transforms.ToTensor()])
    dataset = ImageFolder(str(mixed_folder), pipeline)
    errors = []
    for make in (torch.utils.data.DataLoader, fastload.DataLoader):
        with pytest.raises(RuntimeError, match="Padding size should be less than") as caught:
            next(iter(make(dataset, batch_size=2)))
        errors.append(str(caught.value))
    assert errors[0] in errors[1]  # ours names the file as well


def test_failed_samples_are_counted(tmp_path: Path) -> None:
    pipeline, num_native = PIPELINES["images"]
    loader = PythonPartLoader(dataset_of(with_bad_files(tmp_path), pipeline), num_native, batch_size=1, num_workers=1)
    outcomes(iter(loader))
    stats = loader.stats()
    assert (stats.samples_failed, stats.samples_native, stats.samples_fallback) == (3, 10, 6)
