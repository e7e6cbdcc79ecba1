"""The resume points of an iteration's workers, as a state has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fastload._iteration._maker import WorkerStates
from fastload._iteration._saved_worker import SavedWorker
from fastload._iteration._torchdata_keys import user_path
from fastload._iteration.threads._moments import MomentLog
from fastload._iteration.threads._worker_draws import GeneratorSnapshot, WorkerStart
from fastload._resume._user_state import UserState


@dataclass(frozen=True)
class Span:
    """The batches of an epoch that a state covers.

    Attributes:
        first: Number of the iteration's first batch; not 0 if the iteration continues an epoch.
        first_worker: The worker that made this batch, for a stream.
        begins_at: Number of the batch at which an iteration that loads the state begins.
        position: Number of the first batch that was not handed out.
        is_behind_last: Whether the epoch is over.
    """

    first: int
    first_worker: int
    begins_at: int
    position: int
    is_behind_last: bool


def places_later(
    log: MomentLog, beginnings: Sequence[WorkerStart], span: Span, *, is_of_stream: bool, timeout_seconds: float
) -> Callable[[], WorkerStates]:
    """Returns a function that gives the workers' resume points at the batch where the state begins.

    It may be called after the iteration has gone on, and waits for workers that have not begun.

    Args:
        log: The snapshots that the workers took after their batches.
        beginnings: The position at which each worker began the epoch.
        span: The batches that the state covers.
        is_of_stream: Whether the samples come from a stream.
        timeout_seconds: Limit of each wait; 0: no limit.
    """
    numbers = range(len(beginnings))
    found = [log.at(span.begins_at, number) for number in numbers]
    has_ended = [log.has_ended(span.position, number) for number in numbers]
    next_worker = _next_worker(log, span, len(beginnings)) if is_of_stream else None

    def places() -> WorkerStates:
        begun = [
            beginning.wait(timeout_seconds) if is_of_stream or snapshot is None else snapshot
            for beginning, snapshot in zip(beginnings, found, strict=True)
        ]
        if is_of_stream and not span.is_behind_last and not all(each.is_stateful for each in beginnings):
            from_first = [
                replace(_saved(snapshot, beginnings, number), user=UserState(has_ended=has_ended[number]))
                for number, snapshot in enumerate(begun)
            ]
            return WorkerStates(None, tuple(from_first), span.position - span.first, span.first_worker)
        snapshots = [begun[number] if snapshot is None else snapshot for number, snapshot in enumerate(found)]
        saved = tuple(_saved(snapshot, beginnings, number) for number, snapshot in enumerate(snapshots))
        return WorkerStates(None, saved, span.position - span.begins_at, next_worker)

    return places


def _saved(snapshot: GeneratorSnapshot, beginnings: Sequence[WorkerStart], number: int) -> SavedWorker:
    return snapshot.saved(user_path(len(beginnings), number))


def _next_worker(log: MomentLog, span: Span, num_workers: int) -> int:
    if span.is_behind_last:
        return 0
    worker = log.worker_before(span.begins_at)
    return span.first_worker if worker is None else (worker + 1) % num_workers
