"""A loader's counters, as a typed snapshot."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from fastload._display._table import Shown, Table
from fastload._display._units import counted, in_bytes, in_percent, in_seconds
from fastload._process._waits import quantile_seconds


def _level() -> int:
    """Declares a field that is a current level and does not add up; all others count from the first iteration on."""
    return field(default=0, metadata={"is_level": True})


class WaitTimes(Shown):
    """An object with `wait_counts`, the batches by the time that next() took, and the times read from these."""

    wait_counts: Mapping[int, int]

    @property
    def wait_p50_seconds(self) -> float:
        """The time that half of the batches took next() at most, to within 3.2 %; 0.0 without batches."""
        return self.wait_quantile_seconds(0.5)

    @property
    def wait_p99_seconds(self) -> float:
        """The time that 99 of 100 batches took next() at most, to within 3.2 %; 0.0 without batches."""
        return self.wait_quantile_seconds(0.99)

    @property
    def wait_longest_seconds(self) -> float:
        """The longest time that next() took to return a batch, to within 3.2 %; 0.0 without batches."""
        return self.wait_quantile_seconds(1.0)

    def wait_quantile_seconds(self, share: float) -> float:
        """Returns the time that next() took at most for this share of the batches.

        Args:
            share: from 0.0 to 1.0.

        Returns:
            Seconds, to within 3.2 %; 0.0 without batches.

        Raises:
            ValueError: `share` is outside this range.
        """
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be in [0.0, 1.0], got {share!r}")
        return quantile_seconds(self.wait_counts, share)

    def _wait_quantiles(self) -> str:
        """Returns the three times in words, for a table."""
        times = (self.wait_p50_seconds, self.wait_p99_seconds, self.wait_longest_seconds)
        return "p50 {}, p99 {}, longest {}".format(*map(in_seconds, times))


@dataclass(frozen=True)
class LoaderStats(WaitTimes):
    """Counts, times and memory of one loader since it was made, over all of its iterations and workers.

    ``print(stats)`` and notebooks show a table of the nonzero values. ``later - earlier`` is another LoaderStats with
    what happened between the two.

    Attributes:
        samples_native: Samples decoded and transformed by native code.
        samples_fallback: Samples decoded by Pillow, then transformed by native code.
        samples_python_tail: Samples among those for which part of the pipeline ran in Python.
        samples_python: Samples that the dataset made in Python, in workers or in the calling thread.
        samples_failed: Samples that raised a SampleError.
        samples_replaced: Bad samples for which substitutes were delivered.
        samples_skipped: Bad samples left out of delivered batches.
        batches_delivered: Batches the consumer has received.
        bytes_read: Bytes of sample files.
        fallback_reasons: Samples left to Pillow, per reason.
        images_opened: JPEG files that the user's code opened with Pillow in workers that decode natively.
        images_native: Images among those whose pixels native code has made.
        image_fallback_reasons: Images among those that Pillow has decoded, per reason. An image whose pixels were never
            read counts as neither.
        stage_seconds: Time of threads and worker processes per stage: "read", "header", "cache", "decode", "transform";
            "fallback" is Pillow's; "tail", "dataset" and "collate" are the user's own Python code.
        consumer_wait_seconds: Time that next() took to return batches; without workers it includes making them. High:
            loading is the bottleneck.
        consumer_busy_seconds: Time between a batch and the request for the next one: your training steps, if the loop
            does nothing else.
        wait_counts: Batches by the time that next() took: lower end of an interval in ns -> batches. A power of two has
            16 intervals, so times read from it are within 3.2 % of the true ones.
        worker_wait_seconds: Time the workers waited for work, summed over them. High: the consumer is the bottleneck.
        bytes_held: Current memory of batch buffers, including those that the user still holds; from worker processes,
            those that batches were copied to. The memory in which the processes make batches is not counted.
        scratch_bytes: Current memory of the native threads for files, decoding and resizing.
        batches_in_flight: Batches currently requested from the workers and not yet received.
        queue_depth: Batches among those that are currently ready.
        fallback_queue_depth: Samples that currently wait for Pillow.
        bytes_copied: Bytes of batches copied to the device, before conversion there.
        staging_bytes: Current page-locked memory that native batches pass through on their way to the device.
        device_bytes: Current device memory of native batches that are not requested yet.
        pageable_allocations: How often page-locked memory was refused and pageable memory was used instead.
        gil_checks: How often a worker thread that runs Python checked whether another thread held the GIL. Worker
            processes do not check: each has a GIL of its own.
        gil_held: How often another one did.
        gil_wait_seconds: Total time that the checking threads then waited for the GIL.
        cache_hits: Images with cached data from an earlier time.
        cache_misses: Images without any, among those that would have gained.
        cache_coefficient_hits: Hits with the image's coefficients.
        cache_pixel_hits: Hits with the image's pixels after the first steps of the transform.
        cache_stale: Coefficients or pixels of a file that has changed since.
        cache_checks: Images loaded by coefficients or pixels that were also decoded from their files.
        cache_mismatches: Hits whose record had other contents: dropped, and the image decoded without it.
        cache_dropped: Records dropped for lack of room.
        cache_damaged: Records on disk that could not be read or belonged to another file.
        cache_records: Current records: in the memory of this process, for all its loaders, or in the store. For worker
            processes, also after their end: as they last reported.
        cache_memory_bytes: Current memory of these records, or of the index of those on disk; the sum over worker
            processes, as they last reported.
        cache_bytes_read: Bytes that this process, or the workers, have read from the store.
        cache_bytes_written: Bytes that this process, or the workers, have written to the store.

    Example:
        >>> loader = fastload.DataLoader(list(range(100)), batch_size=10)
        >>> before = loader.stats()
        >>> batches = list(loader)
        >>> (loader.stats() - before).batches_delivered
        10
    """

    samples_native: int = 0
    samples_fallback: int = 0
    samples_python_tail: int = 0
    samples_python: int = 0
    samples_failed: int = 0
    samples_replaced: int = 0
    samples_skipped: int = 0
    batches_delivered: int = 0
    bytes_read: int = 0
    fallback_reasons: Mapping[str, int] = field(default_factory=dict)
    images_opened: int = 0
    images_native: int = 0
    image_fallback_reasons: Mapping[str, int] = field(default_factory=dict)
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    consumer_wait_seconds: float = 0.0
    consumer_busy_seconds: float = 0.0
    wait_counts: Mapping[int, int] = field(default_factory=dict)
    worker_wait_seconds: float = 0.0
    bytes_held: int = _level()
    scratch_bytes: int = _level()
    batches_in_flight: int = _level()
    queue_depth: int = _level()
    fallback_queue_depth: int = _level()
    bytes_copied: int = 0
    staging_bytes: int = _level()
    device_bytes: int = _level()
    pageable_allocations: int = 0
    gil_checks: int = 0
    gil_held: int = 0
    gil_wait_seconds: float = 0.0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_coefficient_hits: int = 0
    cache_pixel_hits: int = 0
    cache_stale: int = 0
    cache_checks: int = 0
    cache_mismatches: int = 0
    cache_dropped: int = 0
    cache_damaged: int = 0
    cache_records: int = _level()
    cache_memory_bytes: int = _level()
    cache_bytes_read: int = 0
    cache_bytes_written: int = 0

    def __post_init__(self) -> None:
        for name in ("fallback_reasons", "image_fallback_reasons", "stage_seconds"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        # JSON has only text keys.
        counts = {int(interval): count for interval, count in self.wait_counts.items()}
        object.__setattr__(self, "wait_counts", MappingProxyType(counts))

    @classmethod
    def from_counters(cls, *counters: Mapping[str, Any]) -> LoaderStats:
        """Merges counters by name: the engine's and those kept in Python.

        Args:
            counters: field name -> value.

        Returns:
            A snapshot; fields without a counter are 0.

        Raises:
            ValueError: A counter has no field here, or two arguments have the same counter.

        Example:
            >>> fastload.LoaderStats.from_counters({"samples_native": 3}, {"bytes_read": 20}).samples
            3
        """
        known = {entry.name for entry in fields(cls)}
        merged: dict[str, Any] = {}
        for part in counters:
            for name, value in part.items():
                if name not in known or name in merged:
                    problem = "given twice" if name in merged else f"unknown; known: {', '.join(sorted(known))}"
                    raise ValueError(f"counter {name!r} is {problem}")
                merged[name] = value
        return cls(**merged)

    @property
    def samples(self) -> int:
        """The number of samples loaded in any way; failed ones not included."""
        return self.samples_native + self.samples_fallback + self.samples_python

    @property
    def gil_held_share(self) -> float:
        """The share of checks by threads that run Python that found the GIL held by another thread.

        0.0 without checks, as in worker processes. Near 1: threads do not run in parallel, because the dataset's own
        Python code takes all the time.
        """
        return self.gil_held / self.gil_checks if self.gil_checks else 0.0

    @property
    def mean_gil_wait_seconds(self) -> float:
        """The mean time that a thread waits for the GIL; 0.0 without checks.

        The training thread waits this long each time it returns from a torch operation or from reading a file: at most
        5 ms (`sys.getswitchinterval()`) for each thread that computes in Python.
        """
        return self.gil_wait_seconds / self.gil_checks if self.gil_checks else 0.0

    @property
    def mean_step_seconds(self) -> float:
        """The mean time between a batch and the next request, which is a training step; 0.0 without batches."""
        return self.consumer_busy_seconds / self.batches_delivered if self.batches_delivered else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain dicts and numbers, for logging as JSON.

        Returns:
            name -> number, or dict with text keys. ``LoaderStats(**values)`` makes the object again.
        """
        return {entry.name: _plain(getattr(self, entry.name)) for entry in fields(self)}

    def __sub__(self, earlier: LoaderStats) -> LoaderStats:
        """Returns what happened between `earlier` and this snapshot of the same loader; levels stay as they are here.

        Raises:
            ValueError: A count is larger in `earlier`, so it is later or of another loader.
        """
        if not isinstance(earlier, LoaderStats):
            return NotImplemented
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in values.keys() - CURRENT_LEVELS:
            values[name] = _difference(name, values[name], getattr(earlier, name))
        return LoaderStats(**values)

    def _table(self) -> Table:
        title = f"fastload: {counted(self.samples, 'sample')} in {counted(self.batches_delivered, 'batch', 'batches')}"
        return Table(title, _rows_of(self), right=(2, 3))

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(LoaderStats, **self.as_dict()), ()


