"""Users' patterns with a loader and a device, and the mistakes that must not result."""

from __future__ import annotations

import gc
import re
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from devices import (
    Box,
    DeviceUnderTest,
    Fake,
    Held,
    assert_same,
    device_batches,
    host_batches,
    loader_on,
    outcomes,
    read_all,
    read_batches,
    values,
)
from made_samples import in_threads
from torch.utils.data import TensorDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload
from fastload import _native
from fastload._delivery._device import PinnedMemory

SOME_WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


# ---- the consumer --------------------------------------------------------------------------------------------------


@SOME_WORKERS
def test_all_batches_of_an_epoch_may_be_kept(device: DeviceUnderTest, dataset: Any, num_workers: int) -> None:
    arguments = {"batch_size": 3, "num_workers": num_workers}
    expected = host_batches(dataset, 2, **arguments)
    loader = loader_on(device, dataset, **arguments)
    kept = [batch for _ in range(2) for batch in loader]
    assert_same(expected, read_batches(device, kept))


@SOME_WORKERS
def test_batches_inside_of_objects_may_be_dropped_while_they_are_read(
    device: DeviceUnderTest, images: ImageFolder, num_workers: int
) -> None:
    arguments = {"batch_size": 2, "num_workers": num_workers}
    expected = host_batches(images, **arguments)
    torch.manual_seed(3)
    reads = []
    for box in fastload.DataLoader(
        images,
        device=device.handle,
        collate_fn=lambda samples: Held(torch.stack([image for image, _ in samples])),
        device_transform=lambda held: Box([held]),
        **arguments,
    ):
        reads.append(device.read(box.parts[0].images))
        del box
    assert_same([images for images, _ in expected], values(device, reads))


@SOME_WORKERS
def test_the_consumer_may_take_each_batch_on_another_stream(
    device: DeviceUnderTest, dataset: Any, num_workers: int
) -> None:
    arguments = {"batch_size": 3, "num_workers": num_workers}
    expected = host_batches(dataset, **arguments)
    iterator = iter(loader_on(device, dataset, **arguments))
    reads = []
    for _ in expected:
        with device.stream():
            reads.append(read_all(device, next(iterator)))
    assert_same(expected, values(device, reads))


@SOME_WORKERS
def test_two_loaders_take_turns_on_one_device(device: DeviceUnderTest, dataset: Any, num_workers: int) -> None:
    arguments = {"batch_size": 3, "num_workers": num_workers, "rng": "sample", "seed": 5}
    expected = host_batches(dataset, **arguments)
    loaders = [fastload.DataLoader(dataset, device=device.handle, **arguments) for _ in range(2)]
    reads = [read_all(device, pair) for pair in zip(*loaders, strict=True)]
    assert_same([(batch, batch) for batch in expected], values(device, reads))


def test_two_threads_share_a_device(device: DeviceUnderTest, dataset: Any) -> None:
    arguments = {"batch_size": 3, "num_workers": 2, "rng": "sample", "seed": 5}
    expected = host_batches(dataset, **arguments)
    found: dict[int, list[Any]] = {}

    def consume(number: int) -> None:
        loader = fastload.DataLoader(dataset, device=device.handle, **arguments)
        with device.stream():
            found[number] = [read_all(device, batch) for batch in loader]

    in_threads(2, consume)
    device.synchronize()
    for number in range(2):
        assert_same(expected, [read() for read in found[number]])


@SOME_WORKERS
@pytest.mark.parametrize("ends_by", ["break", "exception"])
def test_an_epoch_left_early_does_not_change_the_next(
    device: DeviceUnderTest, dataset: Any, num_workers: int, ends_by: str
) -> None:
    arguments = {"batch_size": 3, "num_workers": num_workers, "rng": "sample", "seed": 5}
    torch.manual_seed(3)
    host = fastload.DataLoader(dataset, **arguments)
    loader = fastload.DataLoader(dataset, device=device.handle, **arguments)
    for _ in range(3):
        expected = list(host)
        reads = []
        try:
            for batch in loader:
                reads.append(read_all(device, batch))
                if len(reads) == 2 and ends_by == "break":
                    break
                if len(reads) == 2:
                    raise KeyError
        except KeyError:
            pass
        assert_same(expected[:2], values(device, reads))
    assert_same(list(host), read_batches(device, loader))


