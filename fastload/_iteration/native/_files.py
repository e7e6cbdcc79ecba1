"""The files of a batch, and the sizes of the images in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload._pillow import _pillow
from fastload._process import _config
from fastload._process._interrupts import is_interrupt
from fastload.samplers._draw_numbers import Numbers
from fastload.samplers._lowering import BadIndicesError, IndexBatch
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

    def up_to(self, count: int) -> FoundFiles:
        """The first `count` of these."""
        numbers = None if self.numbers is None else self.numbers[:count]
        return FoundFiles(self.indices[:count], self.files[:count], None, numbers)


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


def image_sizes(source: LoweredSource, files: NDArray[np.int64]) -> NDArray[np.int32]:
    """Width and height of the images, int32 [files, 2], from the headers of their files; nothing is decoded.

    (0, 0) of one that fails as far as its header says. Relative paths are in the current directory.
    """
    sizes = _native.header_sizes(
        source.table.index,
        files,
        max_file_bytes=_config.MAX_FILE_BYTES,
        max_pixels=_pillow.max_pixels(),
        native_jpeg=_pillow.native_jpeg_is_exact().is_exact,
    )
    for position in np.flatnonzero(sizes[:, 0] < 0):
        sizes[position] = _size_by_pillow(source.table.path_bytes(int(files[position])))
    return sizes


def _size_by_pillow(path: bytes) -> tuple[int, int]:
    try:
        return _pillow.image_size(path)
    except Exception as error:  # that of the sample, whatever it is
        if is_interrupt(error):
            raise
        return 0, 0
