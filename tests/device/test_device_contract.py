"""Every batch on the device has the bytes, the types and the layout of the host's. On a fake GPU and a GPU."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import recipes
import torch
import torch.utils.data
from devices import DeviceUnderTest, Held, assert_same, device_batches, host_batches, read_all
from torch.utils.data import IterableDataset, TensorDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload

WORKERS = pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
SOME_WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


def assert_delivered(device: DeviceUnderTest, dataset: Any, **arguments: Any) -> list[Any]:
    """Asserts that the batches are the host's, and returns them."""
    expected = host_batches(dataset, **arguments)
    found = device_batches(device, dataset, **arguments)
    assert len(expected) > 1
    assert_same(expected, found)
    return found


def to_dtype(dtype: torch.dtype) -> list[Any]:
    if dtype is torch.uint8:
        return [transforms.PILToTensor()]
    normalized = [transforms.ToTensor(), transforms.Normalize(recipes.MEAN, recipes.STD)]
    return normalized if dtype is torch.float32 else [*normalized, transforms.ConvertImageDtype(dtype)]


# ---- native batches ------------------------------------------------------------------------------------------------


@WORKERS
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("batch_size", [4, 14, 1])
def test_training_batches_are_the_hosts(
    device: DeviceUnderTest,
    images: ImageFolder,
    num_workers: int,
    memory_format: torch.memory_format,
    batch_size: int,
) -> None:
    arguments = {"batch_size": batch_size, "shuffle": True, "num_workers": num_workers, "memory_format": memory_format}
    expected = host_batches(images, 2, **arguments)
    assert_same(expected, device_batches(device, images, 2, **arguments))
    assert {len(labels) for _, labels in expected} == ({4, 2} if batch_size == 4 else {batch_size})


@SOME_WORKERS
def test_training_batches_are_torchs(device: DeviceUnderTest, images: ImageFolder, num_workers: int) -> None:
    arguments = {"batch_size": 4, "shuffle": True, "num_workers": num_workers}
    torch.manual_seed(3)
    expected = list(torch.utils.data.DataLoader(images, **arguments))
    assert_same(expected, device_batches(device, images, **arguments))


@SOME_WORKERS
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8])
def test_each_type_of_elements_is_the_hosts(
    device: DeviceUnderTest,
    clean_folder: Path,
    num_workers: int,
    memory_format: torch.memory_format,
    dtype: torch.dtype,
) -> None:
    steps = [transforms.Resize(40), transforms.CenterCrop(32), *to_dtype(dtype)]
    dataset = ImageFolder(str(clean_folder), transforms.Compose(steps))
    assert fastload.DataLoader(dataset).explain().startswith("native")
    found = assert_delivered(device, dataset, batch_size=5, num_workers=num_workers, memory_format=memory_format)
    assert found[0][0].dtype is dtype


@SOME_WORKERS
@pytest.mark.parametrize("rng", ["torch", "sample"])
def test_both_kinds_of_random_numbers_are_the_hosts(
    device: DeviceUnderTest, images: ImageFolder, num_workers: int, rng: str
) -> None:
    assert_delivered(device, images, batch_size=4, num_workers=num_workers, rng=rng, shuffle=True)


@SOME_WORKERS
def test_the_views_of_a_multi_view_are_the_hosts(device: DeviceUnderTest, clean_folder: Path, num_workers: int) -> None:
    small = transforms.Compose([transforms.CenterCrop(24), transforms.PILToTensor()])
    views = fastload.transforms.MultiView([recipes.training(32), small, recipes.training(16)])
    dataset = ImageFolder(str(clean_folder), views)
    assert fastload.DataLoader(dataset).explain().startswith("native")
    found = assert_delivered(device, dataset, batch_size=4, num_workers=num_workers)
    assert [view.shape[-1] for view in found[0][0]] == [32, 24, 16]


@SOME_WORKERS
@pytest.mark.parametrize("value", [0, "random"])
def test_erased_boxes_are_the_hosts(
    device: DeviceUnderTest, clean_folder: Path, num_workers: int, value: int | str
) -> None:
    steps = [*recipes.training(32).transforms, transforms.RandomErasing(p=0.8, value=value)]
    dataset = ImageFolder(str(clean_folder), transforms.Compose(steps))
    assert_delivered(device, dataset, batch_size=4, num_workers=num_workers)


