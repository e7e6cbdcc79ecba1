"""Lowers a data set object to a table of files in which every sample is exactly "decode a file, transform it, pair with
label".

torchvision is looked up among the loaded modules and never imported: a data set of its types has loaded it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset

from fastload._pillow._decode_image import pil_loader
from fastload._pillow._originals import replaced_opening
from fastload._pillow._pillow import open_rgb
from fastload._process._interrupts import equal_arrays
from fastload.sources._image_folder import ImageFolder
from fastload.sources._path_dataset import ImageFiles, PathDataset
from fastload.sources._sample_table import JoinedTable, ListedTable, PathTable, SampleTable

_NATIVE = (
    "torchvision.datasets.ImageFolder and DatasetFolder, also with your own methods that do not make samples, "
    "fastload.ImageFolder, fastload.ImageFiles, and torch's Subset and ConcatDataset of these"
)
# Members that a class derived from torchvision's must not define: those that make a sample, and those that could hide
# the attributes used for it.
_MAKE_SAMPLES = frozenset(
    {
        *("__getitem__", "__getitems__", "__iter__", "__len__", "__getattr__", "__getattribute__"),
        *("loader", "samples", "target_transform", "transform"),
    }
)


class NotLoweredError(Exception):
    """Tells why a data set is loaded in Python, as a sentence without a full stop."""


@dataclass(frozen=True, eq=False)
class LoweredSource:
    """A data set as a table and arrays.

    Attributes:
        table: Names and labels of the files.
        index_map: int64, file of each sample (0 <= file < len(table)), or None if sample i is file i.
        transforms: The transform objects of its parts, each once, called with a PIL RGB image; None: none. There is
            more than one only for a ConcatDataset; the source then has a transform only if all of them do the same.
        target_transform: Called with the label, a Python int, after the transform; None: none.
        is_concatenation: Whether the data set is a ConcatDataset, which has its own error for a negative index.
        finds_all_first: Whether a bad index keeps every sample of its batch from being loaded: a Subset of a Subset
            looks up all indices before the first sample, other data sets one after another.
    """

    table: SampleTable
    index_map: NDArray[np.int64] | None
    transforms: tuple[Any, ...]
    target_transform: Any
    _checks: tuple[Callable[[], bool], ...]
    is_concatenation: bool = False
    finds_all_first: bool = False

    def __len__(self) -> int:
        return len(self.table if self.index_map is None else self.index_map)

    def without_code(self) -> LoweredSource:
        """Returns the source without the user's objects."""
        return replace(self, transforms=(), target_transform=None, _checks=())

    def is_current(self) -> bool:
        """Returns whether the data set still is what was lowered; if not, lower it again.

        Compares with a shallow copy of the data set's own lists: exact, and about a nanosecond per sample. Changes
        inside the transform object are not noticed here; lower the transform again at each epoch.
        """
        return all(check() for check in self._checks)

    def num_valid(self, indices: NDArray[np.int64]) -> int:
        """Returns how many of `indices`, from the first one on, `files` accepts."""
        outside = (indices < -len(self)) | (indices >= len(self))
        return int(outside.argmax()) if outside.any() else len(indices)

    def files(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the file of each data set index; negative indices count from the end, as in the data set's list.

        Raises:
            IndexError, ValueError: An index is out of range, with the type and text of the data set's own.
        """
        if len(indices) and (indices.min() < 0 or indices.max() >= len(self)):  # seldom
            if (num_valid := self.num_valid(indices)) < len(indices):
                raise self._out_of_range(int(indices[num_valid]))
            indices = np.where(indices < 0, indices + len(self), indices)
        return indices if self.index_map is None else self.index_map[indices]

    def file(self, index: int) -> int:
        """Returns the file of one index."""
        length = len(self)
        position = index + length if index < 0 else index
        if not 0 <= position < length:
            raise self._out_of_range(index)
        return position if self.index_map is None else int(self.index_map[position])

    def _out_of_range(self, index: int) -> Exception:
        if self.is_concatenation and index < 0:
            return ValueError("absolute value of index should not exceed dataset length")
        return IndexError(f"list index out of range: {index} with {len(self)} samples")


class FilePaths(Sequence[bytes]):
    """The paths of a data set's files, each once, made when they are asked for."""

    def __init__(self, source: LoweredSource) -> None:
        self._table = source.table
        self._files = range(len(source.table)) if source.index_map is None else np.unique(source.index_map)

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self._table.path_bytes(int(file)) for file in self._files[index]]
        return self._table.path_bytes(int(self._files[index]))


