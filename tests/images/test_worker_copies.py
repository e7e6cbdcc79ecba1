"""Images that workers keep, and that they hand over as they are."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from both_loaders import Processes, Threads
from comparison import is_deferred, needs_deferral
from forked import in_fork
from jpeg_kinds import jpeg
from PIL import Image

import fastload
from fastload._iteration.python._task import Task

FILES = [jpeg(number, 60 + number, 50) for number in range(6)]


def _loaded(image: Any) -> Any:
    image.load()
    return image


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


class ModuleOfConvert(torch.utils.data.Dataset[str]):
    """Its samples name the module of what Pillow's images have for their method convert()."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> str:
        return module_of_convert()


def module_of_convert() -> str:
    return str(vars(Image.Image)["convert"].__globals__["__name__"])


@pytest.mark.parametrize("native_images", [True, False])
def test_forked_workers_have_their_methods_and_the_program_keeps_pillows(native_images: bool) -> None:
    iterator = iter(Processes(ModuleOfConvert(), num_workers=2, native_images=native_images, collate_fn=list))
    assert module_of_convert() == "PIL.Image"
    in_workers = "fastload._images._methods" if native_images else "PIL.Image"
    assert list(iterator) == [[in_workers], [in_workers]]
    assert in_fork(module_of_convert) == "PIL.Image"


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
