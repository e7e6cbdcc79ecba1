"""set_epoch() between iter() and the first batch: frameworks call it there in the first epoch of a run."""

from __future__ import annotations

from typing import Any

from fastload._iteration._saved_state import SavedState
from fastload._iteration._setup import LoaderArguments
from fastload.samplers._resting import epoch_holder, kind_of, sharded_of
from fastload.samplers._seeded_shuffle import SeededShuffle


class LateEpoch:
    """Looks for a new epoch before an iteration requests its first batch, so that no worker makes one of a stale epoch.

    Args:
        arguments: The loader's arguments.
        saved: The state from which the iteration resumes, or None. An epoch that continues keeps its number.

    Attributes:
        is_seeded: Whether random transforms depend on the epoch.
        is_open: Whether nothing was requested yet, so that the epoch may still change.
    """

    def __init__(self, arguments: LoaderArguments, saved: SavedState | None) -> None:
        self._progress = arguments.progress
        self._index_sampler = arguments.index_sampler
        self.is_seeded: bool = arguments.settings.is_seeded
        goes_on = saved is not None and saved.moment == "in an epoch"
        self.is_open = not goes_on and not arguments.is_of_stream and self._depends_on_epoch()

    def _depends_on_epoch(self) -> bool:
        if sharded_of(self._index_sampler) is not None:
            return True
        return self.is_seeded and kind_of(self._index_sampler) in ("fixed", "distributed")

    def now(self, iterator: Any, epoch: int) -> int:
        """Returns the epoch of `iterator`, which was `epoch` at the last call. May be repeated."""
        asked = self._progress.asked_epoch if self._progress.is_latest(iterator) else None
        now = epoch if asked is None else asked
        sampler = epoch_holder(self._index_sampler)
        if sampler is not None and self.is_seeded:
            is_ours = isinstance(sampler, SeededShuffle)
            now = max(now, sampler.asked_epoch if is_ours else sampler.epoch)
            if is_ours:
                sampler.begin_epoch(now)
        if now != epoch and self._progress.is_latest(iterator):
            self._progress.epoch = now + 1
        return now
