"""Data sets that compute on a device: the threads' work there comes before the consumer's work on the batch."""

from __future__ import annotations

import functools
import threading
from collections import UserString
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.utils.data
from both_loaders import Threads
from numbered import Made, Numbered
from torch.utils.data import IterableDataset
from vector_clocks import ClockedCuda, ClockedTensor, OrderError

import fastload
from fastload._delivery import _thread_order
from fastload._delivery._thread_order import DeviceOrder
from fastload._iteration.python import _maker


class OnDevice(Numbered):
    """Computes each sample from a table that the program has made on the device."""

    def __init__(self, device: ClockedCuda, length: int = 24) -> None:
        super().__init__(length)
        self.device = device
        self.table = device.write("table")

    def sample(self, index: int) -> Any:
        # The table lives as long as the data set, so its memory is not reused.
        self.table.users.add(self.device.current_stream().number)
        self.device.read(self.table)
        return {"image": self.device.write(index), "label": index}


class StreamOnDevice(IterableDataset[Any]):
    def __init__(self, device: ClockedCuda) -> None:
        self.device = device

    def __iter__(self) -> Iterator[Any]:
        for number in range(12):
            yield {"image": self.device.write(number), "label": number}


def stacked(device: ClockedCuda, samples: list[Any]) -> Any:
    """Collates with a computation on the device."""
    values = [device.read(sample["image"]) for sample in samples]
    return [{"images": device.write(values)}, "text", (sample["label"] for sample in samples)]


class OwnBatch:
    """A user's object with device memory in it."""

    def __init__(self, tensor: ClockedTensor) -> None:
        self.tensor = tensor

    def record_stream(self, stream: Any) -> None:
        self.tensor.record_stream(stream)


@dataclass(slots=True)
class InSlots:
    first: Any
    unset: Any = field(init=False)


class InPrivateSlot:
    __slots__ = ("__tensor",)

    def __init__(self, tensor: Any) -> None:
        self.__tensor = tensor


class Absent:
    """A proxy of a dead object."""

    @property
    def __class__(self) -> Any:
        raise ReferenceError("it is gone")


class WithAttributes:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_tensors_are_found_wherever_a_batch_has_them() -> None:
    ones = [torch.full((1,), float(number)) for number in range(8)]
    own = OwnBatch(ones[6])
    batch = [
        ones[0],
        {"a": (ones[1], "text", b"bytes", 3, None, range(3))},
        InSlots([ones[2]]),
        WithAttributes(a=ones[3], b=WithAttributes(c={"d": InSlots(ones[4])})),
        own,
        torch,
        WithAttributes,
        WithAttributes(absent=Absent()),
        UserString("text"),
        WithAttributes(hidden=InPrivateSlot(ones[7])),
    ]
    batch.append(batch)
    batch[3].itself = batch[3]
    batch.append(WithAttributes(host=ones[5], own=own))
    found = list(_thread_order.holders(batch, lambda tensor: tensor is not ones[5]))
    assert {id(holder) for holder in found} == {id(holder) for holder in (*ones[:5], own, ones[7])}
    deep = WithAttributes(tensor=ones[0])
    for _ in range(900):
        deep = WithAttributes(next=deep)
    assert list(_thread_order.holders(deep, lambda tensor: True)) == ones[:1]


def test_a_samples_references_to_all_others_are_not_searched() -> None:
    tensor, others = torch.ones(1), [torch.zeros(1) for _ in range(100_000)]
    looked_at = 0

    def is_on_device(found: torch.Tensor) -> bool:
        nonlocal looked_at
        looked_at += 1
        return found is tensor

    dataset = torch.utils.data.TensorDataset(torch.ones(3))
    sample = WithAttributes(dataset=dataset, all=others, image=tensor)
    assert list(_thread_order.holders([sample], is_on_device)) == [tensor]
    assert looked_at < 2000
    looked_at = 0
    assert list(_thread_order.holders([*others, tensor], is_on_device)) == [tensor]
    assert looked_at == len(others) + 1


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> ClockedCuda:
    cuda = ClockedCuda(num_devices=2)
    monkeypatch.setattr(_maker, "DeviceOrder", functools.partial(DeviceOrder, cuda))
    return cuda


def loader_on(device: ClockedCuda, dataset: Any = None, num_workers: int = 2, **arguments: Any) -> Any:
    """Returns a loader of batches of 4, which collate_fn makes on the device."""
    arguments = {"collate_fn": functools.partial(stacked, device), "workers": "threads", **arguments}
    return fastload.DataLoader(dataset or OnDevice(device), 4, num_workers=num_workers, **arguments)


def images_of(device: ClockedCuda, loader: Any) -> list[Any]:
    return [device.read(batch[0]["images"]) for batch in loader]


