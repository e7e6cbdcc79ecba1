"""Samples that are written where their batch is: the batches are torch's, whatever the user's code keeps or changes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_loaders import Threads
from comparison import described, needs_deferral
from image_folders import synthetic_image
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate
from torchvision import transforms

from fastload._images import _batch_rows

pytestmark = needs_deferral
_SIZE = 160  # large enough for a batch of four images to get pooled memory
_NUM_FILES = 22


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("rows")
    for number in range(_NUM_FILES):
        synthetic_image(number, 200 + number, 180).save(folder / f"{number:02}.jpg")
    return sorted(folder.iterdir())


class Files(Dataset[Any]):
    """The results of `change` for an image's tensor and its number."""

    def __init__(self, files: list[Path], change: Callable[[torch.Tensor, int], Any]) -> None:
        self.files = files
        self.change = change
        self.transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(_SIZE),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
            ]
        )

    def __len__(self) -> int:
        return len(self.files)

    def image(self, index: int) -> torch.Tensor:
        return self.transform(Image.open(self.files[index]).convert("RGB"))

    def __getitem__(self, index: int) -> Any:
        return self.change(self.image(index), index)


class _Used:
    """Counts the batches that were made in rows, and those that had to be copied in the end."""

    def __init__(self) -> None:
        self.in_rows = self.copied = 0


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> _Used:
    counts, let_go = _Used(), _batch_rows._Rows.let_go

    def counted(self: _batch_rows._Rows) -> bool:
        counts.in_rows += self.is_used
        is_gone = let_go(self)
        counts.copied += not is_gone
        return is_gone

    monkeypatch.setattr(_batch_rows._Rows, "let_go", counted)
    return counts