def lower_dataset(dataset: object) -> LoweredSource:
    """Lowers `dataset` if its type is exactly one known and nothing about it was overridden, or raises NotLoweredError.

    Looks at each of torchvision's samples once, which takes some nanoseconds, without making any. Calls no code of the
    data set except ``torch.Tensor.numpy`` and the like on a Subset's indices.
    """
    try:
        return _lower(dataset)
    except RecursionError:
        raise NotLoweredError("the data set is a part of itself") from None


def _lower(dataset: object) -> LoweredSource:
    kind = type(dataset)
    if isinstance(dataset, Subset) and kind is Subset:
        return _lower_subset(dataset)
    if isinstance(dataset, ConcatDataset) and kind is ConcatDataset:
        return _lower_concatenation(dataset)
    if isinstance(dataset, (ImageFolder, ImageFiles)) and kind in (ImageFolder, ImageFiles):
        return _lower_own(dataset)
    if is_torchvisions_folder(dataset):
        return _lower_torchvision(dataset, sys.modules["torchvision.datasets.folder"])
    raise NotLoweredError(f"the data set is {_class_name(kind)} (native: {_NATIVE})")


def is_torchvisions_folder(dataset: object) -> bool:
    """Returns whether it is a torchvision DatasetFolder, or of a class derived from that."""
    folder_module = sys.modules.get("torchvision.datasets.folder")
    return folder_module is not None and isinstance(dataset, folder_module.DatasetFolder)


def _unchanged(dataset: object, names: Sequence[str], check: Callable[[], None]) -> Callable[[], bool]:
    """Returns a function: does `check` still raise nothing, and are these attributes the same objects?"""
    values = [getattr(dataset, name) for name in names]

    def is_same() -> bool:
        try:
            check()
        except NotLoweredError:
            return False
        return all(getattr(dataset, name) is value for name, value in zip(names, values, strict=True))

    return is_same


def _lower_own(dataset: PathDataset) -> LoweredSource:
    def check() -> None:
        _refuse_overrides(dataset)
        if dataset.loader is not open_rgb and dataset.loader is not pil_loader:
            raise NotLoweredError(f"{type(dataset).__name__} has its own loader, which runs in Python")
        if dataset.loader is open_rgb:
            _refuse_replaced_opening()

    check()
    is_same = _unchanged(dataset, ("path_table", "transform", "target_transform", "loader"), check)
    return LoweredSource(dataset.path_table, None, (dataset.transform,), dataset.target_transform, (is_same,))


def _lower_torchvision(dataset: Any, folder_module: ModuleType) -> LoweredSource:
    def check() -> None:
        _check_torchvision(dataset, folder_module)

    check()
    samples = dataset.samples
    if type(samples) is not list:
        raise NotLoweredError(f"{type(dataset).__name__}.samples is {_class_name(type(samples))}, not a list")
    snapshot = samples.copy()
    table = _table_of(snapshot, type(dataset).__name__)
    checks = (
        _unchanged(dataset, ("transform", "target_transform"), check),
        lambda: type(dataset.samples) is list and dataset.samples == snapshot,
    )
    return LoweredSource(table, None, (dataset.transform,), dataset.target_transform, checks)


