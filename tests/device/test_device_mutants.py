"""Code that forgets one thing is found in every run: schedules by hand, without chance. The test of the tests."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from devices import Fake, assert_same, bits, host_batches, read_all, values
from fake_cuda import POISON, FakeDevice
from torch.utils.data import TensorDataset
from torchvision.datasets import ImageFolder

import fastload
from fastload._delivery import _hand_over
from fastload._delivery._batch_memory import StagedMemory
from fastload._delivery._hand_over import Delivery


def is_poisoned(batch: Any) -> bool:
    return any(set(bits(tensor)) == {POISON} for tensor in batch)


def read_first_batch_before_its_copy(device: Fake, dataset: Any) -> tuple[Any, Any]:
    """Steps the consumer's stream alone as far as it goes, then all streams."""
    expected = host_batches(dataset, batch_size=4)[0]
    batch = next(iter(fastload.DataLoader(dataset, batch_size=4, device=device.handle)))
    read = read_all(device, batch)
    while device.handle.gpu.step(device.handle.default_stream):
        pass
    device.synchronize()
    return expected, read()


def exchange_in_hand_over(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Patches Delivery.follow: its own source without `line`."""
    source = textwrap.dedent(inspect.getsource(Delivery.follow))
    assert source.count(line) == 1
    namespace: dict[str, Any] = {}
    exec(source.replace(line, "pass"), vars(_hand_over), namespace)
    monkeypatch.setattr(Delivery, "follow", namespace["follow"])


def test_a_consumer_that_runs_first_reads_the_batch(by_hand: Fake, dataset: Any) -> None:
    expected, found = read_first_batch_before_its_copy(by_hand, dataset)
    assert_same(expected, found)


def test_a_hand_over_that_waits_for_no_event_is_found(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, dataset: Any
) -> None:
    exchange_in_hand_over(monkeypatch, "self.device.wait_event(self.device.recorded_event())")
    assert is_poisoned(read_first_batch_before_its_copy(by_hand, dataset)[1])


def test_a_hand_over_that_waits_for_an_event_of_the_wrong_stream_is_found(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, dataset: Any
) -> None:
    monkeypatch.setattr(FakeDevice, "recorded_event", lambda device: device.cuda.current_stream().record_event())
    assert is_poisoned(read_first_batch_before_its_copy(by_hand, dataset)[1])


def read_each_batch_after_the_copies_behind_it(device: Fake, dataset: Any) -> tuple[list[Any], list[Any]]:
    """Plays a slow consumer: drops batches when their reads are queued, and reads when all is copied."""
    expected = host_batches(dataset, batch_size=4)
    reads = []
    for batch in fastload.DataLoader(dataset, batch_size=4, device=device.handle):
        reads.append(read_all(device, batch))
        del batch
        while device.handle.gpu.step(device.handle.copy_stream):
            pass
    return expected, values(device, reads)


def test_a_slow_consumer_reads_each_batch(by_hand: Fake, dataset: Any) -> None:
    assert_same(*read_each_batch_after_the_copies_behind_it(by_hand, dataset))


def test_a_hand_over_that_does_not_record_the_consumers_stream_is_found(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, dataset: Any
) -> None:
    exchange_in_hand_over(monkeypatch, "self.device.record_stream(holder)")
    expected, found = read_each_batch_after_the_copies_behind_it(by_hand, dataset)
    assert any(bits(one[0]) != bits(other[0]) for one, other in zip(expected, found, strict=True))
    assert by_hand.handle.num_reused > 0


class WithoutStream:
    """A device whose on_copy_stream() leaves the current stream as it is."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def on_copy_stream(self) -> contextlib.AbstractContextManager[None]:
        return self._device.stream(self._device.current_stream)


def with_device_without_stream(function: Callable[..., Any]) -> Callable[..., Any]:
    def mutant(memory: StagedMemory, *arguments: Any) -> Any:
        right, memory._device = memory._device, WithoutStream(memory._device)  # type: ignore[assignment]
        try:
            return function(memory, *arguments)
        finally:
            memory._device = right

    return mutant


def memory_freed_by_a_consumer_that_still_reads_it(device: Fake, dataset: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a tensor as the consumer reads it, after dropping it before a batch is sent, and as it was written."""
    handle = device.handle
    loader = fastload.DataLoader(dataset, batch_size=4, device=handle)
    iterator = iter(loader)
    next(iterator)
    device.synchronize()
    with handle.stream(handle.default_stream):
        own = handle.copy(torch.full((4, 32, 32, 3), 7, dtype=torch.uint8))  # of the size of the pixels
    device.synchronize()
    read = device.read(own)
    del own
    batch = next(iterator)
    while handle.gpu.step(handle.copy_stream):
        pass
    device.synchronize()
    del batch
    return torch.full((4, 32, 32, 3), 7, dtype=torch.uint8), read()


def test_what_the_consumer_lets_go_of_is_not_overwritten(by_hand: Fake, still_images: ImageFolder) -> None:
    assert_same(*memory_freed_by_a_consumer_that_still_reads_it(by_hand, still_images))


def test_memory_allocated_on_the_consumers_stream_is_found(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, still_images: ImageFolder
) -> None:
    monkeypatch.setattr(StagedMemory, "_send", with_device_without_stream(StagedMemory._send))
    expected, found = memory_freed_by_a_consumer_that_still_reads_it(by_hand, still_images)
    assert bits(expected) != bits(found)


def test_a_conversion_on_the_consumers_stream_is_found(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, still_images: ImageFolder
) -> None:
    monkeypatch.setattr(StagedMemory, "deliver", with_device_without_stream(StagedMemory.deliver))
    expected, found = read_first_batch_before_its_copy(by_hand, still_images)
    assert bits(expected[0]) != bits(found[0])


class SlotAgain:
    """A ring that gives out the same slot each time."""

    def __init__(self, ring: Any) -> None:
        self._slot = ring.take()

    def take(self) -> Any:
        return self._slot


def late_copies(device: Fake, dataset: Any) -> tuple[list[Any], list[Any]]:
    """Takes two batches before anything is copied."""
    expected = host_batches(dataset, batch_size=4)[:2]
    iterator = iter(fastload.DataLoader(dataset, batch_size=4, device=device.handle))
    reads = [read_all(device, next(iterator)) for _ in range(2)]
    return expected, values(device, reads)


def test_batches_copied_late_are_the_hosts(by_hand: Fake, still_images: ImageFolder) -> None:
    assert_same(*late_copies(by_hand, still_images))


def test_a_slot_given_out_before_its_event_is_found(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, still_images: ImageFolder
) -> None:
    make_ring = StagedMemory._make_ring

    def mutant(memory: StagedMemory, slot_bytes: int) -> None:
        make_ring(memory, slot_bytes)
        memory._ring = SlotAgain(memory._ring)  # type: ignore[assignment]

    monkeypatch.setattr(StagedMemory, "_make_ring", mutant)
    expected, found = late_copies(by_hand, still_images)
    assert bits(found[0][0]) == bits(expected[1][0]) != bits(expected[0][0])


def test_page_locked_memory_used_anew_before_its_copy_is_found(monkeypatch: pytest.MonkeyPatch, by_hand: Fake) -> None:
    dataset = TensorDataset(torch.rand(14, 3), torch.arange(14))
    assert_same(*late_copies(Fake(), dataset))
    copy = FakeDevice.copy

    def mutant(device: FakeDevice, host: torch.Tensor) -> torch.Tensor:
        out = copy(device, host)
        if (block := device.cuda.pinned_memory.block_of(host)) is not None:
            block.uses.clear()
        return out

    monkeypatch.setattr(FakeDevice, "copy", mutant)
    expected, found = late_copies(by_hand, dataset)
    assert bits(found[0][0]) == bits(expected[1][0]) != bits(expected[0][0])