@pytest.mark.usefixtures("believed_accelerator")
def test_a_host_batch_that_is_dropped_while_it_is_copied_stays_as_it_was(by_hand: Fake, dataset: Any) -> None:
    """pin_memory=True and the user's own .to(non_blocking=True)."""
    handle = by_hand.handle
    expected = host_batches(dataset, batch_size=3)
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, batch_size=3, pin_memory=True)
    loader._fastload.pinned = handle.pinned
    reads = []
    for images, labels in loader:
        assert handle.cuda.pinned_memory.block_of(images) is not None
        with handle.stream(handle.default_stream):
            reads.append(read_all(by_hand, [handle.copy(images), handle.copy(labels)]))
        del images, labels
    assert_same(expected, values(by_hand, reads))


def test_what_the_user_does_to_a_batch_does_not_change_another(device: DeviceUnderTest, images: ImageFolder) -> None:
    if not isinstance(device, Fake):
        pytest.skip("kernels of a fake GPU are Python functions")
    expected = host_batches(images, batch_size=3, num_workers=2)
    torch.manual_seed(3)
    reads = []
    for batch in fastload.DataLoader(images, batch_size=3, num_workers=2, device=device.handle):
        reads.append(read_all(device, batch))
        raw = device.handle.cuda.raw(batch[0])
        device.handle.launch(lambda raw=raw: raw.zero_())
    assert_same(expected, values(device, reads))


# ---- ends ----------------------------------------------------------------------------------------------------------


