"""Where a native iteration stands, between any two steps of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from fastload import _native
from fastload._delivery._base_iterator import BaseIterator
from fastload._native_batches._engine import LoaderEngine
from fastload._native_batches._state import StateMaker, untaken_draws
from fastload._planning._native_plans import NativePlan
from fastload._resume._progress import Progress
from fastload._resume._saved_state import SavedState
from fastload.samplers._epoch_order import EpochOrder


class StatefulIterator(BaseIterator):
    """The part of NativeIterator that says where the next batch comes from.

    An interrupt may have left the steps of next() anywhere, and the handler of a signal may ask in the middle of them,
    so nothing is changed here, and a batch counts as handed out when next() has let go of it.
    """

    _engine: LoaderEngine
    _plan: NativePlan
    _states: StateMaker
    _progress: Progress
    _iteration: _native.Iteration
    _order: EpochOrder
    _epoch: int
    _resets: int
    _num_taken: int
    _is_over: bool
    _is_exhausted: bool
    _given: list[Any]
    _arrived: list[Any]
    _failed: _native.Batch | None
    _last: tuple[Any, _native.Batch] | None

    def state_dict(self) -> dict[str, Any]:
        """Tells where the next batch comes from, for DataLoader.load_state_dict().

        Returns:
            A new dict, as DataLoader.state_dict() gives it.

        Raises:
            ForkedProcessError: the iterator is of another process.
        """
        self._engine.check_process("this iterator")
        is_inside_next = self._turn._is_owned()  # type: ignore[attr-defined]  # in the handler of a signal
        with self._turn:
            if not is_inside_next:
                self._look_for_end()
            return self._state_later()().as_dict()

    def _look_for_end(self) -> None:
        """Asks a stateful sampler for what is behind the last batch, as next() will: its state is then that of the next
        epoch. With workers that was done when the last batch was handed out."""
        is_asked_for_each = self._num_workers == 0 and self._order.kind == "stateful"
        if is_asked_for_each and not self._is_exhausted and not self._given and self._is_behind_last():
            self._order.give(self._given)
            self._is_exhausted = not self._given

    @property
    def position(self) -> int:
        """Batches that were handed out, failed ones too."""
        return self._num_taken - (1 if self._hand and not self._arrived else 0)

    @property
    def _batch_not_handed_out(self) -> _native.Batch | None:
        """The batch at this position, where the engine has given it already."""
        if self._arrived:
            return self._arrived[0] if isinstance(self._arrived[0], _native.Batch) else None
        return self._last[1] if self._hand and self._last is not None else None

    def _is_behind_last(self) -> bool:
        """Whether all batches of the epoch are known to have been handed out."""
        if self._is_over:
            return True
        if self._arrived or self._hand or self._given or self._iteration.batches_in_flight:
            return False
        if self._is_exhausted:
            return True
        try:
            return self.position >= len(self._index_sampler)
        except TypeError:  # it has no length
            return False

    def _state_later(self) -> Callable[[], SavedState]:
        """What makes the state of this moment, in which the generators that it holds are those of the call."""
        position, base_seed = self.position, int(self._base_seed)
        is_behind_last = self._is_behind_last()
        draws = None
        if self._plan.has_ordered_draws and (not is_behind_last or self._persistent_workers):
            taken = self._batch_not_handed_out
            draws = untaken_draws(self._iteration, self._num_workers, position, self._failed, taken)
        states, epoch, resets = self._states, self._epoch, self._resets  # the iterator itself is not kept
        if is_behind_last:
            rest = self._order.saved_behind(is_exhausted=self._is_exhausted or self._is_over)
            return lambda: states.between_epochs(epoch, position, rest(), base_seed, resets, draws)
        sampler = self._order.saved_at(position)
        return lambda: states.in_epoch(epoch, position, sampler, base_seed, resets, draws)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A loop that was left lets go of its iterator, and may ask the loader for its state then. Nobody does so when
        # the interpreter tears down what this needs, its modules among it.
        progress = None if is_finalizing() else getattr(self, "_progress", None)
        if progress is not None and progress.is_latest(self) and not self._iteration.is_forked:
            progress.left = self._state_later()
