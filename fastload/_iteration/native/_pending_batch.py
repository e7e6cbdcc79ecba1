"""A native batch in flight, and the files that it loads."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._delivery._batch_memory import PlacedBatch
from fastload._quarantine._repair import BatchRepair
from fastload.samplers._draw_numbers import Numbers
from fastload.samplers._sampled import BadIndicesError
from fastload.sources._lowering import LoweredSource


@dataclass(frozen=True)
class PendingBatch:
    """A native batch in flight. The engine keeps it while threads may write to its images.

    Attributes:
        indices: Indices of the loaded samples: the sampler's indices up to the first invalid one, after repairs.
        files, labels: The files and labels of these samples.
        error: The error that ends the batch after these samples, or None.
        place: The memory to which the engine writes.
        numbers: Numbers of the draws of the sampler's indices, or None.
        repair: The repair of bad samples; None: a bad sample raises.
    """

    indices: NDArray[np.int64]
    files: NDArray[np.int64]
    error: Exception | None
    labels: torch.Tensor
    place: PlacedBatch
    numbers: Numbers | None
    repair: BatchRepair | None = None
    begun_ns: int = field(default_factory=time.time_ns)

    def submission(
        self,
    ) -> tuple[NDArray[np.int64], list[tuple[int, int]], PendingBatch, _native.BatchCopy | None, Numbers | None]:
        """Returns the engine's arguments: files, address and size of each part, owner, copy, numbers of the draws."""
        numbers = self.numbers
        if numbers is not None and self.repair is not None:
            numbers = numbers[self.repair.positions]  # of the loaded samples
        return self.files, self.place.parts, self, self.place.copy, numbers

    @property
    def final_error(self) -> Exception | None:
        """The error to raise instead of the batch if none of its loaded samples fails, or None."""
        if self.error is None and self.repair is not None:
            return self.repair.first_error
        return self.error


def find_files(
    source: LoweredSource, given: NDArray[np.int64] | BadIndicesError
) -> tuple[NDArray[np.int64], NDArray[np.int64], Exception | None]:
    """Returns the first attributes of a PendingBatch for a sampler's batch: its indices, their files, and the error.

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
    return indices, files, error
