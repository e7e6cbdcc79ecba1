"""The files of a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastload.samplers._draw_numbers import Numbers
from fastload.samplers._index_array import BadIndicesError, IndexBatch
from fastload.sources._lowering import LoweredSource


class FoundFiles(NamedTuple):
    """What a batch loads.

    Attributes:
        indices: As the sampler gave them, up to the first that is none or out of range.
        files: Of these.
        error: What the batch ends in after these, or None.
        numbers: Of these as draws, or None.
    """

    indices: NDArray[np.int64]
    files: NDArray[np.int64]
    error: Exception | None
    numbers: Numbers | None = None


def find_files(
    source: LoweredSource, given: IndexBatch | BadIndicesError, numbers: Numbers | None = None
) -> FoundFiles:
    """What a sampler's batch loads. Where an index is out of range, the samples before it are loaded and draw, as in
    torch."""
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
        error.__context__ = None  # without its frames: they would keep whoever asks alive
        error = error.with_traceback(None)
    return FoundFiles(indices, files, error, None if numbers is None else numbers[: len(files)])
