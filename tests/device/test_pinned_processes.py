"""Batches of worker processes in page-locked memory: as torch's pin_memory() makes them, with as many copies."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from both_loaders import Processes
from devices import Box, DeviceUnderTest, Fake, Held, assert_same, read_all, values
from fake_cuda import FakeDevice
from numbered import Numbered
from torch.utils.data._utils.pin_memory import pin_memory

from fastload._delivery._device import PinnedMemory

SIDE = 160  # a float32 image of it has more than the bytes that are sent with their message


class Images(Numbered):
    """Images that are told apart by any of their numbers."""

    def sample(self, index: int) -> Any:
        return torch.full((SIDE, SIDE), float(index)), index


def images_of(samples: list[Any]) -> torch.Tensor:
    return torch.stack([image for image, _ in samples])


def halves(samples: list[Any]) -> list[torch.Tensor]:
    images = images_of(samples)
    return [images[:, 1:], images[:, : SIDE // 2], images]


def strided(samples: list[Any]) -> dict[str, torch.Tensor]:
    images = images_of(samples)
    return {"view": images.flatten()[3:], "transposed": images.clone().transpose(0, 2), "steps": images.clone()[:, ::2]}


# By name: the function, and the number of tensors in each batch that are copied twice.
COLLATED: dict[str, tuple[Any, int]] = {
    "a tensor": (images_of, 0),
    "a small tensor beside it": (lambda samples: [images_of(samples), torch.tensor([1, 2])], 1),
    "a dict, and bytes": (lambda samples: {"a": images_of(samples), "b": images_of(samples).numpy().tobytes()}, 0),
    "tensors that share memory": (halves, 3),
    "strides": (strided, 0),
    "an object that pins itself": (lambda samples: Held(images_of(samples)), 0),
    "empty": (lambda samples: (images_of(samples), torch.empty(0, 3)), 1),
}


def flattened(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Held):
        return [value.images]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in flattened(part)]


def memory_of(device: FakeDevice, batch: Any) -> list[Any]:
    """Returns the offset, the size and the page lock of each tensor's storage, and which tensors share one."""
    tensors = flattened(batch)
    storages = [tensor.untyped_storage() for tensor in tensors]
    shared = [[one.data_ptr() == other.data_ptr() for other in storages] for one in storages]
    described = [
        (tensor.storage_offset(), storage.nbytes(), device.cuda.pinned_memory.block_of(tensor) is not None)
        for tensor, storage in zip(tensors, storages, strict=True)
    ]
    return [described, shared]


@pytest.mark.usefixtures("believed_accelerator")
@pytest.mark.parametrize("name", COLLATED)
def test_pinned_batches_are_torchs_and_are_copied_as_often(by_hand: Fake, name: str) -> None:
    collate_fn, num_copied = COLLATED[name]
    handle, torchs = by_hand.handle, FakeDevice()
    loader = Processes(Images(6), 2, num_workers=1, collate_fn=collate_fn, pin_memory=True)
    loader._fastload.pinned = handle.pinned
    pageable = list(torch.utils.data.DataLoader(Images(6), 2, num_workers=1, collate_fn=collate_fn))
    with torchs.cuda.tensors():
        expected = [pin_memory(batch) for batch in pageable]  # type: ignore[no-untyped-call]
    held = list(loader)
    assert_same(expected, held)
    assert [memory_of(handle, batch) for batch in held] == [memory_of(torchs, batch) for batch in expected]
    assert handle.cuda.num_pinned == 3 * num_copied
    assert [getattr(batch, "was_pinned", True) for batch in held] == [True] * 3


@pytest.mark.usefixtures("believed_accelerator")
def test_tensors_that_share_memory_where_pinning_does_not_look_share_it_still(by_hand: Fake) -> None:
    loader = Processes(Images(6), 2, num_workers=1, collate_fn=lambda samples: Box(halves(samples)), pin_memory=True)
    loader._fastload.pinned = by_hand.handle.pinned
    for box in loader:
        assert len({part.untyped_storage().data_ptr() for part in box.parts}) == 1
        box.parts[2][0, 5, 5] = -1.0
        assert box.parts[0][0, 4, 5] == box.parts[1][0, 5, 5] == -1.0


@pytest.mark.usefixtures("believed_accelerator")
def test_a_tensor_in_two_places_stays_one(by_hand: Fake) -> None:
    loader = Processes(
        Images(6), 2, num_workers=1, collate_fn=lambda samples: 2 * [images_of(samples)], pin_memory=True
    )
    loader._fastload.pinned = by_hand.handle.pinned
    assert all(one is other for one, other in loader)


@pytest.mark.usefixtures("believed_accelerator")
def test_pinned_batches_do_not_change_while_they_are_held_or_copied(by_hand: Fake) -> None:
    handle = by_hand.handle
    loader = Processes(Images(40), 2, num_workers=2, pin_memory=True, persistent_workers=True)
    loader._fastload.pinned = handle.pinned
    reads, held = [], []
    for number, (images, numbers) in enumerate(batch for _ in range(2) for batch in loader):
        with handle.stream(handle.default_stream):
            reads.append((read_all(by_hand, handle.copy(images)), numbers.tolist()))
        if number % 3 == 0:
            held.append((images, numbers))
        del images
    for found, (_, numbers) in zip(values(by_hand, [read for read, _ in reads]), reads, strict=True):
        assert torch.equal(found, torch.stack([torch.full((SIDE, SIDE), float(number)) for number in numbers]))
    for images, numbers in held:
        assert images[:, 5, 7].tolist() == numbers.tolist()
        assert torch.equal(images.amax((1, 2)), images.amin((1, 2)))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_batches_for_a_device_are_copied_out_once(device: DeviceUnderTest, num_workers: int) -> None:
    expected = list(torch.utils.data.DataLoader(Images(12), 3, num_workers=num_workers, collate_fn=images_of))
    loader = Processes(Images(12), 3, num_workers=num_workers, collate_fn=images_of, device=device.handle)
    reads = [read_all(device, batch) for _ in range(2) for batch in loader]
    assert_same([*expected, *expected], values(device, reads))
    if isinstance(device, Fake):
        assert device.handle.cuda.num_pinned == 0
        assert loader.stats().pageable_allocations == 0


def refusing(*_: Any, **__: Any) -> Any:
    raise RuntimeError("CUDA error: out of memory")


def test_without_page_locked_memory_large_batches_are_pageable_after_one_warning(by_hand: Fake) -> None:
    by_hand.handle.pinned = PinnedMemory(empty=refusing, pin=refusing)
    loader = Processes(Images(6), 2, num_workers=1, device=by_hand.handle)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reads = [read_all(by_hand, batch) for batch in loader]
    assert_same(list(torch.utils.data.DataLoader(Images(6), 2)), values(by_hand, reads))
    assert ["page-locked" in str(warning.message) for warning in caught] == [True]
    assert loader.stats().pageable_allocations > 0
