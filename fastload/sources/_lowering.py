"""From a data set object to a path table, where every sample is exactly "decode a file, transform it, pair with label".

torchvision is looked up among the loaded modules and never imported: a data set of its types brings it along.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Subset

from fastload.sources._image_folder import ImageFolder
from fastload.sources._path_dataset import ImageFiles, PathDataset
from fastload.sources._path_table import PathTable

_NATIVE = "torchvision.datasets.ImageFolder, fastload.ImageFolder, fastload.ImageFiles and torch Subsets of these"


@dataclass(frozen=True)
class NotLowered:
    """Why a data set is loaded in Python, as a sentence without a full stop."""

    reason: str


class _NotLoweredError(Exception):
    """Carries the reason from where it is found to `lower_dataset`."""


@dataclass(frozen=True, eq=False)
class LoweredSource:
    """A data set as arrays.

    Attributes:
        table: Names and labels of the files.
        index_map: int64, file of each sample (0 <= file < len(table)), or None where sample i is file i.
        transform: The data set's transform object, called with a PIL RGB image; None: none.
    """

    table: PathTable
    index_map: NDArray[np.int64] | None
    transform: Any
    _checks: tuple[Callable[[], bool], ...]

    def __len__(self) -> int:
        return len(self.table if self.index_map is None else self.index_map)

    def is_current(self) -> bool:
        """Whether the data set still is what was lowered; else lower it again.

        Compares with a shallow copy of the data set's own lists: exact, and about 10 ns a sample. What happens inside
        the transform object is not seen here; lower the transform again at each epoch.
        """
        return all(check() for check in self._checks)

    def num_valid(self, indices: NDArray[np.int64]) -> int:
        """How many of `indices`, from the first one on, `files` takes."""
        outside = (indices < -len(self)) | (indices >= len(self))
        return int(outside.argmax()) if outside.any() else len(indices)

    def files(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """File of each data set index; negative indices count from the end, as in the data set's list.

        Raises:
            IndexError: An index is out of range, with the text that the data set raises it with.
        """
        length = len(self)
        wrapped = np.where(indices < 0, indices + length, indices)
        outside = (wrapped < 0) | (wrapped >= length)
        if outside.any():
            culprit = int(indices[int(outside.argmax())])
            raise IndexError(f"list index out of range: {culprit} with {length} samples")
        return wrapped if self.index_map is None else self.index_map[wrapped]


def lower_dataset(dataset: object) -> LoweredSource | NotLowered:
    """Lower `dataset` if its type is exactly one known and nothing about it was overridden.

    Takes about a microsecond per sample; nothing of the data set is called, except ``torch.Tensor.numpy`` and the like
    on a Subset's indices.
    """
    try:
        return _lower(dataset)
    except _NotLoweredError as error:
        return NotLowered(str(error))
    except RecursionError:
        return NotLowered("the data set is a Subset of itself")


def _lower(dataset: object) -> LoweredSource:
    kind = type(dataset)
    if isinstance(dataset, Subset) and kind is Subset:
        return _lower_subset(dataset)
    if isinstance(dataset, (ImageFolder, ImageFiles)) and kind in (ImageFolder, ImageFiles):
        return _lower_own(dataset)
    folder_module = sys.modules.get("torchvision.datasets.folder")
    if folder_module is not None and kind is getattr(folder_module, "ImageFolder", None):
        return _lower_torchvision(dataset, folder_module)
    raise _NotLoweredError(f"the data set is {_class_name(kind)} (native: exactly {_NATIVE})")


def _lower_own(dataset: PathDataset) -> LoweredSource:
    _refuse_overrides(dataset)
    if dataset.target_transform is not None:
        raise _NotLoweredError(f"{_class_name(type(dataset))} has a target_transform, which runs in Python")
    table, transform = dataset.path_table, dataset.transform

    def is_same() -> bool:
        return (
            dataset.path_table is table
            and dataset.transform is transform
            and dataset.target_transform is None
            and not _overrides(dataset)
        )

    return LoweredSource(table, None, transform, (is_same,))


def _lower_torchvision(dataset: Any, folder_module: ModuleType) -> LoweredSource:
    _check_torchvision(dataset, folder_module)
    samples, transform = dataset.samples, dataset.transform
    if type(samples) is not list:
        raise _NotLoweredError(f"ImageFolder.samples is {_class_name(type(samples))}, not a list")
    snapshot = samples.copy()
    table = _table_of(snapshot)

    def is_same() -> bool:
        if dataset.transform is not transform or type(dataset.samples) is not list or dataset.samples != snapshot:
            return False
        try:
            _check_torchvision(dataset, folder_module)
        except _NotLoweredError:
            return False
        return True

    return LoweredSource(table, None, transform, (is_same,))


def _check_torchvision(dataset: Any, folder_module: ModuleType) -> None:
    """Refuse an ImageFolder that would do anything else than pil_loader, transform and label."""
    _refuse_overrides(dataset)
    if dataset.target_transform is not None:
        raise _NotLoweredError("ImageFolder has a target_transform, which runs in Python")
    if dataset.loader is not folder_module.default_loader:
        raise _NotLoweredError("ImageFolder has a loader of its own, which runs in Python")
    own = [getattr(folder_module.ImageFolder, name) for name in ("__getitem__", "__len__")]
    own += [folder_module.default_loader, folder_module.pil_loader]
    for function in own:
        if getattr(function, "__globals__", None) is not vars(folder_module):
            raise _NotLoweredError(f"torchvision's {getattr(function, '__name__', function)} was replaced")
    backend = sys.modules["torchvision"].get_image_backend()
    if backend != "PIL":
        raise _NotLoweredError(f"torchvision's image backend is {backend}, not PIL")


def _table_of(samples: list[Any]) -> PathTable:
    """The table of torchvision's samples. Only immutable pairs: a changed element would escape the snapshot."""
    for sample_type in set(map(type, samples)):
        if sample_type is not tuple:
            raise _NotLoweredError(f"ImageFolder.samples holds {_class_name(sample_type)}, not only tuples")
    if set(map(len, samples)) - {2}:
        raise _NotLoweredError("ImageFolder.samples holds tuples that are not pairs of path and label")
    for position, allowed in enumerate((str, int)):
        for found in {type(sample[position]) for sample in samples} - {allowed}:
            raise _NotLoweredError(
                f"ImageFolder.samples holds a {_class_name(found)} where {allowed.__name__} is expected"
            )
    try:
        return PathTable.from_samples(samples)
    except (ValueError, OverflowError) as error:
        raise _NotLoweredError(f"ImageFolder.samples cannot be indexed: {error}") from error


