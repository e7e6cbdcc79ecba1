"""Where an iteration stands, between any two steps of it, and how torch's own part of one begins there."""

from __future__ import annotations

import contextlib
import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from fastload._delivery._hand_over import Delivery
from fastload._iteration._base_iterator import BaseIterator
from fastload._iteration._late_epoch import LateEpoch
from fastload._iteration._state_maker import Draws, StateMaker
from fastload._resume._generators import ProgramReplay
from fastload._resume._progress import Progress
from fastload._resume._saved_state import SavedState
from fastload.samplers._epoch_order import EpochOrder


class ResumableIterator(BaseIterator):
    """The part of an iterator that says where the next batch comes from.

    An interrupt may have left the steps of next() anywhere, and the handler of a signal may ask in the middle of them,
    so nothing is changed here, and a batch counts as handed out when next() has let go of it.
    """

    _states: StateMaker
    _progress: Progress
    _order: EpochOrder
    _epoch: int
    _resets: int
    _is_over: bool  # StopIteration has come
    _is_exhausted: bool
    _given: list[Any]
    _late: LateEpoch

    def __init__(self, loader: Any, delivery: Delivery, order: EpochOrder, going_on: SavedState | None) -> None:
        """torch's own part, which draws a base seed; workers that go on have theirs, and then nothing is drawn."""
        with contextlib.ExitStack() as stack:
            if going_on is not None:
                stack.enter_context(ProgramReplay().drawing())
            if loader.num_workers == 0 and order.is_asked_by_torch:
                stack.enter_context(order.asking())
            generator: torch.Generator | None = loader.generator
            state = None if generator is None or going_on is None else generator.get_state()
            super().__init__(loader, delivery)
        if going_on is None:
            return
        assert going_on.base_seed is not None, "it goes on"
        self._base_seed = going_on.base_seed
        if generator is not None and state is not None:
            generator.set_state(state if going_on.generator is None else going_on.generator)

    def state_dict(self) -> dict[str, Any]:
        """Tells where the next batch comes from, for DataLoader.load_state_dict().

        Waits for workers that run Python and have not begun, at most as long as for a batch.

        Returns:
            A new dict, as DataLoader.state_dict() gives it.

        Raises:
            StateError: such a worker was ended before it began; or the state_dict() of the data set, or of its
                iterator, has raised.
            ForkedProcessError: the iterator is of another process.
        """
        self._check_process()
        is_inside_next = self._turn._is_owned()  # type: ignore[attr-defined]  # in the handler of a signal
        with self._turn:
            if not is_inside_next:
                self._follow_epoch()
                self._look_for_end()
            return self._state_later()().as_dict()

    def _follow_epoch(self) -> None:
        """Takes the epoch that was set behind iter(), while nothing was asked for. May be repeated."""
        if not self._late.is_open:
            return
        self._order.look_again()
        self._set_epoch(self._late.now(self, self._epoch))

    @abstractmethod
    def _set_epoch(self, epoch: int) -> None:
        """The iteration, of which nothing was asked for, is of that epoch."""

    def _look_for_end(self) -> None:
        """Asks a stateful sampler for what is behind the last batch, as next() will: its state is then that of the next
        epoch. With workers that was done when the last batch was handed out."""
        is_asked_for_each = self._num_workers == 0 and self._order.kind == "stateful"
        if is_asked_for_each and not self._is_exhausted and not self._given and self._is_behind_last():
            self._order.give(self._given)
            self._is_exhausted = not self._given

    def _is_behind_last(self) -> bool:
        """Whether all batches of the epoch are known to have been handed out."""
        if self._is_over:
            return True
        if self._has_batches_ahead or self._given:
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
        states, epoch, resets = self._states, self._epoch, self._resets  # the iterator itself is not kept
        draws = self._draws_later(position, is_behind_last=is_behind_last)
        if is_behind_last:
            rest = self._order.saved_behind(is_exhausted=self._is_exhausted or self._is_over)
            return lambda: states.between_epochs(epoch, position, rest(), base_seed, resets, draws())
        sampler = self._order.saved_at(self._sampler_position(position))
        return lambda: states.in_epoch(epoch, position, sampler, base_seed, resets, draws())

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A loop that was left lets go of its iterator, and may ask the loader for its state then. Nobody does so when
        # the interpreter tears down what this needs, its modules among it.
        progress = None if is_finalizing() else getattr(self, "_progress", None)
        if progress is not None and progress.is_latest(self) and not self._is_forked:
            progress.left = self._state_later()

    @property
    @abstractmethod
    def position(self) -> int:
        """Batches that were handed out, failed ones too."""

    @property
    @abstractmethod
    def _has_batches_ahead(self) -> bool:
        """Whether there are batches that were asked for and not handed out."""

    def _sampler_position(self, position: int) -> int:
        """From which batch on the sampler is asked where a state of that position is loaded."""
        return position

    @abstractmethod
    def _draws_later(self, position: int, *, is_behind_last: bool) -> Callable[[], Draws]:
        """What gives where each worker stands before its first batch that was not handed out; `is_behind_last`: that is
        one of the next epoch."""

    @abstractmethod
    def _shutdown_workers(self) -> None:
        """Ends what runs for it; a state was loaded, and the next iteration begins there."""

    @abstractmethod
    def _check_process(self) -> None:
        """Raises ForkedProcessError where the iterator is of another process."""

    @property
    @abstractmethod
    def _is_forked(self) -> bool:
        """Whether the iterator is of another process."""
