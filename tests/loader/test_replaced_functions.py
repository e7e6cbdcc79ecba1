"""Functions of Pillow and torch that user code has replaced are called; native code returns when they are put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
import torch.utils.data
from bad_folders import ListOfFiles
from PIL import Image, JpegImagePlugin
from recipes import bytes_of
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

import fastload

Replace = Callable[[pytest.MonkeyPatch], None]


def _inverted(image: Image.Image) -> Image.Image:
    return image.point(lambda value: 255 - value)


def _method(name: str) -> Replace:
    """Replaces a method of images by one with other pixels."""

    def replace(patch: pytest.MonkeyPatch) -> None:
        pillows = getattr(Image.Image, name)

        @functools.wraps(pillows)
        def replacement(self: Image.Image, *args: Any, **kwargs: Any) -> Image.Image:
            return _inverted(pillows(self, *args, **kwargs))

        patch.setattr(Image.Image, name, replacement)

    return replace


def _open(patch: pytest.MonkeyPatch) -> None:
    pillows = Image.open
    patch.setattr(Image, "open", lambda *args, **kwargs: _inverted(pillows(*args, **kwargs)))


def _jpeg_opener(patch: pytest.MonkeyPatch) -> None:
    def open_black(file: Any, filename: Any = None) -> Image.Image:
        image = JpegImagePlugin.JpegImageFile(file, filename)
        return Image.new("RGB", image.size, "red")  # type: ignore[return-value]

    patch.setitem(Image.OPEN, "JPEG", (open_black, Image.OPEN["JPEG"][1]))


def _draw(owner: Any, name: str, then: Callable[[torch.Tensor], torch.Tensor]) -> Replace:
    def replace(patch: pytest.MonkeyPatch) -> None:
        torchs = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **kwargs: then(torchs(*args, **kwargs)))

    return replace


_REPLACEMENTS: dict[str, Replace] = {
    "PIL.Image.open": _open,
    "PIL.Image.Image.convert": _method("convert"),
    "PIL.Image.Image.resize": _method("resize"),
    "PIL.Image.Image.crop": _method("crop"),
    "PIL.Image.Image.transpose": _method("transpose"),
    "JPEG files are opened by": _jpeg_opener,
    "torch.rand": _draw(torch, "rand", lambda drawn: drawn / 4),
    "torch.randint": _draw(torch, "randint", lambda drawn: drawn // 2),
    "torch.randperm": _draw(torch, "randperm", lambda drawn: drawn.flip(0)),
    "torch.empty": _draw(torch, "empty", lambda made: made),
    "torch.Tensor.uniform_": _draw(torch.Tensor, "uniform_", lambda drawn: drawn.mul_(0.99)),
}


def _dataset(folder: Path) -> ImageFolder:
    steps = [
        *(T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4, 0.1)),
        *(T.RandomCrop(20), T.ToTensor()),
    ]
    return ImageFolder(str(folder), T.Compose(steps))


def _epoch(kind: type[torch.utils.data.DataLoader[Any]], dataset: ImageFolder, num_workers: int) -> Any:
    return _epoch_of(kind(dataset, batch_size=4, num_workers=num_workers))


def _epoch_of(loader: torch.utils.data.DataLoader[Any]) -> Any:
    torch.manual_seed(3)
    return bytes_of(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("name", _REPLACEMENTS)
def test_a_replaced_function_is_called_and_named(
    clean_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, num_workers: int
) -> None:
    dataset = _dataset(clean_folder)
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers)
    natively = _epoch_of(loader)
    assert loader.stats().samples_native == len(dataset)
    with monkeypatch.context() as patch:
        _REPLACEMENTS[name](patch)
        explanation = loader.explain()
        assert not explanation.startswith("native"), explanation
        assert name in explanation
        replaced = _epoch_of(loader)
        assert replaced == _epoch(torch.utils.data.DataLoader, dataset, num_workers)
        assert name == "torch.empty" or replaced != natively
    assert loader.explain().startswith("native"), loader.explain()
    before = loader.stats()
    assert _epoch_of(loader) == natively
    after = loader.stats()
    assert after.samples_native == before.samples_native + len(dataset)
    assert after.samples_python_tail == before.samples_python_tail
    loader.close()


def test_images_that_threads_open_are_changed_by_a_replaced_method(
    clean_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data set is written in Python, and its pipeline is native except for the replacement."""

    transform = T.Compose([T.Resize(24), T.CenterCrop(20), T.ToTensor()])
    dataset = ListOfFiles(ImageFolder(str(clean_folder)), transform)
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=2)
    natively = recipes.bytes_of(loader)
    for replace in (_method("resize"), _open):
        with monkeypatch.context() as patch:
            replace(patch)
            replaced = recipes.bytes_of(loader)
            expected = torch.utils.data.DataLoader(dataset, batch_size=4)
            assert replaced == recipes.bytes_of(expected)
            assert replaced != natively
        assert recipes.bytes_of(loader) == natively
    loader.close()
