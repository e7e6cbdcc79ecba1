"""The parts of a sample: its file, the image before the transforms, the transforms, and their result.

They are found by asking the data set for the sample with a transform that takes notes, and used only if the stages
together give what the data set gives. This works for torchvision's data sets, for fastload's, and for any other that
keeps its transform in an attribute of that name.
"""

from __future__ import annotations

import bisect
import copy
import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import ConcatDataset, Subset

from fastload._tools.verify._compare import Where, difference, parts_of
from fastload._tools.verify._rng_states import Generators
from fastload.transforms._nodes import taken_apart

_UNSTEADY = "the data set gives another sample each time, also from equal generators"


class SampleParts:
    """A sample taken apart: it replaces the data set's transform in one load, runs the steps singly and takes notes.

    The `steps`, in calling order, make `result`, which lies at `where` in the sample, of `image`, usually a PIL image
    from the file `path`, if the data set tells. `has_draws`: a generator was used, so that the data set may give
    another result. `num_calls` counts the images that the data set has transformed for the sample. `have_drawn` says
    whether a generator was used; it is set from outside.
    """

    image: Any = None
    where: Where = ()
    result: Any = None
    has_draws = False
    num_calls = 0
    failed_step: Any = None
    have_drawn: Callable[[], bool]

    def __init__(self, path: str | None, transform: Any) -> None:
        self.path = path
        self.steps = flatten(transform)

    def __call__(self, image: Any) -> Any:
        self.num_calls += 1
        self.image = image.copy() if hasattr(image, "copy") else image
        value = image
        for step in self.steps:
            self.failed_step = step
            value = step(value)
        self.failed_step = None
        self.has_draws = self.have_drawn()
        self.result = value
        return value


class LoadFailed(Exception):
    """The data set raised `cause` for this sample. `step` is the transform that raised it; None if none was reached."""

    def __init__(self, cause: Exception, path: str | None, step: Any) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.path = path
        self.step = step


def find_parts(dataset: Any, index: Any, generators: Generators) -> SampleParts | str:
    """Takes sample `index` of `dataset` apart, or returns a clause that says why its parts are not known.

    The data set and all generators stay as they are. Raises LoadFailed if the data set does not have the sample or
    cannot load it.
    """
    try:
        dataset, index = _innermost(dataset, index)
    except Exception as error:  # noqa: BLE001 - indices may be of any type
        raise LoadFailed(error.with_traceback(None), None, None) from None
    path = path_of(dataset, index)
    load = functools.partial(_load, index, path, generators)
    name = type(dataset).__qualname__
    if not hasattr(dataset, "transform"):
        is_repeatable = _are_equal(load(dataset), load(dataset))
        return f"{name} has no attribute `transform` to look through" if is_repeatable else _UNSTEADY
    parts = SampleParts(path, dataset.transform)
    try:
        clone = copy.copy(dataset)
        clone.transform = parts
    except Exception as error:  # noqa: BLE001 - the data set's own code decides what is raised
        return f"{name} cannot be copied: {error}"
    item = load(clone, parts)
    if not _are_equal(item, again := load(dataset)):
        is_repeatable = _are_equal(again, load(dataset))
        return f"the transforms of {name}, called one by one, do not give its sample" if is_repeatable else _UNSTEADY
    if parts.num_calls != 1 or (where := _place_of(parts.result, item)) is None:
        return f"the sample of {name} is not what its transform gave"
    parts.where = where
    return parts


def _are_equal(one: Any, other: Any) -> bool:
    return difference(one, other) is None


def _load(index: Any, path: str | None, generators: Generators, dataset: Any, parts: SampleParts | None = None) -> Any:
    """Loads the sample, always from the same states of the generators. Raises LoadFailed if the data set raises."""
    with generators.scratch() as have_drawn:
        if parts is not None:
            parts.have_drawn = have_drawn
        try:
            return dataset[index]
        except Exception as error:  # noqa: BLE001 - the data set's own code decides what is raised
            raise LoadFailed(error.with_traceback(None), path, parts and parts.failed_step) from None


def flatten(transform: Any) -> list[Any]:
    """Returns the transforms in calling order; containers, presets and classes around transforms are taken apart."""
    if transform is None:
        return []
    inner: Any
    is_sequential, is_compose = type(transform) is torch.nn.Sequential, type(transform).__name__ == "Compose"
    if is_sequential:
        inner = list(transform)
    else:
        inner = getattr(transform, "transforms", None) if is_compose else taken_apart(transform)
    if not isinstance(inner, (list, tuple)):
        return [transform]
    steps = [step for part in inner for step in flatten(part)]
    # Users know a class around a single transform by its own name.
    is_single = not (is_sequential or is_compose) and len(steps) == 1 and steps[0] is inner[0]
    return [transform] if is_single else steps


def _innermost(dataset: Any, index: Any) -> tuple[Any, Any]:
    """Returns the data set and index inside of torch's Subset and ConcatDataset."""
    while True:
        if type(dataset) is Subset:
            dataset, index = dataset.dataset, dataset.indices[index]
        elif type(dataset) is ConcatDataset:
            number = operator.index(index)
            number += len(dataset) if number < 0 else 0
            part = bisect.bisect_right(dataset.cumulative_sizes, number)
            index = number - (dataset.cumulative_sizes[part - 1] if part else 0)
            dataset = dataset.datasets[part]
        else:
            return dataset, index


def path_of(dataset: Any, index: Any) -> str | None:
    """Returns the file of a sample if `dataset.samples` holds pairs that begin with one; else None."""
    try:
        dataset, index = _innermost(dataset, index)
        path = dataset.samples[index][0]
    except Exception:  # noqa: BLE001 - other data sets keep other things under this name
        return None
    return os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else None


def _place_of(result: Any, item: Any) -> Where | None:
    if _are_equal(result, item):
        return ()
    return next(((key,) for key, part in parts_of(item) or () if _are_equal(result, part)), None)
