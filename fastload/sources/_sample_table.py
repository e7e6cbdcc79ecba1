"""The common base of all compact forms of a data set's files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fastload import _native

CHUNK_SAMPLES = 1 << 16


class SampleTable(ABC):
    """Names and labels of n files; immutable, so threads may share it without a lock.

    Attributes:
        index: The names, for native code.
    """

    index: _native.SampleIndex

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
        """Takes `samples`, a list that nothing changes any more, and the index that was made of it."""
        self._samples = samples
        self.index = index

    @classmethod
    def of(cls, samples: list[tuple[str, int]]) -> ListedTable | None:
        """Returns a table of `samples` as they are now; None unless all are tuples of an ASCII str and an int."""
        own = samples.copy()
        index = _native.ListedIndex.of(own)
        return None if index is None else cls(own, index)

    def labels_of(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.index.labels_of(files)

    def label(self, file: int) -> int:
        return self._samples[file][1]

    def has_samples(self, samples: list[tuple[str, int]]) -> bool:
        """Returns whether `samples` still are the table's; a nanosecond per sample if they are the same tuples."""
        return self._samples == samples
