"""Compact forms of a data set's files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastload import _native

CHUNK_SAMPLES = 1 << 16


class SampleTable(ABC):
    """Names and labels of n files; immutable, so threads may share it without a lock."""

    index: _native.SampleIndex  # the names, for native code

    def __len__(self) -> int:
        return len(self.index)

    @abstractmethod
    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the label of each of `files`, 0 <= file < n, in an array of the caller's own."""

    def path_bytes(self, file: int) -> bytes:
        """Returns name `file`, 0 <= file < n, as the file system's bytes."""
        return self.index.path(file)

    def path(self, file: int) -> str:
        """Returns name `file`, 0 <= file < n; bytes that are not UTF-8 become surrogate escapes."""
        return os.fsdecode(self.path_bytes(file))

    def label(self, file: int) -> int:
        """Returns label `file`, 0 <= file < n."""
        return int(self.labels_of(np.array([file], dtype=np.int64))[0])

    def sample(self, file: int) -> tuple[str, int]:
        """Returns (path, label) of `file`, 0 <= file < n."""
        return self.path(file), self.label(file)

    def all_labels(self) -> NDArray[np.int64]:
        """Returns the label of every file, in an array of the caller's own."""
        return self.labels_of(np.arange(len(self), dtype=np.int64))

    def iterate_labels(self) -> Iterator[int]:
        """Yields the labels; needs memory only for a part of them at a time."""
        for begin in range(0, len(self), CHUNK_SAMPLES):
            end = min(begin + CHUNK_SAMPLES, len(self))
            yield from self.labels_of(np.arange(begin, end, dtype=np.int64)).tolist()


class PathTable(SampleTable):
    """Whole names and labels in three arrays: no Python object per sample.

    Attributes:
        arena: uint8, all names as the file system's bytes, concatenated without separators.
        offsets: int64 [n + 1]; name i is ``arena[offsets[i]:offsets[i + 1]]``. No name contains a zero byte.
        labels: int64 [n].
    """

    def __init__(self, arena: NDArray[np.uint8], offsets: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
        self.arena = arena
        self.offsets = offsets
        self.labels = labels
        for array in (arena, offsets, labels):
            array.flags.writeable = False
        self.index = _native.SampleIndex(arena, offsets)

    def __reduce__(self) -> tuple[Any, ...]:
        return PathTable, (self.arena, self.offsets, self.labels)

    @classmethod
    def from_samples(cls, samples: Iterable[tuple[str, int]]) -> PathTable:
        """Builds a table from (path, label) pairs; joins and numpy do the work per sample, not Python code.

        Raises ValueError for a zero byte in a path, UnicodeEncodeError if a path cannot be a file name, TypeError if it
        is not a str or a label not an int, and OverflowError for a label of more than 64 bits.
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
        return cls(np.frombuffer(arena, dtype=np.uint8), offsets, np.concatenate(labels))

    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.labels[files]

    def label(self, file: int) -> int:
        return int(self.labels[file])


class JoinedTable(SampleTable):
    """The names and labels of several tables, one after another."""

    def __init__(self, tables: Sequence[SampleTable]) -> None:
        self._tables = tuple(tables)
        self._starts = np.cumsum([0, *map(len, self._tables)], dtype=np.int64)
        self.index = _native.SampleIndex.joined([table.index for table in self._tables])

    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        # If several tables begin at the same file, the last one has it: those before it are empty.
        parts = np.searchsorted(self._starts, files, side="right") - 1
        labels = np.empty(len(files), dtype=np.int64)
        for part in np.unique(parts):
            is_of_part = parts == part
            labels[is_of_part] = self._tables[part].labels_of(files[is_of_part] - self._starts[part])
        return labels


class ListedTable(SampleTable):
    """(path, label) tuples of a list, read from them on demand: Note [listed samples] in csrc/bindings.

    It takes no memory per sample, and making it takes no longer than looking at each tuple once.
    """

    index: _native.ListedIndex

    def __init__(self, samples: list[tuple[str, int]], index: _native.ListedIndex) -> None:
        self._samples = samples
        self.index = index

    @classmethod
    def of(cls, samples: list[tuple[str, int]]) -> ListedTable | None:
        """Returns a table of `samples`, a list that nothing changes any more.

        Returns None unless all of them are tuples of an ASCII str and an int.
        """
        index = _native.ListedIndex.of(samples)
        return None if index is None else cls(samples, index)

    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.index.labels_of(files)

    def label(self, file: int) -> int:
        return self._samples[file][1]


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
