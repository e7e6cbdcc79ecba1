"""Counters of a loader, as a typed snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from fastload._display._stats_rows import rows_of_stats
from fastload._display._table import Shown, Table
from fastload._display._units import counted
from fastload._process._waits import quantile_seconds

# What is said of a moment and does not add up; all other fields count from the first iteration on.
OF_A_MOMENT = frozenset(
    {
        "bytes_held",
        "scratch_bytes",
        "batches_in_flight",
        "queue_depth",
        "fallback_queue_depth",
        "staging_bytes",
        "device_bytes",
        "cache_records",
        "cache_memory_bytes",
    }
)


@dataclass(frozen=True)
class LoaderStats(Shown):
    """What one loader has done since it was made: counts, times and memory of all of its iterations and threads.

    ``print(stats)`` shows a table of what there is, and so does a notebook. ``later - earlier`` is what happened
    between two of them; it is a LoaderStats, too.

    Attributes:
        samples_native: Samples decoded and transformed by native code.
        samples_fallback: Samples decoded by Pillow, then transformed by native code.
        samples_python_tail: Those among them of which a part of the pipeline ran in Python, in threads.
        samples_python: Samples that the dataset made in Python, in threads or asked of torch's own iterator.
        samples_failed: Samples that raised a SampleError.
        samples_replaced: Bad samples in whose place others were handed out.
        samples_skipped: Bad samples that were left out of batches handed out.
        batches_delivered: Batches the consumer has received.
        bytes_read: Bytes of sample files.
        fallback_reasons: Samples per reason why the native decoder left them to Pillow.
        images_opened: JPEG files that the user's code opened with Pillow in workers that decode natively.
        images_native: Those among them whose pixels native code has made.
        image_fallback_reasons: Those that Pillow has decoded, per reason; of worker processes they are not counted. One
            whose pixels nobody asked for is neither.
        stage_seconds: Thread time per stage: "read", "header", "cache", "decode", "transform"; "fallback" is Pillow's;
            "tail", "dataset" and "collate" are the user's own Python's. What torch's own
            iterator does, with worker processes or without, is not timed.
        consumer_wait_seconds: Time that next() took to give the batches delivered; without workers it makes them. High:
            loading is the bottleneck.
        consumer_busy_seconds: Time from batches given to the next ones asked for: that of your training steps, where
            nothing else is done between.
        wait_counts: Batches by the time that next() took to give them: lower end of an interval in ns -> batches. A
            power of two has 16 intervals, so that times read from it are within 3.2 % of the true ones.
        worker_wait_seconds: Time the threads waited for work, summed over them. High: the consumer is the bottleneck.
        bytes_held: Memory of batch buffers at this moment, those given to the user and still in use included.
        scratch_bytes: Memory of the native threads for files, decoding and resizing at this moment.
        batches_in_flight: Batches asked of the threads and not yet received, at this moment.
        queue_depth: Batches among them that are ready at this moment.
        fallback_queue_depth: Samples that wait for Pillow at this moment.
        bytes_copied: Bytes that batches had on their way to the device: before conversion there.
        staging_bytes: Page-locked memory that native batches are written to on their way, at this moment.
        device_bytes: Memory on the device of batches that are not asked for yet, at this moment. Native batches only.
        pageable_allocations: How often page-locked memory could not be had and pageable memory was taken.
        gil_checks: How often a thread that runs Python looked whether another one held the GIL.
        gil_held: How often one did.
        gil_wait_seconds: How long it waited for the GIL then, in all.
        cache_hits: Images of which something was known from an earlier time.
        cache_misses: Those of which nothing was known, among those that would have gained.
        cache_coefficient_hits: Those of the hits that had the image's coefficients.
        cache_pixel_hits: Those that had its pixels behind the first steps of the transform.
        cache_stale: Coefficients or pixels of a file that was changed since.
        cache_checks: Images by coefficients or pixels that were decoded from their files as well.
        cache_mismatches: Hits whose record was of other contents: dropped, and the image decoded without it.
        cache_dropped: Records for which there was no room.
        cache_damaged: Records on disk that could not be read, or were not of the file that they were found for.
        cache_records: Records at this moment: in the memory of this process, of all its loaders, or in the store.
        cache_memory_bytes: Memory that they, or the places of those on disk, take at this moment.
        cache_bytes_read: From the store, by this process.
        cache_bytes_written: To the store, by this process.

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
    bytes_held: int = 0
    scratch_bytes: int = 0
    batches_in_flight: int = 0
    queue_depth: int = 0
    fallback_queue_depth: int = 0
    bytes_copied: int = 0
    staging_bytes: int = 0
    device_bytes: int = 0
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
    cache_records: int = 0
    cache_memory_bytes: int = 0
    cache_bytes_read: int = 0
    cache_bytes_written: int = 0

    def __post_init__(self) -> None:
        for name in ("fallback_reasons", "image_fallback_reasons", "stage_seconds"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        # JSON knows no other keys than text.
        counts = {int(interval): count for interval, count in self.wait_counts.items()}
        object.__setattr__(self, "wait_counts", MappingProxyType(counts))

    @classmethod
    def from_counters(cls, *counters: Mapping[str, Any]) -> LoaderStats:
        """Merges counters by name: the engine's and those kept in Python.

        Args:
            counters: name of a field -> its value.

        Returns:
            A snapshot in which what is missing is 0.

        Raises:
            ValueError: A counter has no field here, or two of the arguments have it.

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
        """Samples loaded, in whichever way; failed ones not included."""
        return self.samples_native + self.samples_fallback + self.samples_python

    @property
    def gil_held_share(self) -> float:
        """Share of the time in which a thread that runs Python finds the GIL held by another; 0.0 where none looked.

        Near 1: threads do not run in parallel, because the dataset's own Python takes all the time there is.
        """
        return self.gil_held / self.gil_checks if self.gil_checks else 0.0

    @property
    def mean_gil_wait_seconds(self) -> float:
        """How long a thread waits on average until it gets the GIL; 0.0 where none looked.

        The thread that trains waits as long each time that it comes back from an operation of torch's or from a file:
        5 ms at most (`sys.getswitchinterval()`) for each thread that computes in Python.
        """
        return self.gil_wait_seconds / self.gil_checks if self.gil_checks else 0.0

    @property
    def mean_step_seconds(self) -> float:
        """Time between a batch and the next request, on average: a training step; 0.0 where there was no batch."""
        return self.consumer_busy_seconds / self.batches_delivered if self.batches_delivered else 0.0

    @property
    def wait_p50_seconds(self) -> float:
        """Half of the batches took next() at most so long, to 3.2 %; 0.0 where there were none."""
        return self.wait_quantile_seconds(0.5)

    @property
    def wait_p99_seconds(self) -> float:
        """99 of 100 batches took next() at most so long, to 3.2 %; 0.0 where there were none."""
        return self.wait_quantile_seconds(0.99)

    @property
    def wait_longest_seconds(self) -> float:
        """The longest time that next() took to give a batch, to 3.2 %; 0.0 where there were none."""
        return self.wait_quantile_seconds(1.0)

    def wait_quantile_seconds(self, share: float) -> float:
        """How long next() took at most for this share of the batches.

        Args:
            share: from 0.0 to 1.0.

        Returns:
            Seconds, within 3.2 % of the true time; 0.0 where no batch was delivered.

        Raises:
            ValueError: `share` is none.
        """
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must be in [0.0, 1.0], got {share!r}")
        return quantile_seconds(self.wait_counts, share)

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain dicts and numbers, for logging as JSON.

        Returns:
            name -> number, or dict of numbers by text. ``LoaderStats(**values)`` makes the object again.
        """
        return {entry.name: _plain(getattr(self, entry.name)) for entry in fields(self)}

    def __sub__(self, earlier: LoaderStats) -> LoaderStats:
        """What happened between `earlier` and this one, of the same loader; memory and queues are as they are here.

        Raises:
            ValueError: `earlier` has more of something than this one, so it is later, or of another loader.
        """
        if not isinstance(earlier, LoaderStats):
            return NotImplemented
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in values.keys() - OF_A_MOMENT:
            values[name] = _difference(name, values[name], getattr(earlier, name))
        return LoaderStats(**values)

    def _table(self) -> Table:
        title = f"fastload: {counted(self.samples, 'sample')} in {counted(self.batches_delivered, 'batch', 'batches')}"
        return Table(title, rows_of_stats(self), right=frozenset({2, 3}))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_dict, (self.as_dict(),)


def _from_dict(values: dict[str, Any]) -> LoaderStats:
    return LoaderStats(**values)


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
