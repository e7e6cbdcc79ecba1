"""Where a native iteration stands, between any two steps of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastload import _native
from fastload._iteration._resumable_iterator import ResumableIterator
from fastload._iteration._state_maker import NO_DRAWS, Draws
from fastload._iteration.native._engine import LoaderEngine
from fastload._iteration.native._state import untaken_draws
from fastload._planning._native_plans import NativePlan


class StatefulIterator(ResumableIterator):
    """The part of NativeIterator that says where the next batch comes from, and of which epoch it is."""

    _engine: LoaderEngine
    _plan: NativePlan
    _iteration: _native.Iteration
    _num_taken: int
    _arrived: list[Any]
    _failed: _native.Batch | None
    _last: tuple[Any, _native.Batch] | None
    _directory: _native.WorkingDirectory | None  # of relative paths
    _seed: int  # where draws depend on the sample

    def _open_seeded(self, seed: int, epoch: int) -> _native.Iteration:
        """What draws by seed, epoch and sample."""
        self._seed, plan = seed, self._plan
        return self._engine.native.open_iteration(
            plan.source.table.index, plan.views, seed, epoch, self._directory, plan.first_steps
        )

    def _set_epoch(self, epoch: int) -> None:
        """Nothing is in flight, but for batches that were begun early and draw nothing."""
        if epoch != self._epoch and self._late.is_seeded and any(view.is_random for view in self._plan.views):
            opened = self._open_seeded(self._seed, epoch)
            self._iteration.cancel()
            self._iteration = opened
        self._epoch = epoch

    def _check_process(self) -> None:
        self._engine.check_process("this iterator")

    @property
    def _is_forked(self) -> bool:
        return self._iteration.is_forked

    @property
    def position(self) -> int:
        """Batches that were handed out, failed ones too."""
        return self._num_taken - (1 if self._hand and not self._arrived else 0)

    @property
    def _has_batches_ahead(self) -> bool:
        return bool(self._arrived or self._hand or self._iteration.batches_in_flight)

    @property
    def _batch_not_handed_out(self) -> _native.Batch | None:
        """The batch at this position, where the engine has given it already."""
        if self._arrived:
            return self._arrived[0] if isinstance(self._arrived[0], _native.Batch) else None
        return self._last[1] if self._hand and self._last is not None else None

    def _draws_later(self, position: int, *, is_behind_last: bool) -> Callable[[], Draws]:
        draws = NO_DRAWS
        if self._plan.has_ordered_draws and (not is_behind_last or self._persistent_workers):
            taken = self._batch_not_handed_out
            texts = untaken_draws(self._iteration, self._num_workers, position, self._failed, taken)
            draws = Draws(None if texts is None else tuple(texts))
        return lambda: draws
