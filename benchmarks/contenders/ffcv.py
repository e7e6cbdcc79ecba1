"""FFCV, from a copy of the data in its own format that holds the files' own bytes: all of them must be JPEG.

The copy is made once per data folder and is not timed. FFCV's own writer would decode and encode every image again (at
quality 90), which would be other work. Images come as FFCV gives them: NCHW in channels_last strides, in memory that is
overwritten some batches later; a contiguous batch of your own would cost it two more copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from benchmarks._protocol import LoaderSettings
from benchmarks.contenders._base import CROP_SIZE, MEAN, RESIZE_SIZE, STD, Batches, Contender, list_samples

_PAGE_BYTES = 1 << 25


class Ffcv(Contender):
    write_mode: ClassVar[Literal["jpg", "raw"]] = "jpg"
    packages = ("torch", "numpy", "numba", "ffcv")

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
            str(converted(settings, self.write_mode)),
            batch_size=settings.batch_size,
            num_workers=max(1, settings.workers),
            order=OrderOption.RANDOM if is_training else OrderOption.SEQUENTIAL,
            os_cache=True,
            drop_last=False,
            batches_ahead=settings.prefetch_factor,
            seed=settings.seed,
            pipelines={
                "image": image_pipeline(is_training, settings.output),
                "label": [IntDecoder(), ToTensor(), Squeeze(1)],
            },
        )
        return loader

    def options(self, loader: Any) -> dict[str, Any]:
        return {
            "num_workers": loader.num_workers,
            "batches_ahead": loader.batches_ahead,
            "os_cache": True,
            "write_mode": self.write_mode,
            "layout": "channels_last",
            "torch_threads": torch.get_num_threads(),
        }


def image_pipeline(is_training: bool, output: str) -> list[Any]:
    import numpy as np
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.transforms import Convert, NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage

    size = (CROP_SIZE, CROP_SIZE)
    if is_training:
        geometry = [RandomResizedCropRGBImageDecoder(size), RandomHorizontalFlip()]
    else:
        geometry = [CenterCropRGBImageDecoder(size, ratio=CROP_SIZE / RESIZE_SIZE)]
    mean, std = (255 * np.array(values, dtype=np.float32) for values in (MEAN, STD))
    normalisation = [] if output == "uint8" else [NormalizeImage(mean, std, np.float32)]
    # FFCV has no bfloat16.
    conversion = [Convert(torch.bfloat16)] if output == "bfloat16" else []
    return [*geometry, *normalisation, ToTensor(), ToTorchImage(), *conversion]


def converted(settings: LoaderSettings, write_mode: Literal["jpg", "raw"]) -> Path:
    """Returns the round's files in FFCV's format, written if they do not exist: their own bytes, or their pixels."""
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter

    samples = list_samples(settings)
    path = Path(settings.cache) / f"ffcv-{write_mode}-{_digest(samples)}.beton"
    if not path.exists():
        dataset = _JpegFiles(samples) if write_mode == "jpg" else _Pixels(samples)
        images = RGBImageField(write_mode=write_mode)
        if write_mode == "jpg":
            images.encode = _store_jpeg
        fresh = path.with_suffix(".new")
        writer = DatasetWriter(str(fresh), {"image": images, "label": IntField()}, page_size=_PAGE_BYTES, num_workers=1)
        writer.from_indexed_dataset(dataset)
        fresh.rename(path)
    return path


def _digest(samples: Sequence[tuple[str, int]]) -> str:
    """Returns a digest of the samples and of their files."""
    status = [(path, label, (found := Path(path).stat()).st_size, found.st_mtime_ns) for path, label in samples]
    return hashlib.sha256(repr(status).encode()).hexdigest()[:16]


class _JpegFiles:
    """((bytes, width, height), label) of each file; sizes are read first, as an error would hang FFCV's writer."""

    def __init__(self, samples: Sequence[tuple[str, int]]) -> None:
        self._samples = samples
        self._sizes = [_jpeg_size(path) for path, _ in samples]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import numpy as np

        path, label = self._samples[index]
        return (np.fromfile(path, dtype=np.uint8), *self._sizes[index]), label


class _Pixels:
    """(RGB pixels [height, width, 3], label) of each file."""

    def __init__(self, samples: Sequence[tuple[str, int]]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import numpy as np
        from PIL import Image

        path, label = self._samples[index]
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB")), label


def _jpeg_size(path: str) -> tuple[int, int]:
    from PIL import Image

    with Image.open(path) as image:
        if image.format != "JPEG":
            raise ValueError(f"FFCV keeps the bytes of JPEG files only, got {image.format} in {path}")
        return image.width, image.height


def _store_jpeg(destination: Any, image: tuple[Any, int, int], malloc: Callable[[int], tuple[int, Any]]) -> None:
    """Stores a JPEG as RGBImageField.encode does in mode "jpg", but without the encoding."""
    from ffcv.fields.rgb_image import IMAGE_MODES

    contents, destination["width"], destination["height"] = image
    destination["mode"] = IMAGE_MODES["jpg"]
    destination["data_ptr"], storage = malloc(contents.nbytes)
    storage[:] = contents
