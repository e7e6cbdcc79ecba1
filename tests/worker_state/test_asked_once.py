"""A sample is asked for once: __getitem__ is counted per index in every mode, as a log in it would see."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from image_folders import make_clean_folder
from numbered import NUM_SAMPLES, Numbered
from torch.utils.data import IterableDataset, get_worker_info
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

NUM_IMAGES = 11


class Asked:
    """How often each index was asked for, in memory that all workers share."""

    def __init__(self) -> None:
        self.counts = multiprocessing.Array("i", NUM_SAMPLES)

    def note(self, index: int) -> None:
        with self.counts.get_lock():
            self.counts[index] += 1


class Logging(Numbered):
    """Notes every call; some samples draw, the first do not."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked()

    def sample(self, index: int) -> Any:
        self.asked.note(index)
        return (torch.rand(1) if index > 4 else torch.zeros(1)), index


class LoggingLists(Logging):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class LoggingStream(IterableDataset[Any]):
    def __init__(self) -> None:
        self.asked = Asked()

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        for index in range(0 if info is None else info.id, NUM_SAMPLES, 1 if info is None else info.num_workers):
            self.asked.note(index)
            yield index, torch.rand(1)


MODES: dict[str, dict[str, Any]] = {
    "in order": {},
    "in any order": {"in_order": False},
    "without batches": {"batch_size": None},
    "persistent": {"persistent_workers": True},
    "far ahead": {"prefetch_factor": 7},
    "a batch each": {"batch_size": 1},
    "one batch": {"batch_size": 100},
    "the last dropped": {"drop_last": True},
    "an init function": {"worker_init_fn": lambda _: torch.rand(1)},
    "samples by seed": {"rng": "sample", "seed": 3},
}
NOT_WITHOUT_WORKERS = {"in any order", "persistent", "far ahead"}


def epochs(dataset: Any, mode: str, num_workers: int, **arguments: Any) -> int:
    """Runs two epochs to their ends; returns how many samples were handed over."""
    if mode in NOT_WITHOUT_WORKERS and not num_workers:
        pytest.skip("workers only")
    loader = fastload.DataLoader(dataset, **{"batch_size": 4, "num_workers": num_workers, **MODES[mode], **arguments})
    counts = [sum(1 if loader.batch_size is None else len(first) for first, _ in loader) for _ in range(2)]
    return sum(counts)


@pytest.mark.parametrize("dataset", [Logging, LoggingLists])
@pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
@pytest.mark.parametrize("mode", MODES)
def test_every_sample_is_asked_for_once_an_epoch(dataset: Any, num_workers: int, mode: str) -> None:
    dataset = dataset()
    num_given = epochs(dataset, mode, num_workers)
    num_expected = NUM_SAMPLES // 4 * 4 if mode == "the last dropped" else NUM_SAMPLES
    assert num_given == 2 * num_expected
    assert list(dataset.asked.counts) == [2] * num_expected + [0] * (NUM_SAMPLES - num_expected)


@pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
@pytest.mark.parametrize("mode", ["in order", "in any order", "without batches", "persistent", "far ahead"])
def test_every_item_of_a_stream_is_made_once_an_epoch(num_workers: int, mode: str) -> None:
    dataset = LoggingStream()
    assert epochs(dataset, mode, num_workers) == 2 * NUM_SAMPLES
    assert list(dataset.asked.counts) == [2] * NUM_SAMPLES


class Noting(torch.nn.Module):
    """A Python tail of a native pipeline."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        self.asked.note(0)
        return image + torch.rand(1)


def images(folder: Path, asked: Asked) -> ImageFolder:
    def label(target: int) -> int:
        asked.note(1)
        return target

    steps = [transforms.Resize(32), transforms.CenterCrop(24), transforms.ToTensor(), Noting(asked)]
    return ImageFolder(str(folder), transforms.Compose(steps), label)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clean_folder(tmp_path_factory.mktemp("asked_once"), NUM_IMAGES)


@pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
@pytest.mark.parametrize("mode", ["in order", "in any order", "persistent", "without batches", "samples by seed"])
def test_a_python_tail_and_a_label_transform_are_called_once_a_sample(
    folder: Path, mode: str, num_workers: int
) -> None:
    asked = Asked()
    assert epochs(images(folder, asked), mode, num_workers) == 2 * NUM_IMAGES
    assert asked.counts[:2] == [2 * NUM_IMAGES] * 2


@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_samples_before_one_that_fails_are_asked_for_once(num_workers: int) -> None:
    class Failing(Logging):
        def sample(self, index: int) -> Any:
            sample = super().sample(index)
            if index == 9:
                raise ValueError("sample 9")
            return sample

    dataset = Failing()
    with pytest.raises(ValueError, match="sample 9"):
        list(fastload.DataLoader(dataset, 4, num_workers=num_workers))
    assert dataset.asked.counts[:12] == [1] * 10 + [0] * 2, "the batch ends with the sample that fails"
    assert max(dataset.asked.counts) == 1