@SOME_WORKERS
def test_images_that_pillow_decodes_are_the_hosts(
    device: DeviceUnderTest, mixed_folder: Path, num_workers: int
) -> None:
    dataset = ImageFolder(str(mixed_folder), recipes.training(32))
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers, device=device.handle)
    reads = [read_all(device, batch) for batch in loader]
    device.synchronize()
    assert_same(host_batches(dataset, batch_size=4, num_workers=num_workers), [read() for read in reads])
    assert loader.stats().samples_fallback > 3


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("kind", ["images", "still_images"])
def test_epochs_of_a_persistent_iterator_are_the_hosts(
    request: pytest.FixtureRequest, device: DeviceUnderTest, num_workers: int, kind: str
) -> None:
    dataset = request.getfixturevalue(kind)
    assert_delivered(device, dataset, num_epochs=3, batch_size=4, num_workers=num_workers, persistent_workers=True)


@SOME_WORKERS
@pytest.mark.parametrize("prefetch_factor", [1, 3])
@pytest.mark.parametrize("device_prefetch", [1, 2, 5])
def test_any_number_of_batches_ahead_gives_the_hosts(
    device: DeviceUnderTest, images: ImageFolder, num_workers: int, prefetch_factor: int, device_prefetch: int
) -> None:
    arguments = {"batch_size": 2, "num_workers": num_workers}
    if num_workers:
        arguments["prefetch_factor"] = prefetch_factor
    expected = host_batches(images, **arguments)
    assert_same(expected, device_batches(device, images, **arguments, device_prefetch=device_prefetch))


@SOME_WORKERS
def test_batches_that_grow_and_shrink_are_the_hosts(
    device: DeviceUnderTest, images: ImageFolder, num_workers: int
) -> None:
    batches = [[0], [1, 2], [3, 4, 5, 6, 7], [8], list(range(14)), [9, 10], [11] * 20]
    assert_delivered(device, images, batch_sampler=batches, num_workers=num_workers)


def test_the_host_named_as_a_device_gives_host_batches(still_images: ImageFolder) -> None:
    expected = host_batches(still_images, batch_size=4)
    for name in ("cpu", torch.device("cpu")):
        loader = fastload.DataLoader(still_images, batch_size=4, device=name)
        assert_same(expected, list(loader))
        assert loader.stats().bytes_copied == 0
        assert "copied" not in loader.explain()


# ---- batches made in Python ----------------------------------------------------------------------------------------


def noisy(image: torch.Tensor) -> torch.Tensor:
    return image + torch.randn(3, 1, 1)


@WORKERS
def test_batches_that_python_ends_are_the_hosts(device: DeviceUnderTest, clean_folder: Path, num_workers: int) -> None:
    dataset = ImageFolder(str(clean_folder), transforms.Compose([*recipes.training(32).transforms, noisy]))
    assert fastload.DataLoader(dataset).explain().startswith("partly native")
    assert_delivered(device, dataset, num_epochs=2, batch_size=4, num_workers=num_workers, shuffle=True)


class Pair(NamedTuple):
    image: torch.Tensor
    label: int


class ListOfTheUsers(list[Any]):
    pass


def structured(index: int) -> Any:
    return {
        "image": torch.full((3, 4), index / 7),
        "pair": Pair(torch.rand(2, dtype=torch.float64), index),
        "nested": [(torch.arange(index, index + 3), "a text"), {"more": torch.tensor(index)}],
        "name": f"sample {index}",
        "nothing": b"bytes",
    }


