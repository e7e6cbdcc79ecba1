"""NVIDIA DALI on the CPU: it has its own decoder, resize and random numbers, so its pixels are only near the
reference's.

These settings took least CPU time with DALI 2.4: the dynamic executor (a sixth less than the default one) and one
operator for resize, crop and flip (a fifth less in evaluation). Queues of 3, the fast IDCT and fn.random_resized_crop
gained nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks._protocol import LoaderSettings
from benchmarks.contenders._base import CROP_SIZE, MEAN, RESIZE_SIZE, STD, Batches, Contender, list_samples

PIPELINE_OPTIONS = {"exec_dynamic": True}


class Dali(Contender):
    runs_ahead_between_epochs = True
    packages = ("torch", "numpy", "nvidia-dali-cuda120", "nvidia-dali-cuda130")

    def unavailable_because(self) -> str | None:
        try:
            import nvidia.dali.plugin.pytorch  # noqa: F401
        except (ImportError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return None

    def open(self, settings: LoaderSettings) -> Batches:
        return DaliLoader(settings)

    def options(self, loader: Any) -> dict[str, Any]:
        return {
            "num_threads": loader.num_threads,
            "prefetch_queue_depth": loader.prefetch_queue_depth,
            **PIPELINE_OPTIONS,
            "resize": "fn.resize_crop_mirror, linear, antialias",
        }


class DaliLoader:
    """A DALI pipeline as an iterable of (images, labels), one epoch per iteration."""

    def __init__(self, settings: LoaderSettings) -> None:
        from nvidia.dali.plugin.base_iterator import LastBatchPolicy
        from nvidia.dali.plugin.pytorch import DALIGenericIterator

        self.num_threads = max(1, settings.workers)
        self.prefetch_queue_depth = settings.prefetch_factor
        # DALI has no bfloat16.
        self._dtype = {"float32": torch.float32, "uint8": torch.uint8, "bfloat16": torch.bfloat16}[settings.output]
        self._batches = DALIGenericIterator(
            build_pipeline(settings, self.num_threads),
            ["images", "labels"],
            reader_name="reader",
            last_batch_policy=LastBatchPolicy.PARTIAL,
            auto_reset=True,
        )

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for (batch,) in self._batches:
            yield batch["images"].to(self._dtype), batch["labels"].squeeze(1)


def build_pipeline(settings: LoaderSettings, threads: int) -> Any:
    from nvidia.dali import fn, pipeline_def, types

    paths, labels = zip(*list_samples(settings), strict=True)
    is_training = settings.mode == "train"
    resizing = {"crop": (CROP_SIZE, CROP_SIZE), "interp_type": types.INTERP_LINEAR, "antialias": True}
    normalisation = {"mean": [255 * value for value in MEAN], "std": [255 * value for value in STD]}
    conversion = {"dtype": types.UINT8} if settings.output == "uint8" else normalisation

    @pipeline_def(  # type: ignore[untyped-decorator, unused-ignore]
        batch_size=settings.batch_size,
        num_threads=threads,
        device_id=None,
        seed=settings.seed,
        prefetch_queue_depth=settings.prefetch_factor,
        **PIPELINE_OPTIONS,
    )
    def pipeline() -> tuple[Any, Any]:
        jpegs, numbers = fn.readers.file(
            files=list(paths), labels=list(labels), random_shuffle=is_training, pad_last_batch=True, name="reader"
        )
        if is_training:
            images = fn.decoders.image_random_crop(jpegs, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
            mirror = fn.random.coin_flip(probability=0.5)
            images = fn.resize_crop_mirror(images, size=[CROP_SIZE, CROP_SIZE], mirror=mirror, **resizing)
        else:
            images = fn.decoders.image(jpegs)
            # Rounding puts most of torchvision's centres where truncation does, half a pixel up or left.
            images = fn.resize_crop_mirror(images, resize_shorter=RESIZE_SIZE, rounding="truncate", **resizing)
        return fn.crop_mirror_normalize(images, output_layout="CHW", **conversion), numbers

    return pipeline()
