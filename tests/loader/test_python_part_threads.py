"""The environment of the user's own code in the threads that end samples, and the delivery of their batches."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data
from python_part_cases import PIPELINES, WORKERS, dataset_of
from python_part_loader import PythonPartLoader, torch_loader
from torchvision import transforms

from fastload import LoaderClosedError, _native

ThreadsLoader = functools.partial(PythonPartLoader, workers="threads")

# ---- the environment of user code ------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 3])
def test_worker_info_is_that_of_torchs_workers(mixed_folder: Path, num_workers: int) -> None:
    """torch's own workers have theirs still after threads have run."""

    def tell(_label: int) -> Any:
        info = torch.utils.data.get_worker_info()
        return None if info is None else (info.id, info.num_workers, info.dataset is dataset, info.seed)

    def told(kind: Any, *num_native: int) -> Any:
        torch.manual_seed(1)
        arguments = {"batch_size": 4, "num_workers": num_workers, "collate_fn": as_it_is}
        return [[label for _, label in batch] for batch in kind(dataset, *num_native, **arguments)]

    dataset = dataset_of(mixed_folder, [transforms.CenterCrop(4), transforms.ToTensor()], tell)
    assert told(ThreadsLoader, 2) == told(PythonPartLoader, 2) == told(torch_loader)
    assert torch.utils.data.get_worker_info() is None


def as_it_is(samples: Any) -> Any:
    return samples


def test_torch_computes_with_one_thread_in_ours_and_as_before_in_others(mixed_folder: Path) -> None:
    def in_new_thread() -> int:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.get_num_threads).result()

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
