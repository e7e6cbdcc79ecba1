"""What a state tells of where the workers of an iteration stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fastload._iteration._maker import WorkerStates
from fastload._iteration.threads._moments import MomentLog
from fastload._iteration.threads._worker_draws import GeneratorSnapshot, WorkerStart
from fastload._resume._saved_worker import SavedWorker
from fastload._resume._torchdata_keys import user_path
from fastload._resume._user_state import UserState


@dataclass(frozen=True)
class Span:
    """The batches of an epoch that a state is about.

    Attributes:
        first: With which the iteration has begun; where it goes on in an epoch, not 0.
        first_worker: Of a stream, whose that was.
        begins_at: With which an iteration is to begin that loads the state.
        position: Of the first one that was not handed out.
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
    """What tells where the workers stand where an iteration is to begin.

    It may be called when the iteration has gone on; it waits for workers that have not begun.

    Args:
        log: What they have left behind their batches.
        beginnings: Where each of them began the epoch.
        span: Of the state.
        is_of_stream: Whether the samples are a stream's.
        timeout_seconds: Of a wait; 0: it has no limit.
    """
    numbers = range(len(beginnings))
    found = [log.at(span.begins_at, number) for number in numbers]
    has_ended = [log.has_ended(span.position, number) for number in numbers]
    next_worker = _next_worker(log, span, len(beginnings)) if is_of_stream else None

    def places() -> WorkerStates:
        begun = [
            beginning.wait(timeout_seconds) if is_of_stream or moment is None else moment
            for beginning, moment in zip(beginnings, found, strict=True)
        ]
        if is_of_stream and not span.is_behind_last and not all(each.is_stateful for each in beginnings):
            from_first = [
                replace(_saved(moment, beginnings, number), user=UserState(has_ended=has_ended[number]))
                for number, moment in enumerate(begun)
            ]
            return WorkerStates(None, tuple(from_first), span.position - span.first, span.first_worker)
        moments = [begun[number] if moment is None else moment for number, moment in enumerate(found)]
        saved = tuple(_saved(moment, beginnings, number) for number, moment in enumerate(moments))
        return WorkerStates(None, saved, span.position - span.begins_at, next_worker)

    return places


def _saved(moment: GeneratorSnapshot, beginnings: Sequence[WorkerStart], number: int) -> SavedWorker:
    return moment.saved(user_path(len(beginnings), number))


def _next_worker(log: MomentLog, span: Span, num_workers: int) -> int:
    if span.is_behind_last:
        return 0
    worker = log.worker_before(span.begins_at)
    return span.first_worker if worker is None else (worker + 1) % num_workers
