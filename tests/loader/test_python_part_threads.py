"""The environment of the user's own code in the threads that end samples, and the delivery of their batches."""

from __future__ import annotations

import functools
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
import torch.utils.data
from both_loaders import Threads
from python_part_cases import PIPELINES, WORKERS, crop_flip, dataset_of, numbered
from python_part_loader import PythonPartLoader, torch_loader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from fastload import LoaderClosedError, _native

ThreadsLoader = functools.partial(PythonPartLoader, workers="threads")

# ---- the environment of user code ------------------------------------------------------------------------------------


def test_worker_info_is_the_threads_own(mixed_folder: Path) -> None:
    def tell(label: int) -> tuple[int, int, bool, int]:
        info = torch.utils.data.get_worker_info()
        assert info is not None
        return info.id, info.num_workers, info.dataset is dataset, info.seed - info.id

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], tell)
    loader = PythonPartLoader(dataset, 2, batch_size=4, num_workers=3)
    rows = [torch.stack(told, 1) for _, told in loader]
    assert [row[:, 0].tolist() for row in rows] == [[0] * 4, [1] * 4, [2] * 4, [0] * 4]
    assert all(row[:, 1].eq(3).all() and row[:, 2].eq(1).all() for row in rows)
    assert len({int(seed) for row in rows for seed in row[:, 3]}) == 1
    assert torch.utils.data.get_worker_info() is None


def test_worker_info_is_none_where_the_caller_does_the_work(mixed_folder: Path) -> None:
    dataset = dataset_of(
        mixed_folder,
        [transforms.CenterCrop(4), transforms.ToTensor()],
        lambda _: torch.utils.data.get_worker_info() is None,
    )
    assert all(told.all() for _, told in PythonPartLoader(dataset, 2))


def test_processes_of_torchs_own_loader_have_their_worker_info_still(mixed_folder: Path) -> None:
    dataset = dataset_of(
        mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], lambda _: torch.utils.data.get_worker_info().id
    )
    list(ThreadsLoader(dataset, 2, num_workers=2))
    told = [ids.tolist() for _, ids in torch_loader(dataset, batch_size=4, num_workers=2)]
    assert told == [[0] * 4, [1] * 4, [0] * 4, [1] * 4]


def test_batches_are_not_made_in_memory_shared_between_processes(mixed_folder: Path) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    loader = PythonPartLoader(dataset_of(mixed_folder, pipeline), num_native, num_workers=2)
    assert not any(images.is_shared() or labels.is_shared() for images, labels in loader)


def test_torch_computes_with_one_thread_in_ours_and_as_before_in_others(mixed_folder: Path) -> None:
    def in_new_thread() -> int:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return found[0]

    before = torch.get_num_threads(), in_new_thread()
    dataset = dataset_of(
        mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], lambda _: torch.get_num_threads()
    )
    iterator = iter(ThreadsLoader(dataset, 2, num_workers=2))
    assert (torch.get_num_threads(), in_new_thread()) == before
    assert {int(told) for _, told in iterator} == {1}
    assert (torch.get_num_threads(), in_new_thread()) == before


