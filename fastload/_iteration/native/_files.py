"""The files of a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastload.samplers._draw_numbers import Numbers
from fastload.samplers._index_array import BadIndicesError, IndexBatch
from fastload.sources._lowering import LoweredSource


class FoundFiles(NamedTuple):
    """The files that a batch loads.

    Attributes:
        indices: The sampler's indices, up to the first that is not an index or out of range.
        files: The files of these indices.
        error: The error that ends the batch after these samples, or None.
        numbers: Numbers of their draws, or None.
    """

    indices: NDArray[np.int64]
    files: NDArray[np.int64]
    error: Exception | None
    numbers: Numbers | None = None


def find_files(
    source: LoweredSource, given: IndexBatch | BadIndicesError, numbers: Numbers | None = None
) -> FoundFiles:
    """Returns the files of a sampler's batch.

    If an index is out of range, the samples before it are loaded and draw, as in torch.
    """
    error: Exception | None
    indices, error = (given.before, given) if isinstance(given, BadIndicesError) else (given, None)
    try:
        files = source.files(indices)
    except (IndexError, ValueError) as outside:
        indices, error = indices[: source.num_valid(indices)], outside
    if error is None and len(indices) == 0:
        error = IndexError("list index out of range: the sampler gave an empty batch")
    if error is not None:
        indices = indices[:0] if source.finds_all_first else indices
        files = source.files(indices)
        error.__context__ = None  # its frames would keep the caller's objects alive
        error = error.with_traceback(None)
    return FoundFiles(indices, files, error, None if numbers is None else numbers[: len(files)])
