"""Transforms that keep something on themselves give no sample of another, with any number of workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data
from both_loaders import Threads
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


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "weights in a convolution": WeightsInAConvolution,
    "a buffer on self": BufferOnSelf,
}


def data_of(transform: str) -> Transformed:
    return Transformed(TRANSFORMS[transform](), length=NUM_SAMPLES)


def samples(kind: Any, transform: str, num_workers: int, **arguments: Any) -> list[torch.Tensor]:
    torch.manual_seed(1)
    loader = kind(data_of(transform), batch_size=4, num_workers=num_workers, **arguments)
    return [image for _, images in loader for image in images]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_sample_is_wrong_with_one_to_eight_workers(transform: str) -> None:
    theirs = samples(torch_loader, transform, 0)
    for num_workers in (1, 2, 3, 8):
        mine = samples(fastload.DataLoader, transform, num_workers, workers="processes")
        assert sum(not torch.equal(*pair) for pair in zip(mine, theirs, strict=True)) == 0, num_workers


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

    shared = loader(Threads, waits=True)
    assert shared.explain().startswith("partly native")
    report = fastload.verify(loader(torch_loader, waits=False), shared)
    assert not report.is_equal, "two threads write to one object at once"
    assert set(report.stages) & {"read", "decode", "resize"} == set(), str(report)
    own = loader(fastload.DataLoader, waits=False, workers="processes")
    report = fastload.verify(loader(torch_loader, waits=False), own)
    assert report.is_equal, str(report)