@pytest.mark.usefixtures("believed_accelerator")
@WORKERS
def test_batches_are_pinned_where_there_is_an_accelerator(
    mixed_folder: Path, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses a simulated accelerator: pinning is torch's, in threads whose current device is the caller's."""
    devices: list[int] = []
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 3)
    monkeypatch.setattr(torch.accelerator, "set_device_index", devices.append)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *device: tensor + 1000)
    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.PILToTensor()], lambda label: [label, "x"])
    iterator = iter(ThreadsLoader(dataset, 2, batch_size=16, num_workers=num_workers, pin_memory=True))
    ((_, labels),) = iterator
    assert labels[0].tolist() == [1000] * 3 + [1001] * 3 + [1002] * 10
    assert list(labels[1]) == ["x"] * 16
    assert devices == [3] * num_workers


@pytest.mark.usefixtures("believed_accelerator")
@pytest.mark.parametrize("is_known", [True, False])
def test_threads_that_pin_leave_the_graph_alone_that_the_program_captures(
    mixed_folder: Path, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses a simulated device, whose runtime is known or not."""
    in_threads: list[tuple[int, int, int]] = []

    class Backend:
        def __init__(self, runtime_major: int, device: int) -> None:
            if not is_known:
                raise RuntimeError("no runtime")
            self.opened = runtime_major, device

        def stay_in_thread(self) -> None:
            in_threads.append((*self.opened, threading.get_ident()))

    monkeypatch.setattr(_native, "open_cuda_device", Backend)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *device: tensor)
    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.PILToTensor()])
    assert len(list(ThreadsLoader(dataset, 2, batch_size=4, num_workers=2, pin_memory=True))) == 4
    assert [opened for *opened, _ in in_threads] == [[13, 1]] * (2 * is_known)
    assert len({thread for *_, thread in in_threads} - {threading.get_ident()}) == 2 * is_known


def test_the_counters_tell_who_did_what(mixed_folder: Path) -> None:
    pipeline, num_native = PIPELINES["images"]
    dataset = dataset_of(mixed_folder, pipeline)
    for num_workers in (0, 2):
        loader = PythonPartLoader(dataset, num_native, batch_size=5, num_workers=num_workers)
        list(loader)
        stats = loader.stats()
        assert (stats.samples_native, stats.samples_fallback, stats.samples_failed) == (10, 6, 0)
        assert stats.samples_python_tail == stats.samples == 16
        assert stats.batches_delivered == 4
        assert sum(stats.fallback_reasons.values()) == 6
        assert stats.bytes_read == sum(Path(path).stat().st_size for path, _ in dataset.samples)
        stages = {"read", "header", "cache", "decode", "transform", "fallback", "tail", "collate"}
        assert stages == {name for name, seconds in stats.stage_seconds.items() if seconds > 0}
        assert (stats.batches_in_flight, stats.queue_depth) == (0, 0)


def test_samples_without_a_python_part_are_not_counted_as_such(mixed_folder: Path) -> None:
    loader = PythonPartLoader(dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()]), 2)
    list(loader)
    assert loader.stats().samples_python_tail == 0


# ---- flow -----------------------------------------------------------------------------------------------------------


def test_two_threads_may_share_an_iterator(mixed_folder: Path) -> None:
    dataset = numbered(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()])
    iterator = iter(PythonPartLoader(dataset, 2, batch_size=1, num_workers=2))
    found: list[int] = []

    def take() -> None:
        found.extend(int(label) for _, labels in iterator for label in labels)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(16))


def test_close_ends_the_iterators_of_the_loader_alone(mixed_folder: Path) -> None:
    pipeline, num_native = PIPELINES["tensors"]
    dataset = dataset_of(mixed_folder, pipeline)
    closed, other = (PythonPartLoader(dataset, num_native, batch_size=2, num_workers=2) for _ in range(2))
    iterators = iter(closed), iter(closed), iter(other)
    for iterator in iterators:
        next(iterator)
    closed.close()
    for iterator in iterators[:2]:
        assert not iterator.is_running
        with pytest.raises(LoaderClosedError):
            next(iterator)
    assert len(list(iterators[2])) == 7
    assert len(list(closed)) == 8


def test_threads_run_the_users_transforms_at_the_same_time(mixed_folder: Path) -> None:
    both = threading.Barrier(2)
    process = os.getpid()

    def meeting(image: torch.Tensor) -> torch.Tensor:
        if os.getpid() == process:
            both.wait(60)  # each thread has as many images
        return image + torch.rand(1)

    dataset = ImageFolder(str(mixed_folder), transforms.Compose([*crop_flip(), transforms.ToTensor(), meeting]))
    arguments: dict[str, Any] = {"batch_size": 2, "num_workers": 2}
    torch.manual_seed(0)
    expected = recipes.bytes_of(torch_loader(dataset, **arguments))
    torch.manual_seed(0)
    assert recipes.bytes_of(Threads(dataset, **arguments)) == expected
