"""Changes by which a user makes more of a loader native: the last rows of explain()."""

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
    """Returns rows of explain() for a loader that is not entirely native."""
    found = () if mode is Mode.NATIVE else _changes(loader, source, transform)
    return [f"{'to change':<10} {text}" for text in found]


def _changes(
    loader: DataLoader[Any], source: LoweredSource | None, transform: LoweredTransform | None
) -> Iterator[str]:
    if source is None:
        yield from _on_dataset(loader.dataset)
    else:
        if source.target_transform is not None:
            yield "target_transform: if it draws nothing, put its results into the samples of the data set instead"
        yield from _on_batching(loader)
    if transform is None:
        return
    if not transform.python_part and transform.form.sample == "pil":
        yield (
            "transform: end it with ToTensor or PILToTensor; native batches are tensors, and default_collate does not "
            "accept PIL images"
        )
    for number, part in enumerate(transform.python_part):
        yield from _on_transform(part, is_the_first=number == 0)


def _on_dataset(dataset: object) -> Iterator[str]:
    is_iterable = isinstance(dataset, torch.utils.data.IterableDataset)
    if is_torchvisions_folder(dataset):
        yield "data set: without a __getitem__, samples or loader of its own it is native like its base class"
    elif not is_iterable and not _has_no_files(dataset):
        yield (
            "data set: if a sample is a transformed image file and a number, fastload.ImageFiles(paths, labels, "
            "transform) is entirely native"
        )
    if calls_of_module((dataset,), "cv2", "imread"):
        yield "cv2.imread: fastload.imread returns the same arrays, and decodes JPEG files natively, without the GIL"


def _has_no_files(dataset: object) -> bool:
    """Returns whether the samples come from memory, or the class belongs to torch or fastload."""
    if type(dataset) in (list, tuple, dict) or type(dataset).__module__.startswith(("torch.", "fastload.")):
        return True
    return isinstance(getattr(dataset, "__dict__", {}).get("data"), (np.ndarray, torch.Tensor))


def _on_batching(loader: DataLoader[Any]) -> Iterator[str]:
    if loader.batch_sampler is None:
        yield "batch_size: with one, native code builds the batches; device_transform gets the finished batch"
    elif loader.collate_fn is not default_collate:
        yield (
            "collate_fn: leave it out, and do its work on the batch in the training loop or in device_transform: "
            "native batches are [images, labels]"
        )


def _on_transform(transform: Any, *, is_the_first: bool) -> Iterator[str]:
    names = _names_of_pipelines(transform)
    if names:
        views = ", ".join(f"transform.{name}" for name in names)
        yield (
            f"transform: if {_recognize.class_name(type(transform))} returns just a list of views of an image, "
            f"fastload.MultiView of the pipelines that make them ({views}) does the same, with one pipeline for each "
            "view, in order; it is native if they are. If it returns just one view, pass that pipeline"
        )
    elif is_the_first and _recognize.family_of(type(transform)) is None and not isinstance(transform, MultiView):
        yield (
            f"transform {_recognize.class_name(type(transform))}: if a torchvision transform does the same, use that, "
            "so that it and the steps after it can be native"
        )


def _names_of_pipelines(transform: Any) -> list[str]:
    """Returns the names of attributes of a user's object that hold torchvision's pipelines."""
    if _recognize.family_of(type(transform)) is not None:
        return []
    found = []
    for name, value in getattr(transform, "__dict__", {}).items():
        members: Sequence[Any] = value if type(value) in (list, tuple) else (value,)
        if any(isinstance(member, _recognize.pipeline_types()) for member in members):
            found.append(f"{name}[0]" if members is value else name)
    return found
