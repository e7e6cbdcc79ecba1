"""Every batch on the device has the bytes, the types and the layout of the host's. On a fake GPU and a GPU."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import recipes
import torch
import torch.utils.data
from devices import DeviceUnderTest, Held, assert_same, device_batches, host_batches, loader_on, read_all, read_batches
from torch.utils.data import IterableDataset, TensorDataset
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload

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


TRAINING = recipes.training(32).transforms
SMALL = transforms.Compose([transforms.CenterCrop(24), transforms.PILToTensor()])
PIPELINES: dict[str, Any] = {
    "training": recipes.training(32),
    **{
        str(dtype): transforms.Compose([transforms.Resize(40), transforms.CenterCrop(32), *to_dtype(dtype)])
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8)
    },
    "views": fastload.transforms.MultiView([recipes.training(32), SMALL, recipes.training(16)]),
    "erased": transforms.Compose([*TRAINING, transforms.RandomErasing(p=0.8)]),
}


@SOME_WORKERS
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", PIPELINES)
def test_batches_of_each_pipeline_are_the_hosts(
    device: DeviceUnderTest, clean_folder: Path, num_workers: int, memory_format: torch.memory_format, name: str
) -> None:
    dataset = ImageFolder(str(clean_folder), PIPELINES[name])
    assert fastload.DataLoader(dataset).explain().startswith("native")
    arguments = {"batch_size": 4, "shuffle": True, "num_workers": num_workers, "memory_format": memory_format}
    assert_delivered(device, dataset, num_epochs=2, **arguments)


# Arguments of loaders of images with random choices.
SETTINGS: dict[str, dict[str, Any]] = {
    "one sample a batch": {"batch_size": 1},
    "one batch": {"batch_size": 14, "num_epochs": 2},
    "draws of samples": {"rng": "sample", "shuffle": True},
    "batches that grow and shrink": {
        "batch_sampler": [[0], [1, 2], [3, 4, 5, 6, 7], [8], list(range(14)), [9, 10], [11] * 20]
    },
}


@pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
@pytest.mark.parametrize("name", SETTINGS)
def test_batches_of_each_setting_are_the_hosts(
    device: DeviceUnderTest, images: ImageFolder, num_workers: int, name: str
) -> None:
    assert_delivered(device, images, num_workers=num_workers, **SETTINGS[name])


@SOME_WORKERS
def test_training_batches_are_torchs(device: DeviceUnderTest, images: ImageFolder, num_workers: int) -> None:
    arguments = {"batch_size": 4, "shuffle": True, "num_workers": num_workers}
    torch.manual_seed(3)
    expected = list(torch.utils.data.DataLoader(images, **arguments))
    assert_same(expected, device_batches(device, images, **arguments))


@SOME_WORKERS
def test_images_that_pillow_decodes_are_the_hosts(
    device: DeviceUnderTest, mixed_folder: Path, num_workers: int
) -> None:
    dataset = ImageFolder(str(mixed_folder), recipes.training(32))
    expected = host_batches(dataset, batch_size=4, num_workers=num_workers)
    loader = loader_on(device, dataset, batch_size=4, num_workers=num_workers)
    assert_same(expected, read_batches(device, loader))
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


class Pair(NamedTuple):
    image: torch.Tensor
    label: int


class ListOfTheUsers(list[Any]):
    pass


class Structured(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 14

    def __getitem__(self, index: int) -> Any:
        return {
            "image": torch.full((3, 4), index / 7),
            "pair": Pair(torch.rand(2, dtype=torch.float64), index),
            "nested": [(torch.arange(index, index + 3), "a text"), {"more": torch.tensor(index)}],
            "name": f"sample {index}",
        }


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
    loader = loader_on(device, dataset, **arguments)
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
    assert_same(expected, read_batches(device, batches))


class Counting(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, 14, step):
            yield torch.full((2, 3), index) + torch.rand(2, 3), index


# Data sets of which Python makes or ends the samples, with their loaders' other arguments.
DATASETS: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "images that Python ends": (
        lambda folder: ImageFolder(str(folder), transforms.Compose([*TRAINING, noisy])),
        {"batch_size": 4, "shuffle": True},
    ),
    "tv_tensors": (
        lambda folder: ImageFolder(str(folder), v2.Compose([v2.CenterCrop(20), v2.ToImage(), noisy])),
        {"batch_size": 4},
    ),
    "nested structures": (lambda _: Structured(), {"batch_size": 4}),
    "iterable": (lambda _: Counting(), {"batch_size": 3}),
    "without batches": (lambda _: TensorDataset(torch.arange(45.0).view(9, 5), torch.arange(9)), {"batch_size": None}),
}


@pytest.mark.parametrize(
    ("num_workers", "persistent_workers"), [(0, False), (1, False), (2, False), (2, True), (4, False)]
)
@pytest.mark.parametrize("name", DATASETS)
def test_batches_of_each_data_set_are_the_hosts(
    device: DeviceUnderTest, clean_folder: Path, num_workers: int, persistent_workers: bool, name: str
) -> None:
    make, arguments = DATASETS[name]
    workers = {"num_workers": num_workers, "persistent_workers": persistent_workers}
    assert_delivered(device, make(clean_folder), num_epochs=3, **workers, **arguments)


def test_batches_that_come_as_they_are_done_are_all_there(device: DeviceUnderTest) -> None:
    dataset = TensorDataset(torch.rand(30, 5), torch.arange(30))
    expected = host_batches(dataset, batch_size=4)
    found = device_batches(device, dataset, batch_size=4, num_workers=3, in_order=False)
    assert_same(expected, sorted(found, key=lambda batch: int(batch[1][0])))


def test_batches_of_a_data_pipe_are_the_hosts(device: DeviceUnderTest) -> None:
    pipe = torch.utils.data.datapipes.iter.IterableWrapper(list(torch.rand(9, 5)))
    assert_delivered(device, pipe, batch_size=4)