CURRENT_LEVELS = frozenset(entry.name for entry in fields(LoaderStats) if "is_level" in entry.metadata)


def _plain(value: Any) -> Any:
    return {str(key): part for key, part in value.items()} if isinstance(value, Mapping) else value


def _difference(name: str, after: Any, before: Any) -> Any:
    if isinstance(after, Mapping):
        keys = [*after, *(key for key in before if key not in after)]
        parts = {key: _difference(f"{name}[{key!r}]", after.get(key, 0), before.get(key, 0)) for key in keys}
        return {key: part for key, part in parts.items() if part or isinstance(part, float)}
    if after < before:
        raise ValueError(
            f"{name} would be negative ({after} - {before}): subtract the earlier stats() of a loader from later ones "
            "of the same loader, as in `later - earlier`"
        )
    return after - before


_Row = tuple[str, ...]
# If one side waited this many times as long as the other, the other is the bottleneck.
_CLEARLY = 2.0
_MOST_STAGES = 5  # 25 lines with all other rows


def _rows_of(stats: LoaderStats) -> list[_Row]:
    """Returns (topic, name, value, share, note) for each row of the table; zero values have no row."""
    return [
        *_samples(stats),
        *_stage_times(stats.stage_seconds),
        *_waits(stats),
        *_users_code(stats),
        *_memory(stats),
        *_cache(stats),
        *_device(stats),
    ]


