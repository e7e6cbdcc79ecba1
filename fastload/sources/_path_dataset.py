"""Map-style data sets over a `SampleTable`. They also work with torch's own DataLoader."""

from __future__ import annotations

import operator
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from fastload._pillow._pillow import open_rgb
from fastload.sources._sample_table import PathTable, SampleTable

_Item = TypeVar("_Item", covariant=True)


class PathDataset(Dataset[tuple[Any, Any]]):
    """(transformed RGB image, label) for each file of a table.

    Attributes:
        path_table: The names and labels in their compact form.
        root: The folder that it was made from, if any.
        transform: Called with the image, or None. May be replaced at any time.
        target_transform: Called with the label, or None. May be replaced at any time.
        loader: Called with the path of a sample; returns the image, the default loader a PIL RGB one.
    """

    root: str | None = None

    def __init__(
        self,
        table: SampleTable,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = open_rgb,
    ) -> None:
        self.path_table = table
        self.transform = transform
        self.target_transform = target_transform
        self.loader = loader

    def __len__(self) -> int:
        return len(self.path_table)

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Any]:
        """Reads, decodes and transforms sample `index`; negative counts from the end.

        Raises:
            IndexError: `index` is out of range.
            OSError: The file cannot be read or decoded; the text is ``PIL.Image.open``'s.
        """
        path, label = self.path_table.sample(_position(index, len(self.path_table)))
        return StandardTransform(self.transform, self.target_transform)(self.loader(path), label)

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        lines += [] if self.root is None else [f"Root location: {self.root}"]
        lines += [] if self.transforms is None else [repr(self.transforms)]
        return "\n".join([f"Dataset {type(self).__name__}", *(f"    {line}" for line in lines)])

    @property
    def transforms(self) -> StandardTransform | None:
        """The two transforms as one function of image and label; None if there is neither."""
        if self.transform is None and self.target_transform is None:
            return None
        return StandardTransform(self.transform, self.target_transform)

    @property
    def samples(self) -> Sequence[tuple[str, int]]:
        """The (path, label) of each sample: a view that makes each pair on demand.

        Assigning a list of pairs replaces paths and labels.
        """
        return SampleView(self.path_table)

    @samples.setter
    def samples(self, samples: Iterable[tuple[str, int]]) -> None:
        self.path_table = PathTable.from_samples(samples)

    @property
    def imgs(self) -> Sequence[tuple[str, int]]:
        """The same as `samples`."""
        return self.samples

    @property
    def targets(self) -> Sequence[int]:
        """The label of each sample, as a view; ``numpy.asarray`` of it is an int64 copy."""
        return TargetView(self.path_table)


class ImageFiles(PathDataset):
    """A list of image files with labels.

    Args:
        paths: File names: str, bytes or PathLike.
        labels: One int for each path: a sequence, a NumPy array or a tensor.
        transform: Called with the PIL RGB image of a sample, for example a torchvision transform.

    Attributes:
        root: None; the paths are the files'.
        samples, imgs: (path, label) of each sample: a view, equal to the list, that cannot be changed in place.
        targets: Label of each sample, also a view.

    Raises:
        ValueError: `paths` and `labels` differ in length, or a path holds a zero byte.
        TypeError: A path is not a file name, or a label not an int.
        OverflowError: A label has more than 64 bits.

    Example:
        >>> files = fastload.ImageFiles(["cat.jpg", "dog.jpg"], [0, 1])
        >>> len(files), files.samples[1]
        (2, ('dog.jpg', 1))
    """

    def __init__(
        self,
        paths: Iterable[str | bytes | os.PathLike[str] | os.PathLike[bytes]],
        labels: Sequence[int] | NDArray[np.int64] | torch.Tensor,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if isinstance(paths, (str, bytes)) or not isinstance(paths, Iterable):
            raise TypeError(f"paths must be a list of file names, got {paths!r}")
        names = list(map(_as_name, paths))
        values = cast("Sequence[int]", labels.tolist() if isinstance(labels, (torch.Tensor, np.ndarray)) else labels)
        if not hasattr(values, "__len__"):
            raise TypeError(f"labels must be a sequence of ints, got {labels!r}")
        if len(names) != len(values):
            raise ValueError(f"paths and labels must be of equal length, got {len(names)} and {len(values)}")
        super().__init__(PathTable.from_samples(zip(names, values, strict=True)), transform)


@dataclass(eq=False, repr=False)
class StandardTransform:
    """A transform of the image and one of the label, either of which may be None."""

    transform: Callable[[Any], Any] | None
    target_transform: Callable[[Any], Any] | None

    def __call__(self, image: Any, label: Any) -> tuple[Any, Any]:
        image = image if self.transform is None else self.transform(image)
        return image, label if self.target_transform is None else self.target_transform(label)

    def __repr__(self) -> str:
        parts = (("Transform: ", self.transform), ("Target transform: ", self.target_transform))
        lines = [
            head + repr(transform).replace("\n", "\n" + " " * len(head))
            for head, transform in parts
            if transform is not None
        ]
        return "\n".join([type(self).__name__, *lines])


class _TableView(Sequence[_Item]):
    """A read-only sequence over a table, equal to any sequence with the same items."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, table: SampleTable) -> None:
        self._table = table

    @abstractmethod
    def _item(self, position: int) -> _Item:
        """Returns the item at `position`, 0 <= position < len."""

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: SupportsIndex) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Item]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> _Item | list[_Item]:
        if isinstance(index, slice):
            return [self._item(position) for position in range(len(self))[index]]
        return self._item(_position(index, len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"[{shown}{', ...' if len(self) > 3 else ''}] ({len(self)} items)"


class SampleView(_TableView[tuple[str, int]]):
    """(path, label) pairs."""

    def _item(self, position: int) -> tuple[str, int]:
        return self._table.sample(position)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return zip(map(self._table.path, range(len(self))), self._table.iterate_labels(), strict=True)


class TargetView(_TableView[int]):
    """Labels."""

    def _item(self, position: int) -> int:
        return self._table.label(position)

    def __iter__(self) -> Iterator[int]:
        return self._table.iterate_labels()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        # Always a copy, as for a list: the table must not change.
        return np.array(self._table.all_labels(), dtype=dtype)


def _as_name(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"a path must be str, bytes or PathLike, got {path!r}") from None


def _position(index: SupportsIndex, length: int) -> int:
    """Returns `index` as list indexing reads it, in 0 <= position < length."""
    try:
        number = operator.index(index)
    except TypeError:
        raise TypeError(f"list indices must be integers, got {index!r} of type {type(index).__name__}") from None
    position = number + length if number < 0 else number
    if not 0 <= position < length:
        raise IndexError(f"list index out of range: {number} with {length} samples")
    return position
