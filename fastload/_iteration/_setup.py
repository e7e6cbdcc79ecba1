"""A loader's arguments at the beginning of an epoch: everything that the iteration knows of a loader."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import IterableDataset

from fastload._delivery._hand_over import Delivery
from fastload._iteration._fingerprint import fingerprint_of_loader
from fastload._iteration._progress import Progress
from fastload._iteration._saved_state import SavedState, Way
from fastload._iteration._settings import LoaderSettings
from fastload._planning._plan import LoaderPlan
from fastload._process._waits import WaitHistogram
from fastload._quarantine._quarantine import Quarantine
from fastload._quarantine._substitutes import Candidates, describe_errors
from fastload._resume._user_state import is_stateful
from fastload._workers._random_stream import RandomKey
from fastload._workers._user_code import UserCode


@dataclass(frozen=True)
class LoaderArguments:
    """The arguments of a loader that decide the order and the draws of its batches: torch's, and these.

    Attributes:
        code: The user's data set, collate_fn and worker_init_fn.
        index_sampler: The batch sampler, or the sampler if the loader does not batch.
        is_batched: Whether the sampler gives lists of indices.
        num_threads: Number of workers that are used: a stream may use fewer than `num_workers`.
        batches_per_worker: torch's prefetch_factor.
        is_persistent: Whether the workers outlive an epoch.
        settings: fastload's own arguments.
        progress: The loader's current position, which all its iterators share.
    """

    code: UserCode
    index_sampler: Any
    is_batched: bool
    drop_last: bool
    num_workers: int
    num_threads: int
    batches_per_worker: int
    is_persistent: bool
    is_in_order: bool
    generator: torch.Generator | None
    settings: LoaderSettings
    progress: Progress

    @property
    def is_of_stream(self) -> bool:
        """Whether the data set is an IterableDataset."""
        return isinstance(self.code.dataset, IterableDataset)

    @property
    def has_states(self) -> bool:
        """Whether Python's samples may change the data set or its iterator, so that a state has to save them."""
        return self.is_of_stream or is_stateful(self.code.dataset)

    @property
    def is_ordered(self) -> bool:
        """Whether a batch made in Python depends on the batches that its worker made before."""
        return self.settings.rng == "torch" or self.has_states

    @property
    def max_batches(self) -> int:
        """The most batches in flight: as many as torch's workers may be ahead; one if the caller does the work."""
        return self.batches_per_worker * self.num_workers or 1

    def random_key(self, base_seed: int, resets: int) -> RandomKey:
        """Returns the seed and epoch of rng="sample" for the epoch that begins.

        A loader without a seed has torch's `base_seed`, and the number of epochs that the iterator had before.
        """
        seed = self.settings.seed
        return RandomKey(base_seed % 2**64, resets) if seed is None else RandomKey(seed, self.progress.epoch)


@dataclass(frozen=True)
class LoaderSetup(LoaderArguments):
    """The arguments of a loader and what follows from them. Made once per iterator; the iteration knows no loader.

    Attributes:
        plan: The way in which the batches are made, and their source.
        delivery: Delivers the batches to their device.
        candidates: The samples that may replace bad ones.
        quarantine: The account of bad samples; None: a bad sample raises.
        saved: The state from which the iteration resumes; None: it begins an epoch.
        waits: The times for which the consumer waited and worked.
        tell_end: Called at the end of each epoch.
        raise_warnings: Raises the warnings that worker processes have sent.
    """

    plan: LoaderPlan
    delivery: Delivery
    candidates: Candidates
    quarantine: Quarantine | None
    saved: SavedState | None
    waits: WaitHistogram
    tell_end: Callable[[], None]
    raise_warnings: Callable[[], None]

    @property
    def resumed(self) -> SavedState | None:
        """The state whose workers this iteration continues; None: it begins with new workers."""
        return self.saved if self.saved is not None and self.saved.goes_on else None

    @property
    def errors(self) -> str:
        """The treatment of bad samples, for the fingerprint of states."""
        return describe_errors(self.settings.error_policy, self.candidates)

    @property
    def python_way(self) -> Way:
        """The way in which Python makes batches: with samples that native code begins, or alone."""
        return "python" if self.code.samples is None else "tail"

    def python_fingerprint(self) -> Callable[[], dict[str, Any]]:
        """Returns a function that makes the fingerprint for Python's batches, once, and does not keep the setup."""
        return functools.cache(
            functools.partial(fingerprint_of_loader, self.code.dataset, self.index_sampler, self.errors)
        )
