"""The loader's bytes against torch's DataLoader with torchvision's PIL transforms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recipes
import torch
import torch.utils.data
from loader_epochs import assert_equal_to_torch
from PIL import Image
from torch.utils.data import ConcatDataset, Subset
from torchvision import transforms
from torchvision.datasets import DatasetFolder, ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS, pil_loader
from torchvision.transforms import v2

import fastload

BICUBIC = transforms.InterpolationMode.BICUBIC
TO_TENSOR = transforms.Compose([transforms.ToTensor(), transforms.Normalize(recipes.MEAN, recipes.STD)])


@pytest.fixture(scope="module")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes images longer than any JPEG."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "class").mkdir()
    random = np.random.default_rng(0)
    for number, (height, width) in enumerate([(3, 70_000), (70_000, 2), (1, 1_000_000)]):
        Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8)).save(folder / "class" / f"{number}.png")
    return folder


@pytest.mark.parametrize(
    "steps",
    [
        [transforms.RandomResizedCrop(20)],
        [transforms.RandomResizedCrop(20, ratio=(0.0001, 10000.0))],
        [transforms.CenterCrop(20)],
        [transforms.CenterCrop((80, 300)), v2.RandAugment()],
        [transforms.Resize(1), transforms.CenterCrop(50)],
        [transforms.Resize(3, max_size=5), transforms.CenterCrop(50)],
        *([transforms.Resize((20, 20), interpolation=mode)] for mode in transforms.InterpolationMode),
        [transforms.ColorJitter(0.5, 0.5, 0.5, 0.2), transforms.RandomCrop(20, pad_if_needed=True)],
        [transforms.RandomHorizontalFlip(), transforms.RandomVerticalFlip(), transforms.RandomCrop((1, 60_000))],
        [v2.RandomCrop(20, padding=2, pad_if_needed=True, padding_mode="edge")],
    ],
    ids=repr,
)
def test_images_longer_than_any_jpeg_equal_torch(long_folder: Path, steps: list[object]) -> None:
    dataset = ImageFolder(str(long_folder), transforms.Compose([*steps, transforms.PILToTensor()]))
    assert_equal_to_torch(dataset, 1, batch_size=1)


def test_an_image_that_is_too_long_for_native_batches_says_so(long_folder: Path) -> None:
    """It has 1.2 million columns; torchvision takes the memory for it."""
    steps = [transforms.Resize(50), transforms.CenterCrop(20), transforms.PILToTensor()]
    loader = fastload.DataLoader(Subset(ImageFolder(str(long_folder), transforms.Compose(steps)), [0]))
    with pytest.raises(
        fastload.SampleError, match=r"a side of the resized image is not in 1\.\.1048576, as native images need"
    ) as raised:
        next(iter(loader))
    assert isinstance(raised.value, ValueError)
    own = Subset(ImageFolder(str(long_folder), transforms.Compose([*steps, torch.Tensor.float])), [0])
    assert_equal_to_torch(own, 1, verdict="partly native")


@pytest.mark.parametrize("table", fastload.build_info().kernel_tables)
def test_every_kernel_table_equals_torch_on_files_of_every_kind(
    mixed_folder: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTLOAD_SIMD", table)
    uint8 = transforms.Compose([transforms.RandomResizedCrop(63, interpolation=BICUBIC), transforms.PILToTensor()])
    for transform in (recipes.evaluation(64, 56), recipes.evaluation(), recipes.training(), uint8):
        dataset = ImageFolder(str(mixed_folder), transform)
        torch.manual_seed(8)
        expected = recipes.bytes_of(torch.utils.data.DataLoader(dataset, batch_size=5, num_workers=1))
        torch.manual_seed(8)
        loader = fastload.DataLoader(dataset, batch_size=5, num_workers=1)
        assert recipes.bytes_of(loader) == expected


@pytest.mark.parametrize("table", fastload.build_info().kernel_tables)
def test_every_kernel_table_equals_torch_on_real_photographs(
    corpora: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTLOAD_SIMD", table)
    dataset = ImageFolder(str(corpora / "imagenet64"), recipes.evaluation())
    expected = recipes.bytes_of(torch.utils.data.DataLoader(dataset, batch_size=16))
    assert recipes.bytes_of(fastload.DataLoader(dataset, batch_size=16, num_workers=2)) == expected


class OneClass(ImageFolder):
    """Finds only its first class."""

    def find_classes(self, directory: Any) -> tuple[list[str], dict[str, int]]:
        first = super().find_classes(directory)[0][0]
        return [first], {first: 5}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_class_derived_from_image_folder_that_makes_no_samples_equals_torch(
    mixed_folder: Path, num_workers: int
) -> None:
    dataset = OneClass(str(mixed_folder), recipes.training())
    assert_equal_to_torch(dataset, batch_size=4, shuffle=True, num_workers=num_workers)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_concatenations_of_parts_with_equal_transforms_equal_torch(
    clean_folder: Path, mixed_folder: Path, num_workers: int
) -> None:
    parts = [ImageFolder(str(folder), recipes.evaluation(64, 56)) for folder in (clean_folder, mixed_folder)]
    dataset = ConcatDataset([Subset(parts[0], [3, 1, -1]), parts[1]])
    assert_equal_to_torch(dataset, 1, batch_size=5, num_workers=num_workers)


@pytest.mark.parametrize("loader", [pil_loader, fastload.pil_loader])
def test_dataset_folder_with_a_loader_that_is_known_equals_torch(mixed_folder: Path, loader: object) -> None:
    dataset = DatasetFolder(str(mixed_folder), loader, IMG_EXTENSIONS, recipes.evaluation(64, 56))
    assert_equal_to_torch(dataset, 1, batch_size=5, num_workers=2)


@pytest.mark.parametrize("size", [224, 65])
def test_training_equals_pillow_with_the_reported_crops_and_flips(mixed_folder: Path, size: int) -> None:
    dataset = ImageFolder(str(mixed_folder), recipes.training(size))
    loader = fastload.DataLoader(dataset, batch_size=6, shuffle=True, num_workers=2, rng="sample", seed=3)
    flips = 0
    for _ in range(3):
        iterator = iter(loader)
        for images, labels in iterator:
            reports = iterator.batch_report()
            assert torch.equal(images, recipes.replay(reports, TO_TENSOR))
            assert labels.tolist() == [loader.dataset.samples[report.index][1] for report in reports]
            flips += sum(("hflip",) in report.steps for report in reports)
    assert 0 < flips < 3 * len(loader.dataset)


@pytest.mark.parametrize(
    ("tail", "dtype"),
    [
        ([transforms.PILToTensor()], torch.uint8),
        ([transforms.ToTensor()], torch.float32),
        ([transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float16)], torch.float16),
        (
            [
                transforms.PILToTensor(),
                transforms.ConvertImageDtype(torch.bfloat16),
                transforms.Normalize(recipes.MEAN, recipes.STD),
            ],
            torch.bfloat16,
        ),
    ],
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_every_output_type_and_layout_equals_torch(
    clean_folder: Path, tail: list[object], dtype: torch.dtype, memory_format: torch.memory_format
) -> None:
    dataset = ImageFolder(str(clean_folder), transforms.Compose([transforms.Resize((40, 50)), *tail]))
    expected = recipes.bytes_of(torch.utils.data.DataLoader(dataset, batch_size=8))
    loader = fastload.DataLoader(dataset, batch_size=8, num_workers=1, memory_format=memory_format)
    batches = list(loader)
    assert recipes.bytes_of(batches) == expected
    for images, labels in batches:
        assert images.dtype is dtype
        assert images.is_contiguous(memory_format=memory_format)
        assert labels.dtype is torch.int64


def test_our_own_sources_equal_torchvision(mixed_folder: Path) -> None:
    transform = recipes.evaluation(64, 56)
    reference = ImageFolder(str(mixed_folder), transform)
    expected = recipes.bytes_of(torch.utils.data.DataLoader(reference, batch_size=4))
    own = fastload.ImageFolder(str(mixed_folder), transform)
    paths, labels = zip(*reference.samples, strict=True)
    files = fastload.ImageFiles(paths, labels, transform)
    for dataset in (own, files):
        for num_workers in (0, 2):
            assert recipes.bytes_of(fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers)) == expected
        assert recipes.bytes_of(torch.utils.data.DataLoader(dataset, batch_size=4)) == expected


def test_a_dataset_changed_between_epochs_is_seen(clean_folder: Path) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.evaluation(64, 56))
    loader = fastload.DataLoader(dataset, batch_size=22, num_workers=1)
    before = recipes.bytes_of(loader)
    dataset.samples[0], dataset.samples[5] = dataset.samples[5], dataset.samples[0]
    dataset.transform = recipes.evaluation(60, 48)
    after = recipes.bytes_of(loader)
    assert after != before
    assert after == recipes.bytes_of(torch.utils.data.DataLoader(dataset, batch_size=22))


class ResizingSampler(torch.utils.data.BatchSampler):
    """Changes the dataset's transform when an epoch begins, before torch starts the workers that copy it."""

    def __init__(self, dataset: ImageFolder, sizes: list[int]) -> None:
        super().__init__(range(len(dataset)), 4, drop_last=False)
        self._dataset, self._sizes = dataset, iter(sizes)

    def __iter__(self) -> Iterator[list[int]]:
        size = next(self._sizes)
        self._dataset.transform = recipes.evaluation(size + 8, size)
        return super().__iter__()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_dataset_that_a_batch_sampler_changes_is_seen(clean_folder: Path, num_workers: int) -> None:
    def batches(kind: type[Any]) -> list[bytes]:
        dataset = ImageFolder(str(clean_folder), recipes.evaluation(24, 16))
        # With workers the sampler's iterator is requested twice, the first time before they start.
        sampler = ResizingSampler(dataset, [32, 32, 40, 40] if num_workers else [32, 40])
        loader = kind(dataset, batch_sampler=sampler, num_workers=num_workers)
        return [*recipes.bytes_of(loader), *recipes.bytes_of(loader)]

    assert batches(fastload.DataLoader) == batches(torch.utils.data.DataLoader)
