"""explain(): a row for every obstacle, in words; torch's iterator runs only if there is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import recipes
import torch
import torch.utils.data
from both_loaders import Threads
from torch.utils.data import ConcatDataset, Subset
from torch.utils.data._utils import collate
from torchvision import transforms
from torchvision.datasets import FakeData, ImageFolder

import fastload
from fastload._iteration._iterator import EpochIterator
from fastload._pillow import _pillow


def way_of(loader: Any) -> str:
    """Returns what makes the batches of a new iterator: "native" code, "python", or "torch"."""
    iterator = iter(loader)
    if not isinstance(iterator, EpochIterator):
        return "torch"
    return "native" if iterator.is_native else "python"


def with_transform(*steps: Any) -> Callable[[ImageFolder], Any]:
    def change(images: ImageFolder) -> ImageFolder:
        images.transform = transforms.Compose(steps)
        return images

    return change


def with_target_transform(images: ImageFolder) -> ImageFolder:
    images.target_transform = str
    return images


def with_other_part(images: ImageFolder) -> Any:
    return ConcatDataset([images, ImageFolder(images.root, recipes.evaluation(41, 32))])


def same(images: ImageFolder) -> ImageFolder:
    return images


def identity(samples: Any) -> Any:
    return samples


def brighter(image: Any) -> Any:
    return image.point(lambda value: value + 1)


class OtherFolder(ImageFolder):
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


OBSTACLES: dict[str, tuple[Callable[[ImageFolder], Any], dict[str, Any], str]] = {
    "parts with different transforms": (with_other_part, {}, "as a whole: not native: parts have different transforms"),
    "another dataset": (lambda _: FakeData(3), {}, "source     FakeData: "),
    "a subclass": (lambda images: OtherFolder(images.root, images.transform), {}, "source     OtherFolder: "),
    "a subset of another": (lambda _: Subset(FakeData(3), [0]), {}, "source     Subset: "),
}
ENDS_IN_PYTHON: dict[str, tuple[Callable[[ImageFolder], Any], dict[str, Any], str]] = {
    "collate_fn": (same, {"collate_fn": identity}, "collate    identity: only default_collate is native"),
    "batch_size": (same, {"batch_size": None}, "batches    sampler SequentialSampler: batch_size=None runs in Python"),
    "target_transform": (with_target_transform, {}, "labels     target_transform: it runs in Python"),
    "no transform": (lambda images: ImageFolder(images.root), {}, "there is no transform, so the samples are PIL"),
    "a transform that is not native": (
        with_transform(transforms.RandomPerspective(), transforms.CenterCrop(9), transforms.ToTensor()),
        {},
        r"transform  .*1 of 3.*RandomPerspective.*: runs in Python from here on \(not native yet; native: Auto",
    ),
    "a function": (with_transform(brighter, transforms.ToTensor()), {}, "function.*: runs in Python from here on"),
    "Resize of the shorter side alone": (
        with_transform(transforms.Resize(20), transforms.ToTensor()),
        {},
        "transform  as a whole: the size of the result depends on the image",
    ),
    "no tensor": (with_transform(transforms.CenterCrop(9)), {}, "transform  as a whole: the result is a PIL image"),
    "a view that is not native": (
        with_transform(fastload.MultiView([transforms.ToTensor(), transforms.GaussianBlur(3)])),
        {},
        "transform  view 2: 1 of 1, GaussianBlur: runs in Python from here on",
    ),
}


def reasons_of(loader: fastload.DataLoader[Any], head: str) -> str:
    first, *rows = loader.explain().splitlines()
    assert first == head
    with_reason = [row for row in rows if not row.endswith(": native")]
    assert with_reason, rows
    return "\n".join(with_reason)


def head_of(name: str) -> str:
    if name in OBSTACLES:
        return "not native: samples are loaded in Python"
    if name in ("a function", "a transform that is not native", "a view that is not native"):  # these come first
        return "partly native: samples are read and decoded natively, then transformed in Python"
    return "partly native: samples are read, decoded and transformed natively, then finished in Python"


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("name", [*OBSTACLES, *ENDS_IN_PYTHON])
def test_every_obstacle_is_named_and_threads_of_python_run(images: ImageFolder, name: str, num_workers: int) -> None:
    change, arguments, text = {**OBSTACLES, **ENDS_IN_PYTHON}[name]
    loader = Threads(change(images), num_workers=num_workers, **arguments)
    reasons = reasons_of(loader, f"{head_of(name)}, {'by one thread' if num_workers else 'in the calling thread'}")
    assert re.search(text, reasons), reasons
    assert way_of(loader) == "python"


@pytest.mark.parametrize("kind", ["images", "images_with_python_part"])
def test_worker_init_fn_is_no_obstacle(kind: str, request: pytest.FixtureRequest) -> None:
    class Called:
        """A class, which is not copied."""

        numbers: ClassVar[list[int]] = []

        @classmethod
        def note(cls, worker_id: int) -> None:
            cls.numbers.append(worker_id)

    dataset = request.getfixturevalue(kind)
    without = Threads(dataset, num_workers=2).explain().splitlines()
    loader = Threads(dataset, worker_init_fn=Called.note, num_workers=2)
    lines = loader.explain().splitlines()
    lines.remove("  workers    worker_init_fn, called for each: native")
    assert lines == without
    list(loader)
    assert sorted(Called.numbers) == [0, 1]


@pytest.mark.parametrize(
    ("num_workers", "head"),
    [(0, "decoded and transformed in the calling thread"), (2, "decoded and transformed by 2 threads")],
)
def test_a_loader_without_obstacles_says_native_in_every_row(images: ImageFolder, num_workers: int, head: str) -> None:
    loader = fastload.DataLoader(Subset(images, [1, 2]), num_workers=num_workers, shuffle=True)
    first, *rows = loader.explain().splitlines()
    assert first == f"native: batches are read, {head}"
    names = ["source", *["transform"] * 4, "random", "decode", "batches", "collate", "cache"]
    assert [row.split()[0] for row in rows] == names
    assert all(row.endswith(": native") for row in rows)
    assert way_of(loader) == "native"


def test_with_pillow_simd_a_row_says_whose_arithmetic_resizes(
    images: ImageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pillow, "__version__", "9.5.0.post1")
    (row,) = [row for row in fastload.DataLoader(images).explain().splitlines() if row.split()[0] == "resize"]
    assert "like plain Pillow" in row


def test_worker_init_fn_is_no_obstacle_without_workers_where_torch_never_calls_it(images: ImageFolder) -> None:
    def fail(worker_id: int) -> None:
        raise AssertionError("called")

    loader = fastload.DataLoader(images, worker_init_fn=fail)
    assert way_of(loader) == "native"
    assert len(list(loader)) == len(list(torch.utils.data.DataLoader(images, worker_init_fn=fail)))


@pytest.mark.parametrize("kind", [torch.Tensor, int, tuple, object])
def test_a_collate_function_registered_for_what_a_batch_holds_is_honoured(
    images: ImageFolder, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    def count(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return len(batch)

    loader = fastload.DataLoader(images, batch_size=4)
    assert way_of(loader) == "native"
    monkeypatch.setitem(collate.default_collate_fn_map, kind, count)
    expected = next(iter(torch.utils.data.DataLoader(images, batch_size=4)))
    assert "default_collate_fn_map" in loader.explain()
    found = next(iter(loader))
    if isinstance(expected, list):
        assert [item == 4 if isinstance(item, int) else None for item in found] == [
            item == 4 if isinstance(item, int) else None for item in expected
        ]
        assert 4 in [item for item in found if isinstance(item, int)]
    else:
        assert found == expected == 4


def test_a_collate_function_registered_for_another_type_is_no_obstacle(
    images: ImageFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(collate.default_collate_fn_map, complex, identity)
    assert way_of(fastload.DataLoader(images)) == "native"
