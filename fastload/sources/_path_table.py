"""Whole file names and labels in three arrays: no Python object per sample."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload.sources._sample_table import CHUNK_SAMPLES, SampleTable

_Scalar = TypeVar("_Scalar", bound=np.generic)


class PathTable(SampleTable):
    """Names and labels of n files.

    Attributes:
        arena: uint8, all names as the file system's bytes, concatenated without separators.
        offsets: int64 [n + 1]; name i is ``arena[offsets[i]:offsets[i + 1]]``. No name contains a zero byte.
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
        """Builds a table from (path, label) pairs; joins and numpy do the work per sample, not Python code.

        Raises:
            ValueError: A path contains a zero byte.
            TypeError: A path is not str or a label not an int.
            OverflowError: A label does not fit in 64 bits.
            UnicodeEncodeError: A path cannot be a file name.
        """
        arena = bytearray()
        lengths, labels = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        iterator = iter(samples)
        while chunk := list(islice(iterator, CHUNK_SAMPLES)):
            labels.append(_as_labels([label for _, label in chunk]))
            names, name_lengths = _as_names([path for path, _ in chunk])
            arena += names
            lengths.append(name_lengths)
        offsets = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        return cls(_frozen(np.frombuffer(arena, dtype=np.uint8)), _frozen(offsets), _frozen(np.concatenate(labels)))

    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.labels[files]

    def label(self, file: int) -> int:
        return int(self.labels[file])


def _as_names(paths: Sequence[str]) -> tuple[bytes, NDArray[np.int64]]:
    """Returns the concatenated bytes of `paths`, and the length of each."""
    # One join and one encode for all; the zero bytes between the names then give their lengths.
    joined = np.frombuffer(os.fsencode("\0".join(paths) + "\0"), dtype=np.uint8)
    ends = np.flatnonzero(joined == 0)
    if len(ends) != len(paths):
        culprit = next(path for path in paths if "\0" in path)
        raise ValueError(f"a path must not contain a zero byte, got {culprit!r}")
    return joined[joined != 0].tobytes(), np.diff(ends, prepend=-1) - 1


def _as_labels(labels: Sequence[int]) -> NDArray[np.int64]:
    for kind in set(map(type, labels)):
        if kind is bool or not issubclass(kind, (int, np.integer)):
            culprit = next(label for label in labels if type(label) is kind)
            raise TypeError(f"labels must be ints, got {culprit!r} of type {kind.__name__}")
    try:
        return np.fromiter(labels, dtype=np.int64, count=len(labels))
    except OverflowError:
        culprit = next(label for label in labels if not -(2**63) <= label < 2**63)
        raise OverflowError(f"a label must not have more than 64 bits, got {culprit!r}") from None


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    array.flags.writeable = False
    return array
