"""One batch on its way: asked for, made by one thread or by several, and taken by who asked.

Note [turns]
A worker of torch makes its batches one after the other, and the samples of each in order, so everything it draws comes
from one generator in that order. Here the samples of one batch may be loaded by several threads at once, each for the
worker whose batch it is. One that draws, or asks which worker it is, needs its turn: all that the worker would have
done before has to be over. It must not wait for that where it stands, inside of the user's code, which may hold a lock
that those before it need. So it is left by way of NotYetError, waits outside, and begins anew. The user's code may
catch even that, with a bare except say: whatever comes of a sample that was once refused its turn is discarded, and
what it draws further comes from a stand-in of the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastload._delivery._thread_order import Mark
from fastload._threads._random_stream import RandomKey

T = TypeVar("T")

# How often a thread that waits for its turn looks whether it is still wanted.
_POLL_SECONDS = 0.05


class AbandonedError(BaseException):
    """The batch is not wanted any more. No Exception: the user's code is left by it."""


class NotYetError(BaseException):
    """The sample at hand draws, and it is not its turn. No Exception: most of the user's code is left by it."""


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked for.

    Attributes:
        indices: As the sampler gave them.
        key: Of this iteration's random numbers, where they depend on one.
    """

    indices: Any
    key: RandomKey


class Task:
    """One batch.

    Args:
        request: Whose batch it is.
        epoch: Of the iterator.
        worker_id: Of the worker that would make it in torch.
        previous: The task before it of the same worker.
        wake: Called when it is done.
        next_worker: Whose turn it is then.
    """

    def __init__(
        self,
        request: Request,
        epoch: int,
        worker_id: int,
        previous: Task | None,
        wake: Callable[[], None],
        next_worker: int,
    ) -> None:
        self.request = request
        self.indices = request.indices
        self.key = request.key
        self.epoch = epoch
        self.worker_id = worker_id
        self.next_worker = next_worker
        self.pieces: list[Piece] | None = None  # None: not divided yet
        self.is_done = False
        self.is_end_of_stream = False
        self.split: SplitBatch | None = None
        self._previous = previous
        self._wake = wake
        self._progress = threading.Condition()
        self._num_waiting = 0
        self.mark: Mark | None = None  # of what was given to a device for the batch
        self._batch: Any = None
        self._error: BaseException | None = None

    def finish(
        self,
        batch: Any = None,
        error: BaseException | None = None,
        *,
        mark: Mark | None = None,
        is_end_of_stream: bool = False,
    ) -> None:
        self._batch, self._error, self.mark = batch, error, mark
        self.is_end_of_stream = is_end_of_stream
        self._previous = None  # else a chain of all tasks
        self.pieces = []
        self.is_done = True
        self.announce_progress()
        self._wake()

    def take(self) -> Any:
        """The batch, once, or raises what became of it. What a thread's frames know of this task holds neither then."""
        batch, error = self._batch, self._error
        self._batch = self._error = None
        if error is None:
            return batch
        try:
            raise error
        finally:
            del error  # its traceback has this frame

    # ---- Note [turns] ----------------------------------------------------------------------------------------------

    def has_turn(self, position: int) -> bool:
        """Whether all is over that the worker does before sample `position` of this batch."""
        previous = self._previous
        if previous is not None and not previous.is_done:
            return False
        return self.split is None or self.split.num_first_done() >= position

    def wait_for_turn(self, position: int, is_abandoned: Callable[[], bool]) -> None:
        """Raises AbandonedError: `is_abandoned` says so, or a sample before has failed."""
        if (previous := self._previous) is not None:
            previous._wait(lambda: previous.is_done, is_abandoned)
        self._wait(lambda: self.has_turn(position), is_abandoned)
        if self.split is not None and self.split.has_failed_before(position):
            raise AbandonedError

    def announce_progress(self) -> None:
        if self._num_waiting:
            with self._progress:
                self._progress.notify_all()

    def _wait(self, is_over: Callable[[], bool], is_abandoned: Callable[[], bool]) -> None:
        with self._progress:
            self._num_waiting += 1
            try:
                while not is_over():
                    if is_abandoned():
                        raise AbandonedError
                    self._progress.wait(_POLL_SECONDS)
            finally:
                self._num_waiting -= 1


class SplitBatch:
    """The samples of a batch that several threads load."""

    def __init__(self, num_samples: int) -> None:
        self.samples: list[Any] = [None] * num_samples
        self.marks: list[Mark | None] = [None] * num_samples  # of what was given to a device for each
        self._is_done = [False] * num_samples
        self._errors: dict[int, BaseException] = {}
        self._num_first_done = 0
        # pop() gives each number to one thread: that which gets 0 has finished the last sample.
        self._left = list(range(num_samples))

    def finish(self, position: int, sample: Any, mark: Mark | None, error: BaseException | None) -> bool:
        """Keeps what became of a sample. True, once, when all of them are done."""
        self.samples[position] = sample
        self.marks[position] = mark
        if error is not None:
            self._errors[position] = error
        self._is_done[position] = True
        return self._left.pop() == 0

    def has_failed_before(self, position: int) -> bool:
        return any(failed < position for failed in tuple(self._errors))

    @property
    def first_error(self) -> BaseException | None:
        return self._errors[min(self._errors)] if self._errors else None

    def num_first_done(self) -> int:
        """How many samples are done from the first on without a gap."""
        count = self._num_first_done
        while count < len(self._is_done) and self._is_done[count]:
            count += 1
        self._num_first_done = count
        return count


def in_turn(action: Callable[[], T], is_refused: Callable[[], bool], wait_for_turn: Callable[[], None]) -> T:
    """`action`, begun anew in its turn if it turns out to need one. `is_refused`: whether it was refused one."""
    try:
        result = action()
    except NotYetError:
        pass
    except BaseException:
        if not is_refused():
            raise
    else:
        if not is_refused():
            return result
        del result
    wait_for_turn()
    return action()


class Piece:
    """What one thread does of a task: all of it, or some samples.

    A thread may be given it more than once, and takes it once.
    """

    __slots__ = ("is_probe", "is_taken", "positions", "task", "thread")

    def __init__(
        self, task: Task, thread: int, positions: Sequence[int] | None = None, *, is_probe: bool = False
    ) -> None:
        self.task = task
        self.thread = thread
        self.positions = positions  # None: the batch as a whole
        self.is_probe = is_probe
        self.is_taken = False