def _lower_subset(subset: Subset[Any]) -> LoweredSource:
    _refuse_overrides(subset)
    inner_dataset, indices = subset.dataset, subset.indices
    inner = _lower(inner_dataset)
    snapshot = _copy_indices(indices)
    try:
        index_map = inner.files(_as_int64(snapshot))
    except IndexError as error:
        raise _NotLoweredError(f"Subset.indices: {error}") from error
    index_map.flags.writeable = False

    def is_same() -> bool:
        return (
            subset.dataset is inner_dataset
            and type(subset.indices) is type(snapshot)
            and _equal_indices(subset.indices, snapshot)
            and not _overrides(subset)
        )

    return LoweredSource(inner.table, index_map, inner.transform, (is_same, *inner._checks))


def _copy_indices(indices: Any) -> Any:
    if type(indices) in (tuple, range):
        return indices
    if type(indices) is torch.Tensor:
        return indices.clone()
    if type(indices) in (list, np.ndarray):
        return indices.copy()
    raise _NotLoweredError(
        f"Subset.indices is {_class_name(type(indices))} (native: list, tuple, range, array, tensor)"
    )


def _as_int64(indices: Any) -> NDArray[np.int64]:
    if isinstance(indices, range):
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    if isinstance(indices, torch.Tensor):
        indices = indices.numpy(force=True)
    if isinstance(indices, np.ndarray):
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise _NotLoweredError(f"Subset.indices is {indices.dtype} of shape {indices.shape}, not a list of ints")
        return indices.astype(np.int64)
    for found in set(map(type, indices)):
        if found is not int and not issubclass(found, np.integer):
            raise _NotLoweredError(f"Subset.indices holds a {_class_name(found)}, not only ints")
    try:
        return np.fromiter(indices, dtype=np.int64, count=len(indices))
    except OverflowError as error:
        raise _NotLoweredError("Subset.indices holds an int of more than 64 bits") from error


def _equal_indices(current: Any, snapshot: Any) -> bool:
    if isinstance(snapshot, torch.Tensor):
        return torch.equal(current, snapshot)
    if isinstance(snapshot, np.ndarray):
        return np.array_equal(current, snapshot)
    return bool(current == snapshot)


def _overrides(dataset: object) -> set[str]:
    """Attributes of the object itself that hide what its class does."""
    return vars(dataset).keys() & {"__getitem__", "__getitems__", "__len__"}


def _refuse_overrides(dataset: object) -> None:
    if names := _overrides(dataset):
        raise _NotLoweredError(f"{sorted(names)[0]} was overridden on this {_class_name(type(dataset))} object")
    if type(dataset) is not Subset and hasattr(type(dataset), "__getitems__"):
        raise _NotLoweredError(f"{_class_name(type(dataset))} was given a __getitems__")


def _class_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
