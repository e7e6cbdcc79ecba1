"""How an iteration in threads makes its batches."""

from __future__ import annotations

from dataclasses import dataclass

from torch.utils.data import IterableDataset

from fastload import _native
from fastload._delivery._hand_over import Delivery
from fastload._iteration.threads._fetcher import FetcherFactory
from fastload._quarantine._quarantine import Quarantine
from fastload._resume._saved_state import SavedState, Way
from fastload._resume._user_state import is_stateful
from fastload._workers._worker_objects import UserCode


@dataclass(frozen=True)
class ThreadPlan:
    """How an iteration makes its batches.

    Attributes:
        make_fetcher: Gives each thread what it makes batches with.
        code: The user's.
        copied: Whether each worker has a copy of that.
        rng: "torch" or "sample", as of the loader.
        position: Of the first transform that runs in Python, in the user's pipeline.
        num_threads: 0: the caller makes the batches.
        max_batches: The most that are asked for ahead, where there are threads.
        delivery: To a device, or none.
        native_images: Whether workers decode JPEG files natively that the user's code opens with Pillow.
        quarantine: Counts bad samples, where they are replaced or left out.
        way: Who makes the batches, as states say it.
        saved: Where the iteration begins; None: at the beginning of an epoch.
        snapshot_every: A state of a stream, or of a data set that tells its own, begins at the multiples of it; 0: at
            the epoch's beginning.
        cache: What is kept of the images that they decode natively; None: nothing.
    """

    make_fetcher: FetcherFactory
    code: UserCode
    copied: bool
    rng: str
    position: int
    num_threads: int
    max_batches: int
    delivery: Delivery
    native_images: bool
    quarantine: Quarantine | None
    way: Way
    saved: SavedState | None
    snapshot_every: int
    cache: _native.DecodeCache | None

    @property
    def is_of_stream(self) -> bool:
        return isinstance(self.code.dataset, IterableDataset)

    @property
    def has_states(self) -> bool:
        """Whether samples may leave something on the data set, or on its iterator, that a state has to tell."""
        return self.is_of_stream or is_stateful(self.code.dataset)

    @property
    def is_in_order(self) -> bool:
        """Whether a batch depends on those that its worker has made before."""
        return self.rng == "torch" or self.has_states

    @property
    def every(self) -> int:
        """Whether a state can begin at any position, 1, or at the multiples of which."""
        return self.snapshot_every if self.has_states and self.num_threads > 0 else 1
