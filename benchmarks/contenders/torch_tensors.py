"""torch's DataLoader with torchvision's own JPEG decoder and its v2 transforms on tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks._protocol import LoaderSettings
from benchmarks._torchvision import compiled_operators_error, load_torchvision
from benchmarks.contenders._base import CROP_SIZE, MEAN, RESIZE_SIZE, STD, Batches, Contender
from benchmarks.contenders._torch_common import image_folder, open_loader


class TorchTensors(Contender):
    def unavailable_because(self) -> str | None:
        for library in ("_C.so", "image.so"):
            reason = compiled_operators_error(library)
            if reason is not None:
                return f"torchvision's {library} does not load: {reason}"
        return None

    def open(self, settings: LoaderSettings) -> Batches:
        dataset = image_folder(settings, tensor_transform(settings.mode, settings.output), loader=decode_rgb)
        return open_loader(DataLoader, dataset, settings)


def decode_rgb(path: str) -> Any:
    """Returns the file's pixels, uint8 [3, height, width]."""
    from torchvision.io import ImageReadMode, decode_image, read_file

    return decode_image(read_file(path), mode=ImageReadMode.RGB)


def tensor_transform(mode: str, output: str) -> Any:
    load_torchvision()
    from torchvision.transforms import v2

    geometry = {
        "train": [v2.RandomResizedCrop(CROP_SIZE, antialias=True), v2.RandomHorizontalFlip()],
        "eval": [v2.Resize(RESIZE_SIZE, antialias=True), v2.CenterCrop(CROP_SIZE)],
    }[mode]
    normalised = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    conversion = {
        "float32": normalised,
        "uint8": [],
        "bfloat16": [*normalised, v2.ToDtype(torch.bfloat16)],
    }[output]
    return v2.Compose([*geometry, *conversion])