def _check_torchvision(dataset: Any, folder_module: ModuleType) -> None:
    """Refuses a folder that does anything but pil_loader, transform and label."""
    _refuse_overrides(dataset)
    _refuse_own_samples(type(dataset), folder_module)
    kind, loader = type(dataset), dataset.loader
    own = [kind.__getitem__, *([] if _counts_samples(kind.__len__) else [kind.__len__])]
    if loader is not pil_loader:
        if loader is not folder_module.default_loader and loader is not folder_module.pil_loader:
            raise NotLoweredError(f"{kind.__name__} has its own loader, which runs in Python")
        own += [folder_module.default_loader, folder_module.pil_loader]
        _refuse_replaced_opening()
    for function in own:
        if getattr(function, "__globals__", None) is not vars(folder_module):
            raise NotLoweredError(f"torchvision's {getattr(function, '__name__', function)} was replaced")
    backend = sys.modules["torchvision"].get_image_backend()
    if loader is folder_module.default_loader and backend != "PIL":
        raise NotLoweredError(f"torchvision's image backend is {backend}, not PIL")


def _refuse_replaced_opening() -> None:
    reason = replaced_opening()
    if reason is not None:
        raise NotLoweredError(reason)


def _refuse_own_samples(kind: type, folder_module: ModuleType) -> None:
    """Refuses a class derived from torchvision's that defines what its samples are."""
    torchvisions = (*folder_module.ImageFolder.__mro__, *folder_module.DatasetFolder.__mro__)
    for base in kind.__mro__:
        own = set() if base in torchvisions else vars(base).keys() & _MAKE_SAMPLES
        if _counts_samples(vars(base).get("__len__")):
            own -= {"__len__"}
        if own:
            raise NotLoweredError(f"{_class_name(kind)} has its own {min(own)}, which may make other samples")


def _counts_samples(length: Any) -> bool:
    """Returns whether it is EuroSAT's ``__len__``, torchvision's only override, which does the same."""
    home = sys.modules.get("torchvision.datasets.eurosat")
    is_its = isinstance(length, FunctionType) and home is not None and length.__globals__ is vars(home)
    return is_its and length.__code__.co_names == ("len", "samples")


def _table_of(samples: list[Any], kind: str) -> SampleTable:
    """Returns the table of torchvision's samples, a list that nothing changes any more.

    Accepts only immutable pairs: a changed element would escape the comparison of lists.
    """
    if (listed := ListedTable.of(samples)) is not None:
        return listed
    for sample_type in set(map(type, samples)):
        if sample_type is not tuple:
            raise NotLoweredError(f"{kind}.samples holds {_class_name(sample_type)}, not only tuples")
    if set(map(len, samples)) - {2}:
        raise NotLoweredError(f"{kind}.samples holds tuples that are not pairs of path and label")
    for position, allowed in enumerate((str, int)):
        for found in {type(sample[position]) for sample in samples} - {allowed}:
            raise NotLoweredError(f"{kind}.samples holds a {_class_name(found)} where {allowed.__name__} is expected")
    try:
        return PathTable.from_samples(samples)
    except (ValueError, OverflowError) as error:
        raise NotLoweredError(f"{kind}.samples cannot be indexed: {error}") from error


def _lower_subset(subset: Subset[Any]) -> LoweredSource:
    _refuse_overrides(subset)
    inner = _lower(subset.dataset)
    snapshot = _copy_indices(subset.indices)
    try:
        index_map = inner.files(_as_int64(snapshot))
    except (IndexError, ValueError) as error:
        raise NotLoweredError(f"Subset.indices: {error}") from error
    index_map.flags.writeable = False
    checks = (
        _unchanged(subset, ("dataset",), lambda: _refuse_overrides(subset)),
        lambda: type(subset.indices) is type(snapshot) and _equal_indices(subset.indices, snapshot),
    )
    return replace(
        inner,
        index_map=index_map,
        is_concatenation=False,
        finds_all_first=callable(getattr(subset.dataset, "__getitems__", None)),
        _checks=(*checks, *inner._checks),
    )


