"""How fast a loader could be, by each of the things that may limit it.

Note [limits]
One worker alone gives r samples/s and costs c seconds of CPU time for each. So n threads give at most n * r, and p
processors at most p / c, whatever the number of threads. Threads that run Python take turns with the GIL: where n of
them gave clearly less than either, and found the GIL held, what they gave is what the GIL allows. Worker processes have
one each, but send their batches through shared memory: a copy there, and one out of the worker's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastload._doctor._measure import Measured

_BUSY_GIL_SHARE = 0.4
_CLEARLY_LESS = 0.8
_SHARED_MEMORY_BYTES_PER_SECOND = 1e9


@dataclass(frozen=True)
class Limits:
    """Samples/s.

    Attributes:
        of_one: Of one worker alone.
        of_processors: Of all processors, whatever the number of threads.
        of_gil: Of threads that take turns with the GIL; infinite where they do not.
        of_processes: Of all processors, with the costs of worker processes.
        of_step: Of the training steps; infinite where the step is not known.
    """

    of_one: float
    of_processors: float
    of_gil: float
    of_processes: float
    of_step: float

    def of_threads(self, number: int) -> float:
        """Of so many threads, with the training steps."""
        return min(number * self.of_one, self.of_processors, self.of_gil, self.of_step)

    def of_worker_processes(self, number: int) -> float:
        """Of so many worker processes, with the training steps."""
        return min(number * self.of_one, self.of_processes, self.of_step)

    def enough_threads(self, most: int) -> int:
        """The fewest threads that reach the next limit; `most` where none does."""
        goal = min(self.of_processors, self.of_gil, self.of_step)
        return next((number for number in range(1, most) if number * self.of_one >= goal), most)


def find_limits(
    one: Measured, several: Measured | None, processors: float, step_seconds: float | None, batch_bytes: int
) -> Limits:
    """The limits, from measurements without a training step.

    Args:
        one: Of one worker.
        several: Of two threads or more; None where the loader has none of Python's.
        processors: Worth of time that there is.
        step_seconds: Of a training step; None where nobody knows.
        batch_bytes: Memory of a batch.
    """
    samples = one.samples_per_batch
    of_processors = processors / one.cpu_seconds
    of_gil = float("inf")
    if several is not None and several.gil_held_share >= _BUSY_GIL_SHARE:
        without_gil = min(several.num_workers * one.samples_per_second, of_processors)
        if several.samples_per_second < _CLEARLY_LESS * without_gil:
            of_gil = several.samples_per_second
    sending = 2 * batch_bytes / samples / _SHARED_MEMORY_BYTES_PER_SECOND
    return Limits(
        of_one=one.samples_per_second,
        of_processors=of_processors,
        of_gil=of_gil,
        of_processes=processors / (one.cpu_seconds + sending),
        of_step=samples / step_seconds if step_seconds else float("inf"),
    )
