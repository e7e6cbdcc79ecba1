"""Image folders with files that cannot be loaded, and the data set that does by hand what on_error does."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from image_folders import save_jpeg
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder

import fastload


def _truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _replace_by_html(path: Path) -> None:
    path.write_bytes(b"<!DOCTYPE html><html><body>404 Not Found</body></html>")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _make_bomb(path: Path) -> None:
    """Writes a PNG with more pixels than Pillow accepts; its name says JPEG."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 40000, 40000, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b""))]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def _shrink(path: Path) -> None:
    """Writes an image too small for a crop of 64 pixels; any other transform can load it."""
    save_jpeg(path, 3, 40, 30)


SPOILS: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "truncated": _truncate,
    "HTML": _replace_by_html,
    "empty": _empty,
    "bomb": _make_bomb,
    "too small": _shrink,
}


def make_bad_folder(root: Path, num_images: int, bad: Sequence[tuple[int, str]]) -> ImageFolder:
    """Lists an ImageFolder, then spoils the files of `bad`, (index, key of SPOILS); it has no transform."""
    for number in range(num_images):
        save_jpeg(root / f"class{number % 2}" / f"{number:04}.jpg", number, 90 + number % 7, 80 + number % 5)
    folder = ImageFolder(str(root))
    for index, kind in bad:
        SPOILS[kind](Path(folder.samples[index][0]))
    return folder


class ListOfFiles(Dataset[Any]):
    """Paths and a transform, as in most programs."""

    def __init__(self, folder: ImageFolder, transform: Callable[[Any], Any]) -> None:
        self.samples = folder.samples
        self.transform = transform

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        path, label = self.samples[index]
        return self.transform(Image.open(path).convert("RGB")), label


class ByHand(Dataset[Any]):
    """A data set in which the samples that raise are replaced, as docs/faults.md tells one to write it.

    With `is_skipping` they are None instead, for `_collate_of_loaded`.
    """

    def __init__(self, dataset: Any, candidates: int | Sequence[int] | None, *, is_skipping: bool = False) -> None:
        self.dataset = dataset
        self.candidates = len(dataset) if candidates is None else candidates
        self.is_skipping = is_skipping

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except Exception:
            if self.is_skipping:
                return None
            tried = {index}
            for attempt in range(1, 17):
                choice = fastload.substitute(index, attempt, self.candidates)
                if choice in tried:
                    continue
                tried.add(choice)
                try:
                    return self.dataset[choice]
                except Exception:  # noqa: BLE001 - any error of a sample
                    continue
            raise


def loader_by_hand(dataset: Any, on_error: str, batch_size: int, **arguments: Any) -> DataLoader[Any]:
    """Returns torch's loader that replaces bad samples, or leaves them out, as fastload's does with `on_error`."""
    if on_error == "replace":
        return DataLoader(ByHand(dataset, None), batch_size, **arguments)
    return DataLoader(ByHand(dataset, None, is_skipping=True), batch_size, collate_fn=_collate_of_loaded, **arguments)


def _collate_of_loaded(samples: list[Any]) -> Any:
    return torch.utils.data.default_collate([sample for sample in samples if sample is not None])
