"""The devices under test: one with a fake GPU, played by a thread or by hand, and a GPU. One face for both."""

from __future__ import annotations

import atexit
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from fake_cuda import FakeDevice

import fastload
from fastload._delivery._device import _stream_of_process


class DeviceUnderTest(Protocol):
    """The interface that the contract tests need.

    Attributes:
        handle: The value for DataLoader's `device`.
    """

    handle: Any

    def read(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Queues a read on the current stream; what is returned gives the result after synchronize()."""

    def stream(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which a new stream is current."""

    def synchronize(self) -> None:
        """Waits for all that was queued."""


class Fake:
    """A device with a fake GPU. Nothing happens on it before somebody steps it."""

    def __init__(self, handle: FakeDevice | None = None) -> None:
        self.handle = handle or FakeDevice()

    def read(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        found: list[torch.Tensor] = []
        self.handle.read(tensor, found.append)
        return lambda: found[0]

    def stream(self) -> contextlib.AbstractContextManager[Any]:
        return self.handle.stream(self.handle.gpu.create_stream())

    def synchronize(self) -> None:
        self.handle.gpu.synchronize_all()


class Played(Fake):
    """The same with a thread that steps its streams in an order and at a pace drawn from `seed`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._errors: list[BaseException] = []
        self._is_over = False
        self._thread = threading.Thread(target=self._play, args=(random.Random(seed),), daemon=True)
        self._thread.start()
        # A process ends with "terminate called" where Python does while one of its threads is inside of torch.
        atexit.register(self._stop)

    def _play(self, choose: random.Random) -> None:
        gpu = self.handle.gpu
        while not self._is_over:
            if not gpu.wait_for_work(0.02):
                continue
            if choose.random() < 0.3:
                time.sleep(choose.random() * 0.002)
            try:
                gpu.step_any(choose.getrandbits(32))
            except BaseException as error:  # noqa: BLE001 - of a kernel; it is the test's
                self._errors.append(error)

    def _stop(self) -> None:
        self._is_over = True
        self._thread.join(10)

    def end(self) -> None:
        self._stop()
        atexit.unregister(self._stop)
        assert not self._thread.is_alive()
        assert not self._errors, self._errors


class Cuda:
    """A GPU."""

    def __init__(self) -> None:
        self.handle = "cuda"
        self._num_reads = 0

    def read(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Delays one read in two, and runs the copies after one in three, to expose code that does not wait."""
        assert tensor.device.type == "cuda"
        self._num_reads += 1
        if self._num_reads % 2 == 0:
            torch.cuda._sleep(2_000_000)
        if self._num_reads % 3 == 0:
            with torch.cuda.stream(_stream_of_process(torch.cuda.current_device())):
                torch.cuda._sleep(2_000_000)
        copied = tensor.clone()
        return lambda: copied.cpu()

    def stream(self) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.stream(torch.cuda.Stream())

    def synchronize(self) -> None:
        torch.cuda.synchronize()


class Held:
    """A batch of the user's own class: it moves itself, and counts how."""

    def __init__(self, images: torch.Tensor, is_pinned: bool = False, device: str | None = None) -> None:
        self.images = images
        self.was_pinned = is_pinned
        self.device = device

    def pin_memory(self) -> Held:
        return Held(self.images.pin_memory(), is_pinned=True)

    def to(self, device: str, non_blocking: bool = False) -> Held:
        assert non_blocking
        return Held(self.images.to(device, non_blocking=True), self.was_pinned, device)


@dataclass
class Box:
    """A batch of a class that has neither ``to`` nor ``record_stream``, and into which pin_memory() does not look."""

    parts: list[Any]


Read = Callable[[], Any]


def read_all(device: DeviceUnderTest, value: Any) -> Read:
    """Queues reads of all tensors in `value`, which is not kept; what is returned rebuilds it of what was read."""
    if isinstance(value, torch.Tensor):
        return device.read(value)
    if isinstance(value, Held):
        images = device.read(value.images)
        return lambda: Held(images())
    if isinstance(value, Mapping):
        return _rebuilt(type(value), {key: read_all(device, item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return _rebuilt(type(value), [read_all(device, item) for item in value])
    return lambda: value


def _rebuilt(kind: Any, parts: Any) -> Read:
    """Rebuilds a structure outside of read_all(), whose result must not keep the batch alive."""
    if isinstance(parts, dict):
        return lambda: kind((key, part()) for key, part in parts.items())
    if hasattr(kind, "_fields"):
        return lambda: kind(*(part() for part in parts))
    return lambda: kind(part() for part in parts)


def values(device: DeviceUnderTest, reads: Iterable[Read]) -> list[Any]:
    """Returns what the reads give when all that was queued is done."""
    device.synchronize()
    return [read() for read in reads]


def read_batches(device: DeviceUnderTest, batches: Iterable[Any]) -> list[Any]:
    """Drops each batch as soon as its reads are queued, as a training loop does; returns what was read."""
    return values(device, [read_all(device, batch) for batch in batches])


def outcomes(batches: Iterable[Any], *errors: type[BaseException]) -> Iterator[Any]:
    """Yields each batch, or the error that came instead of it."""
    iterator = iter(batches)
    while True:
        try:
            yield next(iterator)
        except StopIteration:
            return
        except errors as error:
            yield error


def host_batches(dataset: Any, num_epochs: int = 1, **arguments: Any) -> list[Any]:
    """Returns all batches of some epochs without a device."""
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, **arguments)
    return [batch for _ in range(num_epochs) for batch in loader]


def loader_on(device: DeviceUnderTest, dataset: Any, **arguments: Any) -> Any:
    """Returns a loader for a device that begins with the seed of host_batches()."""
    torch.manual_seed(3)
    return fastload.DataLoader(dataset, device=device.handle, **arguments)


def device_batches(device: DeviceUnderTest, dataset: Any, num_epochs: int = 1, **arguments: Any) -> list[Any]:
    """Returns the same with a device."""
    loader = loader_on(device, dataset, **arguments)
    return read_batches(device, (batch for _ in range(num_epochs) for batch in loader))


def assert_same(expected: Any, found: Any, where: str = "") -> None:
    """Compares structure, types, shapes, strides and every bit."""
    assert type(expected) is type(found), where
    if isinstance(expected, torch.Tensor):
        assert (expected.dtype, expected.shape) == (found.dtype, found.shape), where
        assert expected.stride() == found.stride(), where
        assert same_bits(expected, found), where
    elif isinstance(expected, Held):
        assert_same(expected.images, found.images, where)
    elif isinstance(expected, Mapping):
        assert list(expected) == list(found), where
        for key in expected:
            assert_same(expected[key], found[key], f"{where}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(expected) == len(found), where
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            assert_same(one, other, f"{where}[{number}]")
    else:
        assert expected == found, where


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bits(one) == bits(other)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@contextlib.contextmanager
def played(seed: int) -> Iterator[Played]:
    device = Played(seed)
    try:
        yield device
    finally:
        device.end()
