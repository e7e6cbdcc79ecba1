"""Datasets that hold images: each worker thread has its own, like torch's processes."""

from __future__ import annotations

import io
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from both_loaders import Threads
from comparison import is_deferred, native_opener, needs_deferral
from jpeg_kinds import jpeg
from PIL import Image

import fastload
from fastload._iteration.threads._task import Task

FILES = [jpeg(number, 60 + number, 50) for number in range(6)]


class Held(torch.utils.data.Dataset[Any]):
    """Changes the images that it holds."""

    def __init__(self, make: Callable[[Any], Any], *, by_access: bool = False) -> None:
        self.images = [make(Image.open(io.BytesIO(data))) for data in FILES]
        self.access = [image.load() for image in self.images] if by_access else None
        self.references = [weakref.ref(image) for image in self.images]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image = self.images[index]
        assert self.references[index]() is image
        pixel = (9, 8, image.getpixel((1, 1))[2] // 2)
        if self.access is None:
            image.putpixel((1, 1), pixel)
        else:
            self.access[index][1, 1] = pixel
        blended = Image.blend(image, image, 0.5)  # C functions accept only Pillow's memory
        return np.array(blended.convert("RGB").crop((0, 0, 30, 30)))


def _loaded(image: Any) -> Any:
    image.load()
    return image


KINDS_OF_IMAGES: dict[str, Callable[[Any], Any]] = {
    "opened": lambda image: image,
    "loaded": _loaded,
    "converted": lambda image: image.convert("RGB"),
    "cropped": lambda image: image.convert("RGB").crop((3, 4, 40, 41)),
    "with pixels": lambda image: _loaded(image).convert("RGB").rotate(90),
}


def _batches(kind: Any, dataset: Any) -> list[torch.Tensor]:
    return list(kind(dataset, batch_size=2, num_workers=2))


@needs_deferral
@pytest.mark.parametrize(
    ("name", "by_access"),
    # Pillow's own access to pixels cannot be copied.
    [
        *((name, False) for name in KINDS_OF_IMAGES),
        *((name, True) for name in KINDS_OF_IMAGES if name != "with pixels"),
    ],
)
def test_workers_change_their_own_images(name: str, by_access: bool) -> None:
    """As with torch, the program's images and those of the next epoch's workers stay unchanged."""
    make = KINDS_OF_IMAGES[name]
    with native_opener():
        dataset = Held(make, by_access=by_access)
        states = [type(vars(image)["_im"]) for image in dataset.images]
        for _ in range(2):
            mine = _batches(fastload.DataLoader, dataset)
            theirs = _batches(torch.utils.data.DataLoader, Held(make, by_access=by_access))
            assert all(map(torch.equal, mine, theirs))
        assert [type(vars(image)["_im"]) for image in dataset.images] == states
        assert [image.tobytes() for image in dataset.images] == [image.tobytes() for image in Held(make).images]


class Cached(torch.utils.data.Dataset[Any]):
    """Opens an image once, and returns it as it is."""

    def __init__(self, *, is_loaded: bool) -> None:
        self.is_loaded = is_loaded
        self.images: dict[int, Any] = {}

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if not self.images:
            opened = [Image.open(io.BytesIO(data)) for data in FILES[:4]]
            self.images = {number: _loaded(image) if self.is_loaded else image for number, image in enumerate(opened)}
        return {"image": (self.images[index], index)}


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_batch_has_pixels_of_images_that_were_opened_for_an_earlier_one(is_loaded: bool) -> None:
    loader = fastload.DataLoader(Cached(is_loaded=is_loaded), batch_size=1, num_workers=1, collate_fn=list)
    for number, (sample,) in enumerate(loader):
        image, index = sample["image"]
        assert index == number
        assert not is_deferred(image)
        assert image.tile == []
        assert image.tobytes() == Image.open(io.BytesIO(FILES[index])).convert("RGB").tobytes()
    stats = loader.stats()
    assert (stats.images_opened, stats.images_native, stats.image_fallback_reasons) == (4, 4, {})


def test_images_are_counted_before_their_batch_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    finish = Task.finish

    def finish_and_look(self: Task, *arguments: Any, **options: Any) -> None:
        counts.append(loader.stats().images_opened)
        finish(self, *arguments, **options)

    monkeypatch.setattr(Task, "finish", finish_and_look)
    loader = Threads(Cached(is_loaded=True), batch_size=1, num_workers=1, collate_fn=list)
    assert len(list(loader)) == 4
    assert counts == [4, 4, 4, 4]


class Nested(torch.utils.data.Dataset[Any]):
    """A sample that contains itself, twice in each list."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        sample: list[Any] = [Image.open(io.BytesIO(FILES[0])).convert("RGB")]
        sample += [sample, sample, {"again": sample}]
        return sample


@needs_deferral
def test_a_sample_that_contains_itself() -> None:
    ((sample,),) = fastload.DataLoader(Nested(), num_workers=1, collate_fn=list)
    assert sample[1] is sample
    assert not is_deferred(sample[0])
