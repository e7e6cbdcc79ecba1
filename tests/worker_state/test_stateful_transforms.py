"""Transforms that keep something on themselves give no sample of another, with any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data
from image_folders import make_clean_folder
from program import Transformed
from python_part_loader import torch_loader
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

pytestmark = pytest.mark.filterwarnings("ignore")

NUM_SAMPLES = 96


def image_of(index: int) -> torch.Tensor:
    """Returns a tensor of 3 x 12 x 12, another for each index."""
    return (torch.arange(3 * 12 * 12, dtype=torch.float32).view(3, 12, 12) * (index + 1)).sin()


class WeightsInAConvolution:
    """Writes the kernel of each sample into a convolution that it holds."""

    def __init__(self) -> None:
        self.convolution = torch.nn.Conv2d(3, 3, 5, padding=2, groups=3, bias=False)
        self.convolution.weight.requires_grad_(False)

    def __call__(self, index: int) -> torch.Tensor:
        sigma = 0.1 + index % 20 / 10
        line = torch.exp(-(torch.arange(-2.0, 3.0) ** 2) / (2 * sigma * sigma))
        kernel = line[:, None] * line[None, :]
        self.convolution.weight.copy_((kernel / kernel.sum()).expand(3, 1, 5, 5))
        return self.convolution(image_of(index))


class BufferOnSelf:
    """Makes each sample in one buffer, step by step."""

    def __init__(self) -> None:
        self.buffer = torch.zeros(3, 12, 12)

    def __call__(self, index: int) -> torch.Tensor:
        self.buffer.copy_(image_of(index))
        for _ in range(5):
            self.buffer.mul_(0.5).add_(index)
        return self.buffer.clone()


class Counter:
    """Every other call of a worker mirrors."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, index: int) -> torch.Tensor:
        calls = self.calls
        image = image_of(index)
        self.calls = calls + 1
        return image.flip(-1) * self.calls if self.calls % 2 else image


class CacheOfTheLastSize:
    """Keeps a grid as long as the size is the same."""

    def __init__(self) -> None:
        self.size, self.grid = 0, torch.zeros(0)

    def __call__(self, index: int) -> torch.Tensor:
        size = 4 + index % 3
        if self.size != size:
            self.size = size
            self.grid = torch.linspace(0, 1, size).repeat(size, 1)
        return torch.nn.functional.pad(image_of(index)[0, : self.size, : self.size] + self.grid, [0, 6 - size] * 2)


class ListThatGrows:
    """The sum of all that this worker has seen, from a list that is filled and read."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def __call__(self, index: int) -> torch.Tensor:
        self.seen.append(image_of(index))
        return torch.stack(self.seen).sum(0) + len(self.seen)


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "weights in a convolution": WeightsInAConvolution,
    "a buffer on self": BufferOnSelf,
    "a counter": Counter,
    "a cache of the last size": CacheOfTheLastSize,
    "a list that grows": ListThatGrows,
}
DEPENDS_ON_WORKERS = {"a counter", "a list that grows"}


def data_of(transform: str) -> Transformed:
    return Transformed(TRANSFORMS[transform](), length=NUM_SAMPLES)


def samples(kind: Any, transform: str, num_workers: int) -> list[torch.Tensor]:
    torch.manual_seed(1)
    loader = kind(data_of(transform), batch_size=4, num_workers=num_workers)
    return [image for _, images in loader for image in images]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_sample_is_wrong_with_one_to_eight_threads(transform: str) -> None:
    """Compares with torch: with as many workers if the samples depend on the worker, else with one thread."""
    wrong = {}
    numbers = (1, 2, 8) if transform in DEPENDS_ON_WORKERS else range(1, 9)
    alone = samples(torch_loader, transform, 0)
    for num_workers in numbers:
        theirs = samples(torch_loader, transform, num_workers) if transform in DEPENDS_ON_WORKERS else alone
        mine = samples(fastload.DataLoader, transform, num_workers)
        pairs = zip(mine, theirs, strict=True)
        wrong[num_workers] = sum(not torch.equal(one, other) for one, other in pairs)
    assert wrong == dict.fromkeys(numbers, 0)


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", range(1, 9))
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_sample_is_wrong_in_five_epochs(transform: str, num_workers: int) -> None:
    loaders = [
        kind(data_of(transform), batch_size=4, num_workers=num_workers, persistent_workers=True)
        for kind in (torch_loader, fastload.DataLoader)
    ]
    for epoch in range(5):
        theirs, mine = ([image for _, images in loader for image in images] for loader in loaders)
        assert sum(not torch.equal(one, other) for one, other in zip(mine, theirs, strict=True)) == 0, epoch


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_verify_finds_no_difference(transform: str, num_workers: int) -> None:
    loaders = [
        kind(data_of(transform), batch_size=4, num_workers=num_workers) for kind in (torch_loader, fastload.DataLoader)
    ]
    report = fastload.verify(*loaders)
    assert report.is_equal, str(report)
    assert report.samples_compared == NUM_SAMPLES


class Remembering:
    """Writes each image to itself. If told so, a worker waits until another one has done the same."""

    def __init__(self, *, waits: bool) -> None:
        self.barrier, self.image = threading.Barrier(2 if waits else 1), torch.zeros(0)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        self.image = image
        if torch.utils.data.get_worker_info() is not None:
            self.barrier.wait(60)  # both workers have as many samples
        return self.image + 1


def test_where_objects_are_shared_verify_does_not_blame_native_code(tmp_path: Path) -> None:
    make_clean_folder(tmp_path, 8)

    def loader(kind: Any, *, waits: bool, **arguments: Any) -> Any:
        steps = [transforms.Resize(32), transforms.CenterCrop(24), transforms.ToTensor(), Remembering(waits=waits)]
        return kind(ImageFolder(str(tmp_path), transforms.Compose(steps)), batch_size=2, num_workers=2, **arguments)

    shared = loader(fastload.DataLoader, waits=True, copy=False)
    assert shared.explain().startswith("partly native")
    report = fastload.verify(loader(torch_loader, waits=False), shared)
    assert not report.is_equal, "two threads write to one object at once"
    assert set(report.stages) & {"read", "decode", "resize"} == set(), str(report)
    report = fastload.verify(loader(torch_loader, waits=False), loader(fastload.DataLoader, waits=False))
    assert report.is_equal, str(report)
