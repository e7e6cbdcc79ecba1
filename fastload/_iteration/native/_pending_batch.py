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
    """The samples that a batch was loaded from.

    Attributes:
        indices: Indices in the data set.
        replaced: Position in the batch -> index of the bad sample that was replaced there.
    """

    indices: NDArray[np.int64]
    replaced: dict[int, int]


@dataclass(frozen=True)
class PendingBatch:
    """A native batch in flight. The engine keeps it while threads may write to its images.

    Attributes:
        indices: Indices of the loaded samples: the sampler's indices up to the first invalid one, after repairs.
        files: The files of these samples.
        labels: The labels of these samples.
        place: The memory to which the engine writes.
        error: The error that ends the batch after these samples, or None.
        numbers: Numbers of the draws of the sampler's indices, or None.
        repair: The repair of bad samples; None: a bad sample raises.
        begun_ns: time.time_ns() of the submission, if there is a repair.
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
        """Returns the engine's arguments.

        These are the files, the address and size of each part of the memory, its owner, the copy to a device, and the
        numbers of the draws.
        """
        numbers = self.numbers if self.repair is None else self.repair.numbers_of_loaded(self.numbers)
        return self.files, self.place.parts, self, self.place.copy, numbers

    @property
    def final_error(self) -> Exception | None:
        """The error to raise instead of the batch if none of its loaded samples fails, or None."""
        if self.error is None and self.repair is not None:
            return self.repair.first_error
        return self.error

    @property
    def names(self) -> SampleNames:
        return SampleNames(self.indices, {} if self.repair is None else self.repair.replaced)