def _samples(stats: LoaderStats) -> Iterator[_Row]:
    python_note = f"{stats.samples_python_tail:,} ended in Python" if stats.samples_python_tail else ""
    ways = [
        ("native", stats.samples_native, python_note),
        ("decoded by Pillow", stats.samples_fallback, _reasons(stats.fallback_reasons)),
        ("made by Python", stats.samples_python, ""),
    ]
    for what, count, note in ways:
        if count:
            yield "samples", what, f"{count:,}", in_percent(count, stats.samples), note
    if stats.samples_replaced or stats.samples_skipped:
        note = f"{stats.samples_replaced:,} replaced, {stats.samples_skipped:,} left out, in delivered batches"
        yield "samples", "bad", f"{stats.samples_replaced + stats.samples_skipped:,}", "", note
    elif stats.samples_failed:
        yield "samples", "failed", f"{stats.samples_failed:,}", "", "each raised a SampleError"


def _stage_times(stage_seconds: Mapping[str, float]) -> Iterator[_Row]:
    total = sum(stage_seconds.values())
    spent = [(stage, seconds) for stage, seconds in stage_seconds.items() if seconds > 0]
    for stage, seconds in spent[:_MOST_STAGES]:
        yield "stage times", stage, in_seconds(seconds), in_percent(seconds, total), _STAGE_NOTES.get(stage, "")
    if rest := sum(seconds for _, seconds in spent[_MOST_STAGES:]):
        yield "stage times", "others", in_seconds(rest), in_percent(rest, total), ""


