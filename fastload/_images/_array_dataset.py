"""torchvision's data sets that hold their images in one array: CIFAR10, MNIST and classes derived from these.

Their pixels go from the array straight through native transforms, without the Python code of a sample.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Subset

from fastload._images._pipelines import PythonPart, runs_natively
from fastload._images._source import ImagePixels, SharedPixels

# Modules of torchvision, and the class in each whose __getitem__ makes the samples.
_HOMES = (("torchvision.datasets.cifar", "CIFAR10"), ("torchvision.datasets.mnist", "MNIST"))
_ATTRIBUTES = frozenset({"data", "targets", "transform", "target_transform"})

_ToTensor = Callable[["ImagePixels | SharedPixels"], "torch.Tensor | None"]


def innermost(dataset: Any) -> Any:
    """Returns the data set inside torch's own Subsets, which may be nested."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return dataset


def holds_array(dataset: Any) -> bool:
    """Returns whether torchvision makes the samples, from attributes of the object; looks inside Subsets."""
    held = innermost(dataset)
    kind: Any = type(held)
    return (
        any(_is_torchvisions(getattr(kind, "__getitem__", None), *home) for home in _HOMES)
        and kind.__getattribute__ is object.__getattribute__
        and not any(hasattr(kind, name) for name in ("__getattr__", "__getitems__", *_ATTRIBUTES))
        and vars(held).keys() >= _ATTRIBUTES
    )


def _is_torchvisions(method: Any, module_name: str, class_name: str) -> bool:
    """Returns whether it is the __getitem__ of this torchvision class, and not a replacement."""
    module = sys.modules.get(module_name)
    made_by = vars(getattr(module, class_name, object)).get("__getitem__")
    return made_by is not None and method is made_by and made_by.__globals__ is vars(module)


class ArrayDataset:
    """A data set of this kind, or torch's Subsets of one, in one thread."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._held = innermost(dataset)
        self._transform: Any = None
        self._part = PythonPart(())

    def natively(self) -> Any:
        """Returns an object with the same samples as the data set, valid until something about the data set changes.

        That is the data set itself if Python has to make the samples.
        """
        samples = self._native_samples() if runs_natively() else None
        return self._dataset if samples is None else samples

    def is_native(self) -> bool:
        """Returns whether natively() is native, in threads that leave images to native code."""
        return self._native_samples() is not None

    def _native_samples(self) -> _ArraySamples | None:
        held = self._held
        images, targets = _images_of(held.data), _targets_of(held.targets)
        if images is None or targets is None or not holds_array(held):
            return None
        if held.transform is not self._transform:
            self._transform, self._part = held.transform, PythonPart((held.transform,))
        to_tensor = self._part.tensor_maker("L" if images.ndim == 3 else "RGB")
        if to_tensor is None:
            return None
        return _ArraySamples(self._dataset, images, targets, to_tensor, held.target_transform)


@dataclass(frozen=True, eq=False)
class _ArraySamples:
    """Samples by index; `dataset` makes those that native code cannot.

    `images` are MNIST's uint8 [number, height, width] or CIFAR10's [number, height, width, 3], and `targets` an array
    of integers or any list.
    """

    dataset: Any
    images: NDArray[np.uint8]
    targets: NDArray[np.int64] | list[Any]
    to_tensor: _ToTensor
    target_transform: Any

    def __getitem__(self, index: Any) -> Any:
        number = self._number(index)
        tensor = None if number is None else self.to_tensor(_source_of(self.images[number]))
        if tensor is None:
            return self.dataset[index]
        target = self.targets[number]
        if type(self.targets) is not list:
            target = int(target)
        return tensor, target if self.target_transform is None else self.target_transform(target)

    def _number(self, index: Any) -> Any:
        """Returns the number of the image in the array; None if the data set has to handle the index."""
        dataset = self.dataset
        while type(dataset) is Subset:
            indices: Sequence[int] = dataset.indices
            if not _is_number(index, len(indices)):
                return None
            index, dataset = indices[index], dataset.dataset
        return index if _is_number(index, min(len(self.images), len(self.targets))) else None


def _is_number(index: Any, length: int) -> bool:
    return isinstance(index, (int, np.integer)) and type(index) is not bool and 0 <= int(index) < length


def _source_of(pixels: NDArray[np.uint8]) -> ImagePixels | SharedPixels:
    if pixels.ndim == 2:
        return SharedPixels(pixels)
    height, width, _ = pixels.shape
    return ImagePixels(pixels.tobytes(), (width, height))


def _images_of(data: Any) -> NDArray[np.uint8] | None:
    """Returns MNIST's tensor or CIFAR10's array as an array; None if it is neither.

    CIFAR10 reorders the channels of its files, so its images are not contiguous; they are copied anyway.
    """
    if type(data) is torch.Tensor and data.dtype == torch.uint8 and data.dim() == 3 and data.device.type == "cpu":
        images = data.numpy()
        if not images.flags.c_contiguous:
            return None
    elif type(data) is np.ndarray and data.dtype == np.uint8 and data.ndim == 4 and data.shape[3] == 3:
        images = data
    else:
        return None
    return images if images.size else None


def _targets_of(targets: Any) -> NDArray[np.int64] | list[Any] | None:
    """Returns MNIST's tensor of integers as an array, or CIFAR10's list."""
    if type(targets) is torch.Tensor and targets.dtype == torch.int64 and targets.dim() == 1:
        return targets.numpy() if targets.device.type == "cpu" else None
    return targets if type(targets) is list else None
