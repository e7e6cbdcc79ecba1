"""Whole file names and labels in three arrays: no Python object per sample."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload.sources._sample_table import SampleTable

_CHUNK_SAMPLES = 1 << 16

_Scalar = TypeVar("_Scalar", bound=np.generic)


class PathTable(SampleTable):
    """Names and labels of n files.

    Attributes:
        arena: uint8, all names as the file system's bytes, one after the other, without separators.
        offsets: int64 [n + 1]; name i is ``arena[offsets[i]:offsets[i + 1]]``. No name holds a zero byte.
        labels: int64 [n].
    """

    def __init__(self, arena: NDArray[np.uint8], offsets: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
        self.arena = arena
        self.offsets = offsets
        self.labels = labels
        self.index = _native.SampleIndex(arena, offsets)

    def __reduce__(self) -> tuple[Any, ...]:
        return PathTable, (self.arena, self.offsets, self.labels)

    @classmethod
    def from_samples(cls, samples: Iterable[tuple[str, int]]) -> PathTable:
        """Build from (path, label) pairs; raises what `PathTableBuilder.extend` raises."""
        builder = PathTableBuilder()
        iterator = iter(samples)
        while chunk := list(islice(iterator, _CHUNK_SAMPLES)):
            builder.extend([path for path, _ in chunk], [label for _, label in chunk])
        return builder.build()

    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.labels[files]

    def label(self, file: int) -> int:
        return int(self.labels[file])


class PathTableBuilder:
    """Collects names and labels; the work per sample is done by joins and numpy, not by Python code."""

    def __init__(self) -> None:
        self._arena = bytearray()
        self._lengths: list[NDArray[np.int64]] = []
        self._labels: list[NDArray[np.int64]] = []

    def extend(self, paths: Sequence[str], labels: Sequence[int] | NDArray[np.int64]) -> None:
        """Add `paths`, one label each.

        Raises:
            ValueError: A path holds a zero byte, or the lengths differ.
            TypeError: A path is not str or a label not an int.
            OverflowError: A label does not fit in 64 bits.
            UnicodeEncodeError: A path cannot be a file name.
        """
        if len(paths) != len(labels):
            raise ValueError(f"paths and labels must be of equal length, got {len(paths)} and {len(labels)}")
        encoded_labels = _as_labels(labels)
        for start in range(0, len(paths), _CHUNK_SAMPLES):
            self._append_names(paths[start : start + _CHUNK_SAMPLES])
        self._labels.append(encoded_labels)

    def build(self) -> PathTable:
        """The table; the builder must not be used after."""
        lengths = np.concatenate([np.zeros(1, dtype=np.int64), *self._lengths])
        labels = np.concatenate([np.zeros(0, dtype=np.int64), *self._labels])
        arena = np.frombuffer(self._arena, dtype=np.uint8)
        return PathTable(_frozen(arena), _frozen(np.cumsum(lengths, dtype=np.int64)), _frozen(labels))

    def _append_names(self, paths: Sequence[str]) -> None:
        if not paths:
            return
        # One join and one encode for all; the zero bytes between the names then give their lengths.
        joined = np.frombuffer(os.fsencode("\0".join(paths) + "\0"), dtype=np.uint8)
        ends = np.flatnonzero(joined == 0)
        if len(ends) != len(paths):
            culprit = next(path for path in paths if "\0" in path)
            raise ValueError(f"a path must not hold a zero byte, got {culprit!r}")
        self._lengths.append(np.diff(ends, prepend=-1) - 1)
        self._arena += joined[joined != 0].tobytes()


def _as_labels(labels: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    if isinstance(labels, np.ndarray):
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise TypeError(f"labels must be one-dimensional integers, got {labels.dtype} of shape {labels.shape}")
        return labels.astype(np.int64)
    for kind in set(map(type, labels)):
        if kind is bool or not issubclass(kind, (int, np.integer)):
            culprit = next(label for label in labels if type(label) is kind)
            raise TypeError(f"labels must be ints, got {culprit!r} of type {kind.__name__}")
    return np.fromiter(labels, dtype=np.int64, count=len(labels))


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    array.flags.writeable = False
    return array