def _change(value: Any) -> None:
    """Changes a batch as a training program might."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        value.fill_(7)
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _change(item)


def _batches(kind: Any, dataset: Any, epochs: int = 2, **options: Any) -> Iterator[Any]:
    torch.manual_seed(5)
    loader = kind(dataset, batch_size=options.pop("batch_size", 4), num_workers=1, persistent_workers=True, **options)
    for _ in range(epochs):
        for batch in loader:
            yield described(batch)
            _change(batch)


def _assert_same(make: Callable[[], Any], **options: Any) -> None:
    expected = list(_batches(DataLoader, make(), **options))
    assert list(_batches(Threads, make(), **options)) == expected


def _twice(image: torch.Tensor, index: int) -> Any:
    return image, image, index


IN_ROWS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "tuple": lambda image, index: (image, index),
    "list": lambda image, index: [index, image],
    "dict": lambda image, index: {"index": index, "image": image},
    "nested": lambda image, index: {"of": [(index, image)], "name": str(index)},
    "image alone": lambda image, index: image,
    "changed in place": lambda image, index: (image.mul_(index), index),
    "one more dimension": lambda image, index: (image.unsqueeze(0), index),
    "other type": lambda image, index: (image.view(torch.int32), index),
    "numpy": lambda image, index: (image.numpy(), index),
    "one tensor twice": _twice,
    "now and then another": lambda image, index: (image if index % 3 else image + 1, index),
}


@pytest.mark.parametrize("name", IN_ROWS)
def test_batches_in_rows(files: list[Path], used: _Used, name: str) -> None:
    _assert_same(lambda: Files(files, IN_ROWS[name]), shuffle=True)
    # The first of 12 batches gives the size; the last one of an epoch is smaller.
    assert used.in_rows == 11 or name == "now and then another"
    assert used.in_rows > 5
    assert used.copied == 0


ELSEWHERE: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "new tensor": lambda image, index: (image * 2, index),
    "part": lambda image, index: (image[:, :100], index),
    "other strides": lambda image, index: (image.permute(1, 2, 0), index),
    "flipped": lambda image, index: (image.flip(0), index),
    "of different shapes": lambda image, index: (image.sum().reshape(1), index),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_batches_that_torch_makes(files: list[Path], used: _Used, name: str) -> None:
    _assert_same(lambda: Files(files, ELSEWHERE[name]))
    assert used.in_rows == 0


class Keeping(Files):
    """Keeps something of each sample, and returns it in the next epoch, or looks at it then."""

    def __init__(self, files: list[Path], keep: Callable[[torch.Tensor], Any]) -> None:
        super().__init__(files, lambda image, index: (image, index))
        self.keep = keep
        self.kept: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index in self.kept:
            return torch.as_tensor(np.asarray(self.kept[index])).clone(), index
        image = self.image(index)
        self.kept[index] = self.keep(image)
        return image, index


KEPT: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda image: image,
    "view": lambda image: image[1],
    "detached": lambda image: image.detach(),
    "array": lambda image: image.numpy(),
    "row of an array": lambda image: image.numpy()[2, 50:60],
    "memory": lambda image: memoryview(image.numpy()),
    "DLPack": lambda image: np.from_dlpack(image),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_a_dataset_keeps_is_its_own(files: list[Path], used: _Used, name: str) -> None:
    _assert_same(lambda: Keeping(files, KEPT[name]), epochs=3)
    assert used.copied == 1  # and no later batch is made in rows
    assert used.in_rows == 1


def test_a_dataset_that_keeps_one_sample_for_the_next(files: list[Path], used: _Used) -> None:
    """Mixing transforms do this."""

    class Mixing(Files):
        last: torch.Tensor | None = None

        def __getitem__(self, index: int) -> Any:
            image = self.image(index)
            mixed = image if self.last is None else (image + self.last) / 2
            self.last = image
            return mixed, index

    _assert_same(lambda: Mixing(files, IN_ROWS["tuple"]))
    assert used.in_rows == 0


_capsules: list[Any] = []  # not in a closure, which each worker would copy


def _capsule(image: torch.Tensor, index: int) -> Any:
    _capsules.append((torch.utils.dlpack.to_dlpack(image), image.clone()))
    return image, index


def test_a_capsule_that_nobody_has_read_yet(files: list[Path], used: _Used) -> None:
    for images, _ in Threads(Files(files, _capsule), batch_size=4, num_workers=1):
        images.fill_(-1)
    kept = [(torch.utils.dlpack.from_dlpack(capsule), image) for capsule, image in _capsules]
    _capsules.clear()
    assert len(kept) == _NUM_FILES
    assert all(torch.equal(*pair) for pair in kept)
    assert used.copied == 1


def test_another_size_costs_one_batch(files: list[Path], used: _Used) -> None:
    """Programs that train on larger images later do this."""

    class Growing(Files):
        def image(self, index: int) -> torch.Tensor:
            size = _SIZE if index < 12 else _SIZE + 10
            return transforms.Compose([transforms.Resize((size, size)), transforms.ToTensor()])(
                Image.open(self.files[index]).convert("RGB")
            )

    _assert_same(lambda: Growing(files, IN_ROWS["tuple"]))
    assert used.in_rows == 8  # out of 12: the first batch of each size in each epoch is not


def test_a_size_of_its_own_for_each_image(files: list[Path], used: _Used) -> None:
    class Whole(Files):
        def image(self, index: int) -> torch.Tensor:
            return transforms.Compose([transforms.ToTensor()])(Image.open(self.files[index]).convert("RGB"))

    _assert_same(lambda: Whole(files, IN_ROWS["tuple"]), batch_size=1)
    assert used.in_rows == 0


def test_samples_by_two_workers_and_in_a_stream(files: list[Path], used: _Used) -> None:
    class Stream(IterableDataset[Any]):
        def __init__(self, files: Files) -> None:
            self.files = files

        def __iter__(self) -> Iterator[Any]:
            return (self.files[number] for number in range(len(self.files)))

    make = functools.partial(Files, files, IN_ROWS["tuple"])
    for options in ({"num_workers": 2}, {"num_workers": 3, "drop_last": True}):
        results = []
        for kind in (DataLoader, Threads):
            torch.manual_seed(1)
            results.append([described(batch) for batch in kind(make(), batch_size=4, **options)])
        assert results[0] == results[1]
    assert used.in_rows > 3
    used.in_rows = 0
    _assert_same(lambda: Stream(make()))
    assert used.in_rows > 5


def test_seeded_samples(files: list[Path], used: _Used) -> None:
    """With rng="sample" another loop loads the samples."""

    def batches(collate_fn: Any) -> list[Any]:
        dataset = Files(files, IN_ROWS["tuple"])
        options: dict[str, Any] = {"rng": "sample", "seed": 3, "num_workers": 1, "shuffle": True}
        return [described(b) for b in Threads(dataset, batch_size=4, collate_fn=collate_fn, **options)]

    expected = batches(lambda samples: default_collate(samples))
    assert used.in_rows == 0
    assert batches(None) == expected
    assert used.in_rows > 3


def test_a_failed_sample_leaves_the_next_batches_alone(files: list[Path], used: _Used) -> None:
    def fail(image: torch.Tensor, index: int) -> Any:
        if index in (9, 14):
            raise ValueError(f"sample {index}")
        return image, index

    def outcomes(kind: Any) -> list[Any]:
        iterator = iter(kind(Files(files, fail), batch_size=4, num_workers=1))
        found: list[Any] = []
        while True:
            try:
                found.append([index.tolist() for _, index in [next(iterator)]])
            except ValueError as error:
                found.append(str(error).rsplit("ValueError: ", 1)[-1].strip())
            except StopIteration:
                return found

    assert outcomes(Threads) == outcomes(DataLoader)
    assert used.in_rows > 2


def test_an_exchanged_collation_of_tensors_is_asked(
    files: list[Path], used: _Used, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils.data._utils import collate

    def mean(tensors: Any, *, collate_fn_map: Any = None) -> torch.Tensor:
        return torch.stack([tensor.mean() for tensor in tensors])

    monkeypatch.setitem(collate.default_collate_fn_map, torch.Tensor, mean)
    _assert_same(lambda: Files(files, IN_ROWS["tuple"]))
    assert used.in_rows == 0


class Picture:
    """A type that default_collate learns."""

    def __init__(self, image: torch.Tensor) -> None:
        self.image = image


def test_a_registered_function_that_keeps_the_list_of_samples(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, used: _Used
) -> None:
    from torch.utils.data._utils import collate

    def pictures(samples: list[Picture], *, collate_fn_map: Any = None) -> Any:
        return samples, collate.collate([sample.image for sample in samples], collate_fn_map=collate_fn_map)

    monkeypatch.setitem(collate.default_collate_fn_map, Picture, pictures)
    dataset = Files(files, lambda image, index: Picture(image))
    found = []
    for samples, images in Threads(dataset, batch_size=4, num_workers=1):
        assert all(torch.equal(sample.image, image) for sample, image in zip(samples, images, strict=True))
        images.fill_(3)
        found += [sample.image.eq(3).all() for sample in samples]
    assert len(found) == _NUM_FILES
    assert not any(found)
    assert used.copied == 1


def test_memory_is_used_again(files: list[Path], used: _Used) -> None:
    loader = Threads(
        Files(files, IN_ROWS["tuple"]), batch_size=4, num_workers=1, persistent_workers=True, drop_last=True
    )
    addresses: set[int] = set()
    for _ in range(6):
        for images, _ in loader:
            addresses.add(images.data_ptr())
    assert used.in_rows == 29
    assert len(addresses) < 10


def test_a_sample_in_a_row_and_a_batch_of_rows_have_memory_of_their_own(files: list[Path], used: _Used) -> None:
    def facts(image: torch.Tensor, index: int) -> Any:
        return image, image.untyped_storage().nbytes(), image.storage_offset(), image._base is None

    for images, sizes, offsets, are_whole in Threads(Files(files, facts), batch_size=4, num_workers=1):
        assert images._base is None
        assert images.storage_offset() == 0
        assert images.untyped_storage().nbytes() == images.nbytes
        assert sizes.tolist() == [3 * _SIZE * _SIZE * 4] * len(images)
        assert not offsets.any()
        assert are_whole.all()
    assert used.in_rows > 3
