"""FFCV, from a copy of the data in its own format: JPEG bytes kept, so that decoding is part of what is measured.

The conversion happens once per data folder and is not timed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from benchmarks._protocol import LoaderSettings
from benchmarks.contenders._base import CROP_SIZE, MEAN, RESIZE_SIZE, STD, Batches, Contender, list_samples


class Ffcv(Contender):
    packages = ("torch", "numpy", "ffcv")

    def unavailable_because(self) -> str | None:
        try:
            import ffcv  # noqa: F401
        except (ImportError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def open(self, settings: LoaderSettings) -> Batches:
        from ffcv.fields.basics import IntDecoder
        from ffcv.loader import Loader, OrderOption
        from ffcv.transforms import Squeeze, ToTensor

        is_training = settings.mode == "train"
        loader: Batches = Loader(
            str(converted(settings)),
            batch_size=settings.batch_size,
            num_workers=max(1, settings.workers),
            order=OrderOption.RANDOM if is_training else OrderOption.SEQUENTIAL,
            os_cache=True,
            batches_ahead=settings.prefetch_factor,
            seed=settings.seed,
            pipelines={"image": image_pipeline(is_training), "label": [IntDecoder(), ToTensor(), Squeeze()]},
        )
        return loader


def image_pipeline(is_training: bool) -> list[Any]:
    import numpy as np
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage

    size = (CROP_SIZE, CROP_SIZE)
    if is_training:
        geometry = [RandomResizedCropRGBImageDecoder(size), RandomHorizontalFlip()]
    else:
        geometry = [CenterCropRGBImageDecoder(size, ratio=CROP_SIZE / RESIZE_SIZE)]
    mean, std = (255 * np.array(values, dtype=np.float32) for values in (MEAN, STD))
    return [*geometry, NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage()]


def converted(settings: LoaderSettings) -> Path:
    """The round's images in FFCV's format, written when they are not there yet."""
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    samples = list_samples(settings)
    path = Path(settings.cache) / f"ffcv-{hashlib.sha256(repr(samples).encode()).hexdigest()[:16]}.beton"
    if not path.exists():
        fresh = path.with_suffix(".new")
        writer = DatasetWriter(str(fresh), {"image": RGBImageField(write_mode="jpg"), "label": IntField()})
        writer.from_indexed_dataset(_PilSamples(samples))
        fresh.rename(path)
    return path


class _PilSamples:
    def __init__(self, samples: list[tuple[str, int]]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        from PIL import Image

        path, label = self._samples[index]
        return Image.open(path).convert("RGB"), label
