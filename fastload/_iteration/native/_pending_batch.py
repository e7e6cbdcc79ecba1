"""A native batch in flight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fastload import _native
from fastload._delivery._batch_memory import PlacedBatch
from fastload._quarantine._repair import BatchRepair
from fastload.samplers._draw_numbers import Numbers


class SampleNames(NamedTuple):
    """What a batch was loaded from.

    Attributes:
        indices: In the data set.
        replaced: Position in the batch -> index of the bad sample in whose place it is.
    """

    indices: NDArray[np.int64]
    replaced: dict[int, int]


@dataclass(frozen=True)
class PendingBatch:
    """The engine keeps it while threads may write to its images.

    Attributes:
        indices: Of what is loaded: as the sampler gave them, up to the first that is none, but for bad samples.
        files: Of these.
        labels: Of these.
        place: Where the engine writes.
        error: What the batch ends in after these, or None.
        numbers: As draws, of what the sampler gave; or None.
        repair: What is done about bad samples; None where they are errors.
        begun_ns: When it was submitted, where there is a repair: time.time_ns().
    """

    indices: NDArray[np.int64]
    files: NDArray[np.int64]
    labels: torch.Tensor
    place: PlacedBatch
    error: Exception | None
    numbers: Numbers | None
    repair: BatchRepair | None = None
    begun_ns: int = 0

    def submission(
        self,
    ) -> tuple[NDArray[np.int64], list[tuple[int, int]], PendingBatch, _native.BatchCopy | None, Numbers | None]:
        """Files, address and bytes of their memory, its owner, the copy to a device, and numbers of the draws: what the
        engine takes."""
        numbers = self.numbers if self.repair is None else self.repair.numbers_of_loaded(self.numbers)
        return self.files, self.place.parts, self, self.place.copy, numbers

    @property
    def final_error(self) -> Exception | None:
        """What is raised in its place where nothing that is loaded fails."""
        if self.error is None and self.repair is not None:
            return self.repair.first_error
        return self.error

    @property
    def names(self) -> SampleNames:
        return SampleNames(self.indices, {} if self.repair is None else self.repair.replaced)