@pytest.mark.parametrize("num_workers", [0, 1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_batch_comes_after_all_device_work_of_its_threads(
    device: ClockedCuda, num_workers: int, persistent: bool
) -> None:
    dataset = OnDevice(device)
    loader = loader_on(device, dataset, num_workers, persistent_workers=persistent and num_workers > 0)
    for _ in range(3):
        assert images_of(device, loader) == [list(range(first, first + 4)) for first in range(0, 24, 4)]
        dataset.table = device.write("a new table, made between the epochs")


def test_every_thread_has_a_stream_of_its_own_and_the_consumer_keeps_its(device: ClockedCuda) -> None:
    seen: dict[int, set[int]] = {}

    class Noting(OnDevice):
        def __getitem__(self, index: int) -> Any:
            seen.setdefault(threading.get_ident(), set()).add(self.device.current_stream().number)
            return super().__getitem__(index)

    before = device.current_stream()
    images_of(device, loader_on(device, Noting(device), 3))
    assert device.current_stream() is before
    assert len(seen) == 3
    assert all(len(streams) == 1 for streams in seen.values())
    assert len(set.union(*seen.values(), {before.number})) == 4


def test_the_stream_that_is_current_at_next_is_the_one_that_waits(device: ClockedCuda) -> None:
    loader = loader_on(device)
    default = device.current_stream()
    for number, batch in enumerate(loader):
        device.read(batch[0]["images"])
        if number == 2:
            device.set_stream(device.Stream())
    device.set_stream(default)
    with pytest.raises(OrderError, match="may not have written"):
        device.read(batch[0]["images"])


def test_threads_work_on_the_device_of_the_thread_that_iterates(device: ClockedCuda) -> None:
    device.set_device(1)
    batches = list(loader_on(device))
    assert {batch[0]["images"].device.index for batch in batches} == {1}
    for batch in batches:
        device.read(batch[0]["images"])
    device.set_device(0)


def test_a_sample_may_be_on_another_device_than_the_current_one(device: ClockedCuda) -> None:
    class OnSecond(OnDevice):
        def __getitem__(self, index: int) -> Any:
            return self.device.write(index, device=1)

    loader = loader_on(device, OnSecond(device), collate_fn=list)
    assert [device.read(tensor) for batch in loader for tensor in batch] == list(range(24))


def test_objects_of_the_users_may_have_device_memory(device: ClockedCuda) -> None:
    def own(samples: list[Any]) -> OwnBatch:
        return OwnBatch(device.write([device.read(sample["image"]) for sample in samples]))

    loader = loader_on(device, collate_fn=own)
    assert sum(len(device.read(batch.tensor)) for batch in loader) == 24


def test_iterable_datasets_are_ordered_as_well(device: ClockedCuda) -> None:
    loader = loader_on(device, StreamOnDevice(device))
    assert sorted(map(sum, images_of(device, loader))) == sorted([6, 22, 38] * 2)


def test_a_device_that_comes_into_use_later_is_used_on_its_default_stream(device: ClockedCuda) -> None:
    device.is_in_use = False
    streams: set[int] = set()

    class Late(OnDevice):
        def __getitem__(self, index: int) -> Any:
            self.device.is_in_use = True
            streams.add(self.device.current_stream().number)
            return super().__getitem__(index)

    assert len(images_of(device, loader_on(device, Late(device)))) == 6
    assert streams == {device.defaults[0].number}


def test_a_program_without_a_device_does_nothing_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Untouchable:
        def is_initialized(self) -> bool:
            return False

    monkeypatch.setattr(_maker, "DeviceOrder", functools.partial(DeviceOrder, Untouchable()))
    assert len(list(Threads(list(range(10)), num_workers=2))) == 10


# ---- what the clocks find --------------------------------------------------------------------------------------


class NoWait(DeviceOrder):
    def take_over(self, value: Any, mark: Any) -> None:
        for holder in _thread_order.holders(value):
            holder.record_stream(self._api.current_stream(self._device_of(holder)))


class NoRecord(DeviceOrder):
    def take_over(self, value: Any, mark: Any) -> None:
        super().take_over(None, mark)


class NoMark(DeviceOrder):
    def mark(self, value: Any) -> Any:
        return None if value is not None else super().mark(value)


class NoStart(DeviceOrder):
    def begin(self) -> None:
        super().begin()
        if self._start is not None:
            self._start = {}


@pytest.mark.parametrize("mutant", [NoWait, NoRecord, NoMark, NoStart])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_an_order_that_is_left_out_is_found_in_every_run(
    device: ClockedCuda, monkeypatch: pytest.MonkeyPatch, mutant: Callable[..., Any], num_workers: int
) -> None:
    monkeypatch.setattr(_maker, "DeviceOrder", functools.partial(mutant, device))
    for _ in range(5):
        with pytest.raises(OrderError):
            images_of(device, loader_on(device, num_workers=num_workers))


def test_an_error_of_the_device_comes_with_the_batch_and_ends_no_thread(
    device: ClockedCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(DeviceOrder):
        num_marks = 0

        def mark(self, value: Any) -> Any:
            self.num_marks += value is not None
            if self.num_marks == 3:
                raise RuntimeError("device-side assert")
            return super().mark(value)

    monkeypatch.setattr(_maker, "DeviceOrder", functools.partial(Failing, device))
    loader = loader_on(device)
    iterator = iter(loader)
    texts = []
    for _ in range(6):
        try:
            device.read(next(iterator)[0]["images"])
        except RuntimeError as error:
            texts.append(str(error))
    assert len(texts) == 1
    assert "device-side assert" in texts[0]
    assert list(iterator) == []


# ---- on a real device ----------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_op_without_a_cpu_kernel_gives_in_threads_what_it_gives_without(num_workers: int) -> None:
    @torch.library.custom_op("fastload_tests::distance", mutates_args=(), device_types="cuda")
    def distance(points: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
        return (points - centre).square().sum(-1).sqrt()

    points = torch.rand(1000, 3, device="cuda", generator=torch.Generator("cuda").manual_seed(3))
    dataset = Made(lambda index: distance(points, points[index]), 64)
    with pytest.raises(NotImplementedError):
        distance(torch.rand(2, 3), torch.rand(3))
    expected = [torch.stack([dataset[index] for index in range(first, first + 8)]).cpu() for first in range(0, 64, 8)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        found = [batch * 1 for batch in Threads(dataset, batch_size=8, num_workers=num_workers)]
    side.synchronize()
    assert all(torch.equal(batch.cpu(), other) for batch, other in zip(found, expected, strict=True))