def _lower_concatenation(dataset: ConcatDataset[Any]) -> LoweredSource:
    _refuse_overrides(dataset)
    if type(dataset.datasets) is not list or not dataset.datasets:
        raise NotLoweredError("ConcatDataset.datasets is not a list of data sets")
    parts = dataset.datasets.copy()
    sources = [_lower(part) for part in parts]
    # torch keeps the sizes from when the object was made, and looks indices up in them.
    sizes = list(itertools.accumulate(map(len, sources)))
    if dataset.cumulative_sizes != sizes:
        raise NotLoweredError("the parts of the ConcatDataset have changed their lengths since it was made")
    target_transform = sources[0].target_transform
    if any(source.target_transform is not target_transform for source in sources):
        raise NotLoweredError("parts have different target_transforms")
    checks = [
        _unchanged(dataset, (), lambda: _refuse_overrides(dataset)),
        lambda: type(dataset.datasets) is list and [*map(id, dataset.datasets)] == [*map(id, parts)],
        lambda: bool(dataset.cumulative_sizes == sizes),
    ]
    checks += [check for source in sources for check in source._checks]
    transforms = {id(transform): transform for source in sources for transform in source.transforms}
    return LoweredSource(
        sources[0].table if len(sources) == 1 else JoinedTable([source.table for source in sources]),
        _concatenated_map(sources),
        tuple(transforms.values()),
        target_transform,
        tuple(checks),
        is_concatenation=True,
    )


def _concatenated_map(sources: Sequence[LoweredSource]) -> NDArray[np.int64] | None:
    if all(source.index_map is None for source in sources):
        return None
    maps, offset = [], 0
    for source in sources:
        own = np.arange(len(source), dtype=np.int64) if source.index_map is None else source.index_map
        maps.append(own + offset)
        offset += len(source.table)
    index_map = np.concatenate(maps)
    index_map.flags.writeable = False
    return index_map


def _copy_indices(indices: Any) -> Any:
    if type(indices) in (tuple, range):
        return indices
    if type(indices) is torch.Tensor:
        return indices.clone()
    if type(indices) in (list, np.ndarray):
        return indices.copy()
    raise NotLoweredError(f"Subset.indices is {_class_name(type(indices))} (native: list, tuple, range, array, tensor)")


def _as_int64(indices: Any) -> NDArray[np.int64]:
    if isinstance(indices, range):
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    if isinstance(indices, torch.Tensor):
        indices = indices.numpy(force=True)
    if isinstance(indices, np.ndarray):
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise NotLoweredError(f"Subset.indices is {indices.dtype} of shape {indices.shape}, not a list of ints")
        return indices.astype(np.int64)
    for found in set(map(type, indices)):
        if found is not int and not issubclass(found, np.integer):
            raise NotLoweredError(f"Subset.indices holds a {_class_name(found)}, not only ints")
    try:
        return np.fromiter(indices, dtype=np.int64, count=len(indices))
    except OverflowError as error:
        raise NotLoweredError("Subset.indices holds an int of more than 64 bits") from error


def _equal_indices(current: Any, snapshot: Any) -> bool:
    if isinstance(snapshot, torch.Tensor):
        return torch.equal(current, snapshot)
    if isinstance(snapshot, np.ndarray):
        return equal_arrays(current, snapshot)
    return bool(current == snapshot)


def _refuse_overrides(dataset: object) -> None:
    """Refuses an object that hides methods of its class, or a class that looks its samples up in another way."""
    if names := vars(dataset).keys() & {"__getitem__", "__getitems__", "__len__"}:
        raise NotLoweredError(f"{min(names)} was overridden on this {_class_name(type(dataset))} object")
    if type(dataset) is not Subset and hasattr(type(dataset), "__getitems__"):
        raise NotLoweredError(f"{_class_name(type(dataset))} was given a __getitems__")


def _class_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
