"""The speed that a loader could reach, by each of the things that may limit it.

Note [limits]
One worker alone gives r samples/s and costs c seconds of CPU time for each. So n threads give at most n * r, and p
processors at most p / c, whatever the number of threads. Threads that run Python take turns with the GIL: if n threads
gave clearly less than both limits, and found the GIL held, then their rate is the limit of the GIL. If native code
waits for files, it reads several files at a time, and the rate of n threads grows with that number.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastload._tools.doctor._measure import Measured

_BUSY_GIL_SHARE = 0.25
_CLEARLY_LESS = 0.8
_READ_SHARE = 0.5


@dataclass(frozen=True)
class Limits:
    """The rates in samples/s that limit a loader.

    Attributes:
        of_one: Rate of one worker alone.
        of_processors: Rate of all processors, whatever the number of workers.
        of_gil: Rate of threads that take turns with the GIL; infinite if they do not, and for processes.
        of_step: Rate of the training steps; infinite if the step is unknown.
        waits_for_files: Whether native code waits for files most of the time.
    """

    of_one: float
    of_processors: float
    of_gil: float
    of_step: float
    waits_for_files: bool = False

    def of_workers(self, number: int) -> float:
        """Returns the rate of this number of workers, with the training steps."""
        return min(self._without_limits(number), self.of_processors, self.of_gil, self.of_step)

    def enough_workers(self, most: int) -> int:
        """Returns the smallest number of workers that reaches the next limit; `most` if none does."""
        goal = min(self.of_processors, self.of_gil, self.of_step)
        return next((number for number in range(1, most) if self._without_limits(number) >= goal), most)

    def _without_limits(self, number: int) -> float:
        share = _reads_at_a_time(number) / _reads_at_a_time(1) if self.waits_for_files else number
        return self.of_one * share


def find_limits(one: Measured, several: Measured | None, processors: float, step_seconds: float | None) -> Limits:
    """Computes the limits from measurements without a training step.

    Args:
        one: Measurement of one worker.
        several: Measurement of two or more threads; None if the loader has no Python threads.
        processors: Number of processors' worth of time that is available.
        step_seconds: Length of a training step; None if unknown.
    """
    of_processors = processors / one.cpu_seconds
    of_gil = float("inf")
    if several is not None and several.gil_held_share >= _BUSY_GIL_SHARE:
        without_gil = min(several.num_workers * one.samples_per_second, of_processors)
        if several.samples_per_second < _CLEARLY_LESS * without_gil:
            of_gil = several.samples_per_second
    return Limits(
        of_one=one.samples_per_second,
        of_processors=of_processors,
        of_gil=of_gil,
        of_step=one.samples_per_batch / step_seconds if step_seconds else float("inf"),
        waits_for_files=one.share_of("read") >= _READ_SHARE,
    )


def _reads_at_a_time(num_threads: int) -> float:
    """Returns the reads at a time by readers, as in count_readers() of csrc/engine/engine.cpp, and by the threads."""
    return min(max(6 * num_threads, 8), 64) + num_threads / 2
