"""The paths of the files that a data set reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from fastload.sources._lowering import LoweredSource
from fastload.sources._sample_table import SampleTable


class FilePaths(Sequence[bytes]):
    """The paths of a data set's files, each once, made when they are asked for."""

    def __init__(self, source: LoweredSource) -> None:
        self._table: SampleTable = source.table
        self._files: NDArray[np.int64] | None = None if source.index_map is None else np.unique(source.index_map)

    def __len__(self) -> int:
        return len(self._table if self._files is None else self._files)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        if not 0 <= index < len(self):
            raise IndexError(f"{index} of {len(self)} files")
        return self._table.path_bytes(index if self._files is None else int(self._files[index]))