class Structured(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 14

    def __getitem__(self, index: int) -> Any:
        return structured(range(14)[index])


def collate_bytes(samples: list[Any]) -> Any:
    return torch.utils.data.default_collate([{**sample, "nothing": index} for index, sample in enumerate(samples)])


@WORKERS
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_nested_structures_of_a_dataset_are_the_hosts(
    device: DeviceUnderTest, num_workers: int, persistent_workers: bool
) -> None:
    if persistent_workers and num_workers == 0:
        pytest.skip("torch refuses it")
    arguments = {"batch_size": 4, "num_workers": num_workers, "persistent_workers": persistent_workers}
    found = assert_delivered(device, Structured(), num_epochs=3, collate_fn=collate_bytes, **arguments)
    assert isinstance(found[0]["pair"], Pair)
    assert found[0]["name"] == [f"sample {index}" for index in range(4)]


def collate_to_odd_types(samples: list[Any]) -> Any:
    images = torch.stack([sample["image"] for sample in samples])
    kept = collections.defaultdict(list, images=images)
    return (
        ListOfTheUsers([images, kept]),
        (images + 1, "text", None, 3.5),
        torch.Size([2, 3]),
        collections.OrderedDict(a=images[:1], b=[]),
    )


@SOME_WORKERS
def test_containers_keep_their_types(device: DeviceUnderTest, num_workers: int) -> None:
    dataset = Structured()
    arguments = {"batch_size": 4, "num_workers": num_workers, "collate_fn": collate_to_odd_types}
    expected = [batch[:2] + batch[3:] for batch in host_batches(dataset, **arguments)]
    torch.manual_seed(3)
    loader = fastload.DataLoader(dataset, device=device.handle, **arguments)
    batches = list(loader)
    assert isinstance(batches[0], tuple)
    (users, kept), (_, text, nothing, number), size, ordered = batches[0]
    assert kept.default_factory is list
    assert (text, nothing, number) == ("text", None, 3.5)
    assert type(batches[0][0]) is ListOfTheUsers
    assert tuple(size) == (2, 3)
    assert type(ordered) is collections.OrderedDict
    assert users.shape == (4, 3, 4)
    reads = [read_all(device, (list(batch[0][:1]), batch[1])) for batch in batches]
    device.synchronize()
    wanted = [(list(batch[0][:1]), batch[1]) for batch in expected]
    assert_same(wanted, [read() for read in reads])


def collate_to_held(samples: list[Any]) -> Held:
    return Held(torch.stack([sample["image"] for sample in samples]))


@SOME_WORKERS
def test_an_object_of_the_users_pins_and_moves_itself(device: DeviceUnderTest, num_workers: int) -> None:
    arguments = {"batch_size": 4, "num_workers": num_workers, "collate_fn": collate_to_held}
    expected = host_batches(Structured(), **arguments)
    batches = list(fastload.DataLoader(Structured(), device=device.handle, **arguments))
    assert all(batch.was_pinned for batch in batches)
    assert all(batch.device == getattr(device.handle, "name", "cuda:0") for batch in batches)
    reads = [read_all(device, batch) for batch in batches]
    device.synchronize()
    assert_same(expected, [read() for read in reads])


class Counting(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, 14, step):
            yield torch.full((2, 3), index) + torch.rand(2, 3), index


@WORKERS
def test_batches_of_an_iterable_dataset_are_the_hosts(device: DeviceUnderTest, num_workers: int) -> None:
    assert_delivered(device, Counting(), num_epochs=2, batch_size=3, num_workers=num_workers)


@SOME_WORKERS
def test_samples_without_batches_are_the_hosts(device: DeviceUnderTest, num_workers: int) -> None:
    dataset = TensorDataset(torch.rand(9, 5), torch.arange(9))
    assert_delivered(device, dataset, batch_size=None, num_workers=num_workers)


def test_batches_that_come_as_they_are_done_are_all_there(device: DeviceUnderTest) -> None:
    dataset = TensorDataset(torch.rand(30, 5), torch.arange(30))
    expected = host_batches(dataset, batch_size=4)
    found = device_batches(device, dataset, batch_size=4, num_workers=3, in_order=False)
    assert_same(expected, sorted(found, key=lambda batch: int(batch[1][0])))


def test_batches_of_torchs_own_iterator_are_the_hosts(device: DeviceUnderTest) -> None:
    pipe = torch.utils.data.datapipes.iter.IterableWrapper(list(torch.rand(9, 5)))
    assert fastload.DataLoader(pipe).explain().startswith("not native: torch's own iterator")
    assert_delivered(device, pipe, batch_size=4)


def test_tv_tensors_of_a_dataset_arrive_with_their_bytes(device: DeviceUnderTest, clean_folder: Path) -> None:
    dataset = ImageFolder(str(clean_folder), v2.Compose([v2.CenterCrop(20), v2.ToImage(), noisy]))
    assert_delivered(device, dataset, batch_size=4, num_workers=2)
