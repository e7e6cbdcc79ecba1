"""Repairs of native batches with bad samples: how a batch is loaded again without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastload import _native
from fastload._errors import SampleError
from fastload._pillow._failures import exception_of
from fastload._quarantine._failure import Failure
from fastload._quarantine._quarantine import Quarantine
from fastload._quarantine._repair import BatchRepair, FailedPlace, Repair
from fastload._quarantine._substitutes import Candidates
from fastload._workers._worker_error import without_frames
from fastload.sources._lowering import LoweredSource


@dataclass(frozen=True)
class BatchRepairs:
    """Repairs the batches of one iteration: Note [repaired batches].

    Attributes:
        candidates: The samples that may replace bad ones.
        directory: Descriptor of the directory of relative paths; None: the current one.
    """

    quarantine: Quarantine
    candidates: Candidates
    source: LoweredSource
    directory: int | None

    def planned(self, indices: NDArray[np.int64]) -> BatchRepair:
        """Returns the repair of a batch before it is loaded, which replaces or leaves out its known bad samples."""
        repair = BatchRepair(self.quarantine.policy, self.candidates, indices, {})
        known = self.quarantine.known.among(indices, self.source)
        return repair.planned(known, self._find_known) if known else repair

    def after(self, repair: BatchRepair, batch: _native.Batch, begun_ns: int) -> Repair:
        """Returns the repair of a batch that is not whole; its load began at `begun_ns` of time.time_ns()."""
        loaded = repair.loaded
        failed = [
            FailedPlace(
                failure["position"],
                without_frames(exception_of(failure, int(loaded[failure["position"]]), self.directory)),
                failure["drawn_size"],
            )
            for failure in batch.errors
        ]
        found = repair.after(failed, batch.revived, self._find_known)
        for each in failed:
            if isinstance(each.error, SampleError):
                self.quarantine.known.note(each.error, begun_ns, self.directory)
        return found

    def _find_known(self, index: int) -> Failure | None:
        return self.quarantine.known.find(index, self.directory)
