"""CachedDataset with samples on a GPU: they are kept when they are made, not when they are asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from both_loaders import Threads
from devices import Fake
from fake_cuda import FakeDevice
from torch.overrides import TorchFunctionMode

import fastload
from fastload._cached import _copies


class Copies(TorchFunctionMode):
    """In it Tensor.clone() and Tensor.to("cpu") of a tensor on the fake GPU are queued on the current stream."""

    def __init__(self, handle: FakeDevice) -> None:
        super().__init__()
        self._handle = handle

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            is_ours = isinstance(args[0] if args else None, torch.Tensor) and self._handle.is_on_device(args[0])
            if is_ours and function is torch.Tensor.clone:
                copied = self._handle.cuda.empty(args[0].shape, dtype=args[0].dtype)
                source, target = self._handle.cuda.raw(args[0]), self._handle.cuda.raw(copied)
                self._handle.launch(lambda: target.copy_(source))
                return copied
            if is_ours and function is torch.Tensor.to and torch.device(args[1]).type == "cpu":
                source, host = self._handle.cuda.raw(args[0]), torch.empty_like(args[0])
                self._handle.launch(lambda: host.copy_(source))
                self._handle.synchronize()  # as torch waits, unless it is told not to
                return host
        return function(*args, **(kwargs or {}))


class MadeOnGpu:
    """Samples that a kernel writes when it is stepped."""

    def __init__(self, handle: FakeDevice) -> None:
        self._handle = handle
        self.num_made = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.num_made += 1
        cloud = self._handle.cuda.empty((4, 3))
        raw = self._handle.cuda.raw(cloud)
        self._handle.launch(lambda: raw.fill_(index + 1.0))
        return {"cloud": cloud, "label": [index]}


@pytest.fixture
def handle(by_hand: Fake, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    fake = by_hand.handle
    monkeypatch.setattr(_copies, "synchronize", lambda tensor: fake.is_on_device(tensor) and fake.synchronize())
    monkeypatch.setattr(
        _copies, "record_stream", lambda tensor: fake.is_on_device(tensor) and fake.record_stream(tensor)
    )
    with Copies(fake):
        yield fake


def on_stream(handle: FakeDevice, stream: int, function: Callable[[], Any]) -> Any:
    """Returns the result of `function`, called in a new thread in which `stream` is current."""
    found: list[Any] = []

    def run() -> None:
        with Copies(handle), handle.stream(stream):
            found.append(function())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def run_all(handle: FakeDevice, stream: int) -> None:
    """Runs the work queued on `stream` outside of Copies, which handles the program's requests."""
    with torch._C.DisableTorchFunction():
        handle.gpu.synchronize(stream)


def test_a_sample_for_the_host_is_complete_before_it_is_kept(handle: FakeDevice, tmp_path: Path) -> None:
    for path in (None, tmp_path / "s"):
        made = MadeOnGpu(handle)
        cached = fastload.CachedDataset(made, path)
        assert cached.fill(progress=False) == 3
        for index in (0, 1, 2, 1):
            cloud = cached[index]["cloud"]
            assert not handle.is_on_device(cloud)
            assert cloud.tolist() == [[index + 1.0] * 3] * 4
        assert made.num_made == 3
        assert handle.gpu.num_pending(handle.current_stream) == 0


def test_the_first_one_that_is_handed_out_is_on_the_host_as_well(handle: FakeDevice, tmp_path: Path) -> None:
    for path in (None, tmp_path / "s"):
        cached = fastload.CachedDataset(MadeOnGpu(handle), path, to="cpu")
        for _ in range(2):
            assert not handle.is_on_device(cached[2]["cloud"])
            assert cached[2]["cloud"].tolist() == [[3.0] * 3] * 4


def test_a_sample_that_stays_on_the_device_is_complete_for_every_stream(handle: FakeDevice) -> None:
    makers, others = handle.gpu.create_stream(), handle.gpu.create_stream()
    for copies in (True, False):
        cached = fastload.CachedDataset(MadeOnGpu(handle), copy=copies)
        first = on_stream(handle, makers, lambda cached=cached: cached[1])  # type: ignore[misc]
        second = on_stream(handle, others, lambda cached=cached: cached[1])  # type: ignore[misc]
        read: list[torch.Tensor] = []
        on_stream(handle, others, lambda second=second, read=read: handle.read(second["cloud"], read.append))  # type: ignore[misc]
        run_all(handle, others)  # the maker's stream is not stepped any more
        assert read[0].tolist() == [[2.0] * 3] * 4
        assert handle.is_on_device(second["cloud"])
        assert (first["cloud"] is second["cloud"]) is not copies


def test_a_copy_that_is_queued_keeps_the_memory_it_is_made_of(handle: FakeDevice) -> None:
    makers, others = handle.gpu.create_stream(), handle.gpu.create_stream()
    cached = fastload.CachedDataset(MadeOnGpu(handle))
    on_stream(handle, makers, lambda: cached[1])
    copied = on_stream(handle, others, lambda: cached[1])
    cached.clear()

    def write_anew() -> None:
        """Allocates the memory that is free by now and writes it."""
        for _ in range(4):
            raw = handle.cuda.raw(handle.cuda.empty((4, 3)))
            handle.launch(lambda raw=raw: raw.fill_(99.0))  # type: ignore[misc]

    on_stream(handle, makers, write_anew)
    run_all(handle, makers)
    run_all(handle, others)
    assert handle.cuda.raw(copied["cloud"]).tolist() == [[2.0] * 3] * 4


# ---- where there is a GPU ------------------------------------------------------------------------------------------


class LateOnGpu:
    """The same on a GPU, where the kernel is late."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Any]:
        torch.cuda._sleep(20_000_000)
        return {"cloud": torch.full((1000,), index + 1.0, device="cuda"), "faces": torch.arange(5).numpy()}


@pytest.mark.gpu
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("to", [None, "cpu", "cuda"])
def test_samples_of_a_gpu_come_back_where_they_are_to_be(
    tmp_path: Path, to: str | None, is_file: bool, num_workers: int
) -> None:
    cached = fastload.CachedDataset(LateOnGpu(), tmp_path / "s" if is_file else None, to=to)
    expected = "cpu" if to == "cpu" else "cuda"
    for _ in range(3):
        loader = Threads(cached, batch_size=None, shuffle=True, num_workers=num_workers)
        found = {int(sample["cloud"].cpu().unique().item()) for sample in loader}
        assert found == set(range(1, 9))
    assert cached[3]["cloud"].device.type == expected
    filled = fastload.CachedDataset(LateOnGpu(), tmp_path / "filled" if is_file else None)
    assert filled.fill() == 8
    assert filled[3]["cloud"].device.type == "cpu"
    assert filled[3]["cloud"].tolist() == [4.0] * 1000