_STAGE_NOTES = {
    "fallback": "Pillow's",
    "tail": "the Python part of your transform",
    "dataset": "your data set's Python",
    "collate": "collate_fn",
}


def _waits(stats: LoaderStats) -> Iterator[_Row]:
    if stats.consumer_wait_seconds:
        yield "waits", "you, for batches", in_seconds(stats.consumer_wait_seconds), "", stats._wait_quantiles()
    if stats.consumer_busy_seconds:
        note = f"{in_seconds(stats.mean_step_seconds)} a batch"
        yield "waits", "between batches", in_seconds(stats.consumer_busy_seconds), "", note
    if stats.worker_wait_seconds:
        yield "waits", "workers, for work", in_seconds(stats.worker_wait_seconds), "", _what_limits(stats)


def _what_limits(stats: LoaderStats) -> str:
    if not stats.batches_delivered:
        return ""
    you, workers = stats.consumer_wait_seconds, stats.worker_wait_seconds
    if you > _CLEARLY * workers:
        return "loading is the bottleneck: batches come too late"
    if workers > _CLEARLY * you:
        return "training is the bottleneck: batches are ready in time"
    return "loading is about as fast as training"


def _users_code(stats: LoaderStats) -> Iterator[_Row]:
    if stats.images_opened:
        note = _reasons(stats.image_fallback_reasons)
        yield "images", "opened by your code", f"{stats.images_opened:,}", "", ""
        native = in_percent(stats.images_native, stats.images_opened)
        yield "images", "decoded natively", f"{stats.images_native:,}", native, note and f"by Pillow: {note}"
    if stats.gil_checks:
        note = f"a thread waits for it {in_seconds(stats.mean_gil_wait_seconds)} on average"
        yield "GIL", "held by another", "", in_percent(stats.gil_held, stats.gil_checks), note


def _memory(stats: LoaderStats) -> Iterator[_Row]:
    if stats.bytes_read:
        yield "files", "read", in_bytes(stats.bytes_read), "", ""
    if stats.bytes_held:
        ready = f", {stats.queue_depth:,} of them ready" if stats.queue_depth else ""
        note = f"{counted(stats.batches_in_flight, 'batch', 'batches')} in flight{ready}"
        yield "memory", "batches", in_bytes(stats.bytes_held), "", note if stats.batches_in_flight else ""
    if stats.scratch_bytes:
        yield "memory", "threads", in_bytes(stats.scratch_bytes), "", ""


def _cache(stats: LoaderStats) -> Iterator[_Row]:
    if looked_for := stats.cache_hits + stats.cache_misses:
        records = counted(stats.cache_records, "record")
        note = f"{records} in {in_bytes(stats.cache_memory_bytes)}"
        if moved := stats.cache_bytes_read + stats.cache_bytes_written:
            damaged = f", {stats.cache_damaged:,} damaged" if stats.cache_damaged else ""
            note = f"{records} on disk, {in_bytes(moved)} read and written{damaged}"
        for hits, what in ((stats.cache_coefficient_hits, "coefficients"), (stats.cache_pixel_hits, "pixels")):
            note = f"{hits:,} by {what}; {note}" if hits else note
        yield "cache", "known before", f"{stats.cache_hits:,}", in_percent(stats.cache_hits, looked_for), note


def _device(stats: LoaderStats) -> Iterator[_Row]:
    if stats.bytes_copied:
        yield "device", "copied there", in_bytes(stats.bytes_copied), "", ""
    if stats.device_bytes:
        yield "device", "batches ahead", in_bytes(stats.device_bytes), "", ""
    if stats.staging_bytes:
        yield "device", "page-locked memory", in_bytes(stats.staging_bytes), "", ""
    if stats.pageable_allocations:
        note = "times that page-locked memory was refused"
        yield "device", "pageable instead", f"{stats.pageable_allocations:,}", "", note


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in Counter(counts).most_common() if count)
