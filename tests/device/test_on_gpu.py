"""Delivery to a real GPU: the host's bytes, page-locked batches, CUDA in data sets, graphs, several devices.

`make test-gpu` runs it, and again with TORCH_CUDA_SANITIZER=1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data
from image_folders import make_clean_folder
from recipes import MEAN, STD, PythonBlur, bytes_of, evaluation, training
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import ConcatDataset, Dataset
from torchvision import datasets, transforms

import fastload

pytestmark = pytest.mark.gpu

BATCH_SIZE = 5


def ending(*last: Any) -> transforms.Compose:
    """Returns a training pipeline with these last steps."""
    return transforms.Compose([transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), *last])


NORMALISED = (transforms.ToTensor(), transforms.Normalize(MEAN, STD))
RECIPES = {
    "evaluation": evaluation(72, 64),
    "training": training(64),
    "training of odd size": training(37),
    "uint8": ending(transforms.PILToTensor()),
    "float16": ending(*NORMALISED, transforms.ConvertImageDtype(torch.float16)),
    "bfloat16": ending(*NORMALISED, transforms.ConvertImageDtype(torch.bfloat16)),
    "erasing": ending(*NORMALISED, transforms.RandomErasing(p=1.0)),
    "partly in Python": ending(PythonBlur(3), *NORMALISED),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes 22 clean baseline JPEGs in three classes."""
    return make_clean_folder(tmp_path_factory.mktemp("clean"), 22)


def host_bytes(batches: Iterable[Any]) -> list[tuple[bytes, list[int]]]:
    """Returns bytes_of for batches that may be on a device."""
    return bytes_of((images.cpu(), labels.cpu()) for images, labels in batches)


def batches_of_torch(dataset: Dataset[Any], num_workers: int = 2, batch_size: int = BATCH_SIZE) -> list[Any]:
    """Returns the batches of torch's DataLoader on the host after seed 3."""
    torch.manual_seed(3)
    # TORCH_CUDA_SANITIZER's mode uses CUDA after every operation, and a forked worker would inherit the mode.
    with _disable_current_modes():
        return list(torch.utils.data.DataLoader(dataset, batch_size, shuffle=True, num_workers=num_workers))


def batches_of_fastload(dataset: Dataset[Any], num_workers: int = 2, **options: Any) -> list[Any]:
    torch.manual_seed(3)
    return list(fastload.DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=num_workers, **options))


# ---- bytes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("recipe", list(RECIPES))
def test_batches_on_the_device_have_the_bytes_of_torchs_on_the_host(
    folder: Path, recipe: str, num_workers: int
) -> None:
    dataset = datasets.ImageFolder(str(folder), RECIPES[recipe])
    expected = batches_of_torch(dataset, num_workers)
    found = batches_of_fastload(dataset, num_workers, device="cuda")
    assert {tensor.device.type for batch in found for tensor in batch} == {"cuda"}
    assert [images.dtype for images, _ in found] == [images.dtype for images, _ in expected]
    assert host_bytes(found) == bytes_of(expected)


# ---- the user's own work on the device -----------------------------------------------------------------------------


class Distances(Dataset[Any]):
    """Each sample is computed on the device from what the program has put there."""

    def __init__(self) -> None:
        self.points = torch.rand(1000, 3, device="cuda", generator=torch.Generator("cuda").manual_seed(3))

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return (self.points - self.points[index]).square().sum(-1).sqrt(), index


@pytest.mark.parametrize("device", [None, "cuda"])
def test_a_cuda_op_in_a_dataset_gives_in_threads_what_it_gives_without(device: str | None) -> None:
    dataset = Distances()
    expected = batches_of_fastload(dataset, num_workers=0)
    found = batches_of_fastload(dataset, num_workers=3, device=device, workers="threads")
    assert {distances.device.type for distances, _ in found} == {"cuda"}
    assert host_bytes(found) == host_bytes(expected)


@pytest.mark.parametrize("recipe", ["training", "partly in Python"])
def test_a_graph_is_captured_while_the_loader_copies_and_pins(folder: Path, recipe: str) -> None:
    images = datasets.ImageFolder(str(folder), RECIPES[recipe])
    dataset = ConcatDataset([images] * 24)  # enough work for the capture to begin before the first batches are there
    batch_size = len(dataset) // 3
    expected = bytes_of(batches_of_torch(dataset, 1, batch_size))

    static = torch.arange(1000, device="cuda", dtype=torch.float32)
    graph = torch.cuda.CUDAGraph()
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, batch_size, shuffle=True, num_workers=1, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        batches = iter(loader)
        graph.capture_begin(capture_error_mode="global")
        depth_at_begin = loader.stats().queue_depth
        doubled = static * 2
        deadline = time.monotonic() + 10
        while loader.stats().queue_depth < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        depth_at_end = loader.stats().queue_depth  # of batches that threads have pinned or begun to copy meanwhile
        graph.capture_end()
    torch.cuda.synchronize()  # the sanitizer does not see what a graph does
    assert depth_at_begin < 2 <= depth_at_end
    assert host_bytes(batches) == expected
    static.fill_(21)
    graph.replay()
    assert torch.equal(doubled.cpu(), torch.full((1000,), 42.0))


# ---- page-locked batches on the host -------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["training", "uint8", "partly in Python"])
def test_pinned_batches_have_the_same_bytes_and_no_thread_that_pins(folder: Path, recipe: str) -> None:
    dataset = datasets.ImageFolder(str(folder), RECIPES[recipe])
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=2, pin_memory=True)
    found = []
    for batch in loader:
        found.append(batch)
        running = {frame.f_code.co_name for frame in sys._current_frames().values()}
        assert not any("pin_memory_loop" in name for name in running)
    assert all(tensor.is_pinned() for batch in found for tensor in batch)
    assert loader.stats().pageable_allocations == 0
    assert bytes_of(found) == bytes_of(batches_of_torch(dataset))


def test_a_pinned_batch_that_is_dropped_during_its_copy_arrives_whole(folder: Path) -> None:
    dataset = datasets.ImageFolder(str(folder), training(64))
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=2, pin_memory=True)
    copied = [(images.to("cuda", non_blocking=True), labels) for images, labels in loader]
    assert host_bytes(copied) == bytes_of(batches_of_torch(dataset))


# ---- several devices -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs")
class TestTwoDevices:
    def test_a_loader_delivers_to_the_second_and_the_first_stays_current(self, folder: Path) -> None:
        dataset = datasets.ImageFolder(str(folder), training(64))
        found = batches_of_fastload(dataset, device="cuda:1")
        assert {tensor.device for batch in found for tensor in batch} == {torch.device("cuda", 1)}
        assert torch.cuda.current_device() == 0
        assert host_bytes(found) == bytes_of(batches_of_torch(dataset))

    def test_a_loader_for_each_device_in_one_process(self, folder: Path) -> None:
        dataset = datasets.ImageFolder(str(folder), evaluation(72, 64))
        loaders = [fastload.DataLoader(dataset, BATCH_SIZE, num_workers=2, device=number) for number in (0, 1)]
        pairs = list(zip(*loaders, strict=True))
        expected = bytes_of(torch.utils.data.DataLoader(dataset, BATCH_SIZE))
        for number in (0, 1):
            assert {pair[number][0].device.index for pair in pairs} == {number}
            assert host_bytes(pair[number] for pair in pairs) == expected