class SlabToken:
    """Knows when the memory of rings is let go of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slabs: list[Any] = []
        ring = _native.StagingRing

        class Owner:
            def __init__(self, slab: Any) -> None:
                self.slab = slab

        def make_ring(*arguments: Any, owner: Any, **named: Any) -> Any:
            kept = Owner(owner)
            self.slabs.append(weakref.ref(kept))
            return ring(*arguments, owner=kept, **named)

        monkeypatch.setattr(_native, "StagingRing", make_ring)

    @property
    def num_alive(self) -> int:
        gc.collect()
        return sum(slab() is not None for slab in self.slabs)


@SOME_WORKERS
@pytest.mark.parametrize("ends_by", ["drop", "close"])
def test_the_slab_of_a_loader_that_ends_during_copies_lives_until_they_are_done(
    monkeypatch: pytest.MonkeyPatch, by_hand: Fake, images: ImageFolder, num_workers: int, ends_by: str
) -> None:
    token = SlabToken(monkeypatch)
    expected = host_batches(images, batch_size=4, num_workers=num_workers)
    loader = loader_on(by_hand, images, batch_size=4, num_workers=num_workers)
    iterator = iter(loader)
    reads = [read_all(by_hand, next(iterator)) for _ in range(2)]
    if ends_by == "close":
        loader.close()
        with pytest.raises(fastload.LoaderClosedError):
            next(iterator)
    del loader, iterator
    assert token.num_alive == 1
    assert_same(expected[:2], values(by_hand, reads))
    list(fastload.DataLoader(images, batch_size=14, device=by_hand.handle))  # its ring cleans up after earlier rings
    by_hand.synchronize()
    list(fastload.DataLoader(images, batch_size=14, device=by_hand.handle))
    assert token.slabs[0]() is None


@SOME_WORKERS
def test_memory_on_the_device_is_let_go_of_with_the_loader(
    by_hand: Fake, images: ImageFolder, num_workers: int
) -> None:
    loader = fastload.DataLoader(images, batch_size=2, num_workers=num_workers, device=by_hand.handle)
    iterator = iter(loader)
    next(iterator)
    assert by_hand.handle.bytes_in_use > 0
    loader.close()
    del loader, iterator
    gc.collect()
    by_hand.synchronize()
    end = time.monotonic() + 30  # threads let go of what they had in hand
    while by_hand.handle.bytes_in_use and time.monotonic() < end:
        time.sleep(0.01)
        next(iter(fastload.DataLoader(TensorDataset(torch.rand(1)))))
    assert by_hand.handle.bytes_in_use == 0


# ---- a slow device -------------------------------------------------------------------------------------------------


@SOME_WORKERS
def test_who_waits_for_a_slot_is_woken_by_close(by_hand: Fake, images: ImageFolder, num_workers: int) -> None:
    loader = fastload.DataLoader(images, batch_size=1, num_workers=num_workers, device=by_hand.handle)
    taken, ended = [], threading.Event()

    def consume() -> None:
        try:
            for _ in loader:
                taken.append(time.monotonic())
        except fastload.LoaderClosedError:
            ended.set()

    thread = threading.Thread(target=consume)
    thread.start()
    while not taken or time.monotonic() - taken[-1] < 0.2:  # it has come to a stand
        time.sleep(0.01)
    assert len(taken) == max(1, 2 * num_workers) + 2  # as many as there are slots
    loader.close()
    assert ended.wait(2)
    thread.join(2)
    assert not thread.is_alive()


@SOME_WORKERS
def test_a_wait_for_a_slot_ends_when_the_device_goes_on(by_hand: Fake, images: ImageFolder, num_workers: int) -> None:
    expected = host_batches(images, batch_size=1, num_workers=num_workers)
    loader = loader_on(by_hand, images, batch_size=1, num_workers=num_workers)
    reads: list[Any] = []

    def consume() -> None:
        for batch in loader:
            reads.append(read_all(by_hand, batch))

    thread = threading.Thread(target=consume)
    thread.start()
    while thread.is_alive():
        before = len(reads)
        time.sleep(0.03)
        if len(reads) == before:  # only now, one operation
            by_hand.handle.gpu.step(by_hand.handle.copy_stream)
            by_hand.handle.gpu.step(by_hand.handle.copy_stream)
            by_hand.handle.gpu.step(by_hand.handle.copy_stream)
    assert_same(expected, values(by_hand, reads))


# ---- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device_prefetch", [1, 2, 5])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_memory_on_the_device_is_bounded_by_the_batches_ahead(
    by_hand: Fake, images: ImageFolder, num_workers: int, device_prefetch: int
) -> None:
    handle = by_hand.handle
    images.samples = images.samples * 3
    pixels, elements, labels = 2 * 3 * 32 * 32, 4 * 2 * 3 * 32 * 32, 2 * 8
    table = 4 * 3 * 256
    loader = fastload.DataLoader(
        images, batch_size=2, num_workers=num_workers, device=handle, device_prefetch=device_prefetch, prefetch_factor=4
    )
    highest = []
    for _ in range(5):
        used = []
        for batch in loader:
            ahead = loader.stats().device_bytes
            assert ahead <= device_prefetch * (pixels + labels)
            used.append(handle.bytes_in_use)
            assert used[-1] <= table + ahead + elements + labels
            del batch
            by_hand.synchronize()
        highest.append(max(used))
        most_ahead = min(device_prefetch, 4 * num_workers)
        assert max(used) == table + most_ahead * (pixels + labels) + elements + labels
    assert len(set(highest)) == 1


@pytest.mark.parametrize("device_prefetch", [1, 2, 5])
def test_so_many_batches_of_python_are_ahead_on_the_device(by_hand: Fake, device_prefetch: int) -> None:
    dataset = TensorDataset(torch.rand(40, 250))
    loader = fastload.DataLoader(
        dataset, num_workers=2, device=by_hand.handle, device_prefetch=device_prefetch, prefetch_factor=4
    )
    used = []
    for batch in loader:
        time.sleep(0.002)
        used.append(by_hand.handle.bytes_in_use)
        del batch
        by_hand.synchronize()
    assert 2000 <= max(used) <= (1 + device_prefetch) * 1000


def test_stats_say_what_travels(by_hand: Fake, still_images: ImageFolder) -> None:
    loader = fastload.DataLoader(still_images, batch_size=4, num_workers=2, device=by_hand.handle)
    for batch in loader:
        del batch
        by_hand.synchronize()
        staging_bytes = loader.stats().staging_bytes
    stats = loader.stats()
    assert stats.bytes_copied == 14 * (3 * 32 * 32 + 8)  # a byte for each channel, not a float
    slot = -(-(4 * 3 * 32 * 32) // 256) * 256 + 256
    assert staging_bytes == slot * (2 * 2 + 2)
    assert stats.staging_bytes == 0  # the epoch is over
    assert stats.device_bytes == 0
    assert stats.pageable_allocations == 0


def refusing(*_: Any, **__: Any) -> Any:
    raise RuntimeError("CUDA error: out of memory\nmore of it")


@SOME_WORKERS
def test_without_page_locked_memory_batches_are_the_same_after_one_warning(
    device: DeviceUnderTest, dataset: Any, num_workers: int
) -> None:
    expected = host_batches(dataset, batch_size=4, num_workers=num_workers)
    if not isinstance(device, Fake):
        pytest.skip("a GPU's page-locked memory does not run out")
    device.handle.pinned = PinnedMemory(empty=refusing, pin=refusing)
    loader = loader_on(device, dataset, batch_size=4, num_workers=num_workers)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reads = [read_all(device, batch) for batch in loader]
        device.synchronize()
        list(fastload.DataLoader(dataset, batch_size=14, num_workers=num_workers, device=device.handle))
    assert_same(expected, [read() for read in reads])
    ours = [str(warning.message) for warning in caught if "page-locked" in str(warning.message)]
    assert len(ours) == 1
    assert "(CUDA error: out of memory)" in ours[0]
    assert loader.stats().pageable_allocations > 0


# ---- samples that fail ---------------------------------------------------------------------------------------------


def with_errors_told(loader: Any, error: type[Exception]) -> Iterator[Any]:
    """Yields each batch, or the text of the error that came instead of it."""
    return (str(one) if isinstance(one, error) else one for one in outcomes(loader, error))


@pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
@pytest.mark.parametrize("rng", ["torch", "sample"])
def test_behind_a_sample_that_fails_batches_are_the_hosts(
    device: DeviceUnderTest, tmp_path: Path, clean_folder: Path, num_workers: int, rng: str
) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.training(32))
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8 not an image")
    for position in (5, 9):
        dataset.samples[position] = (str(broken), 0)
    arguments = {"batch_size": 2, "num_workers": num_workers, "rng": rng}
    torch.manual_seed(3)
    expected = list(with_errors_told(fastload.DataLoader(dataset, **arguments), fastload.SampleError))
    loader = loader_on(device, dataset, **arguments)
    assert_same(expected, read_batches(device, with_errors_told(loader, fastload.SampleError)))
    numbers = [re.match(r"sample (\d+)", one) for one in expected if isinstance(one, str)]
    assert [number and number[1] for number in numbers] == ["5", "9"]


def noisy(image: torch.Tensor) -> torch.Tensor:
    return image + torch.randn(3, 1, 1)


class Failing(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 14

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise KeyError("five")
        return torch.full((3,), index) + torch.rand(3)


@pytest.mark.parametrize("device_prefetch", [1, 3])
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_an_error_of_the_dataset_comes_in_its_turn(
    device: DeviceUnderTest, num_workers: int, device_prefetch: int
) -> None:
    arguments = {"batch_size": 2, "num_workers": num_workers}
    torch.manual_seed(3)
    expected = list(with_errors_told(fastload.DataLoader(Failing(), **arguments), KeyError))
    assert isinstance(expected[2], str)
    loader = loader_on(device, Failing(), device_prefetch=device_prefetch, **arguments)
    assert_same(expected, read_batches(device, with_errors_told(loader, KeyError)))


def test_batches_that_grow_use_a_larger_slab_only_where_they_must(by_hand: Fake, images: ImageFolder) -> None:
    batches = [[0], [1, 2], [3, 4, 5, 6, 7], [8], list(range(14)), [9, 10]]
    loader = fastload.DataLoader(images, batch_sampler=batches, device=by_hand.handle)
    sizes = []
    for batch in loader:
        sizes.append(loader.stats().staging_bytes)
        del batch
        by_hand.synchronize()
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 4


def test_a_loader_can_be_given_another_device_between_epochs(dataset: Any) -> None:
    first, second = Fake(), Fake()
    expected = host_batches(dataset, 3, batch_size=7)
    loader = loader_on(first, dataset, batch_size=7)
    found = []
    for device in (first, second, None):
        loader.device = None if device is None else device.handle
        if device is None:
            found += list(loader)
            continue
        reads = [read_all(device, batch) for batch in loader]
        device.synchronize()
        found += [read() for read in reads]
    assert_same(expected, found)


def test_steps_of_the_pipeline_alone_do_not_keep_batches(by_hand: Fake, clean_folder: Path) -> None:
    dataset = ImageFolder(str(clean_folder), transforms.Compose([*recipes.training(16).transforms, noisy]))
    device_batches(by_hand, dataset, batch_size=7, num_workers=2)
    gc.collect()
    assert by_hand.handle.bytes_in_use == 0
