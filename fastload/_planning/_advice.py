"""What a user may change so that more of a loader is native: the last rows of explain()."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.collate import default_collate

from fastload._planning._verdicts import Mode
from fastload._workers._user_functions import calls_of_module
from fastload.sources._lowering import LoweredSource, is_torchvisions_folder
from fastload.transforms import _recognize
from fastload.transforms._lowering import LoweredTransform
from fastload.transforms._multi_view import MultiView


def advice(
    loader: DataLoader[Any], mode: Mode, source: LoweredSource | None, transform: LoweredTransform | None
) -> list[str]:
    """Rows of explain(), for a loader of which not everything is native."""
    if mode not in (Mode.PARTLY_NATIVE, Mode.PYTHON):
        return []
    found: list[str] = []
    if source is None:
        found += _on_dataset(loader.dataset)
        found += _on_reading(loader.dataset)
    else:
        if source.target_transform is not None:
            found.append(
                "target_transform: where it draws nothing, put what it gives into the samples of the data set instead"
            )
        found += _on_batching(loader)
    if transform is not None:
        found += _on_result(transform)
        for number, part in enumerate(transform.python_part):
            found += _on_transform(part, is_the_first=number == 0)
    return [f"{'to change':<10} {text}" for text in found]


def _on_dataset(dataset: object) -> Iterator[str]:
    is_iterable = isinstance(dataset, torch.utils.data.IterableDataset)
    if is_torchvisions_folder(dataset):
        yield "data set: without a __getitem__, samples or loader of its own it is native as its base class"
    elif not is_iterable and not _has_no_files(dataset):
        yield (
            "data set: where a sample is an image file, transformed, and a number, fastload.ImageFiles(paths, labels, "
            "transform) is native as a whole"
        )


def _has_no_files(dataset: object) -> bool:
    """Whether its samples are made of what is in memory, or it is somebody's who knows."""
    if type(dataset) in (list, tuple, dict) or type(dataset).__module__.startswith(("torch.", "fastload.")):
        return True
    return isinstance(getattr(dataset, "__dict__", {}).get("data"), (np.ndarray, torch.Tensor))


def _on_reading(dataset: object) -> Iterator[str]:
    if calls_of_module((dataset,), "cv2", "imread"):
        yield "cv2.imread: fastload.imread gives the same arrays, of JPEG files natively and without the GIL"


def _on_batching(loader: DataLoader[Any]) -> Iterator[str]:
    if loader.batch_sampler is None:
        yield "batch_size: with one, native code puts samples together; device_transform gets the finished batch"
    elif loader.collate_fn is not default_collate:
        yield (
            "collate_fn: leave it out, and do what it does to the batch in the training loop or in device_transform: "
            "native batches are [images, labels]"
        )


def _on_result(transform: LoweredTransform) -> Iterator[str]:
    if not transform.python_part and transform.form.sample == "pil":
        yield (
            "transform: end it in ToTensor or PILToTensor; native batches are tensors, and default_collate makes none "
            "of PIL images"
        )


def _on_transform(transform: Any, *, is_the_first: bool) -> Iterator[str]:
    names = _names_of_pipelines(transform)
    if names:
        views = ", ".join(f"transform.{name}" for name in names)
        yield (
            f"transform: where {_recognize.class_name(type(transform))} gives a list of views of an image and nothing "
            f"else, so does fastload.MultiView of the pipelines that make them ({views}), one for each view in its "
            "order and again for another view of the same; it is native where they are. Where it gives one view and "
            "nothing else, pass that pipeline"
        )
    elif is_the_first and _recognize.family_of(type(transform)) is None and not isinstance(transform, MultiView):
        yield (
            f"transform {_recognize.class_name(type(transform))}: where one of torchvision's does the same, take that, "
            "so that it and what follows can be native"
        )


def _names_of_pipelines(transform: Any) -> list[str]:
    """Attributes of a user's object that hold torchvision's pipelines."""
    if _recognize.family_of(type(transform)) is not None:
        return []
    found = []
    for name, value in getattr(transform, "__dict__", {}).items():
        members: Sequence[Any] = value if type(value) in (list, tuple) else (value,)
        if any(isinstance(member, _recognize.pipeline_types()) for member in members):
            found.append(f"{name}[0]" if members is value else name)
    return found
