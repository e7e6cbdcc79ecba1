"""The rows of a LoaderStats table: the nonzero values by stage, with their shares and meanings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastload._display._units import counted, in_bytes, in_percent, in_seconds

_Row = tuple[str, ...]
# If one side waited this many times as long as the other, the other is the bottleneck.
_CLEARLY = 2.0
_MOST_STAGES = 5  # 25 lines with all other rows


def rows_of_stats(stats: Any) -> list[_Row]:
    """Returns (topic, name, value, share, note) for each row of a LoaderStats; zero values have no row."""
    return [
        *_samples(stats),
        *_stage_times(stats.stage_seconds),
        *_waits(stats),
        *_images(stats),
        *_gil(stats),
        *_memory(stats),
        *_cache(stats),
        *_device(stats),
    ]


def _samples(stats: Any) -> Iterator[_Row]:
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


def _waits(stats: Any) -> Iterator[_Row]:
    if stats.consumer_wait_seconds:
        p50, p99, longest = (
            in_seconds(seconds)
            for seconds in (stats.wait_p50_seconds, stats.wait_p99_seconds, stats.wait_longest_seconds)
        )
        note = f"p50 {p50}, p99 {p99}, longest {longest}"
        yield "waits", "you, for batches", in_seconds(stats.consumer_wait_seconds), "", note
    if stats.consumer_busy_seconds:
        note = f"{in_seconds(stats.mean_step_seconds)} a batch"
        yield "waits", "between batches", in_seconds(stats.consumer_busy_seconds), "", note
    if stats.worker_wait_seconds:
        yield "waits", "workers, for work", in_seconds(stats.worker_wait_seconds), "", _what_limits(stats)


def _what_limits(stats: Any) -> str:
    if not stats.batches_delivered:
        return ""
    you, workers = stats.consumer_wait_seconds, stats.worker_wait_seconds
    if you > _CLEARLY * workers:
        return "loading is the bottleneck: batches come too late"
    if workers > _CLEARLY * you:
        return "training is the bottleneck: batches are ready in time"
    return "loading is about as fast as training"


def _images(stats: Any) -> Iterator[_Row]:
    if stats.images_opened:
        note = _reasons(stats.image_fallback_reasons)
        yield "images", "opened by your code", f"{stats.images_opened:,}", "", ""
        native = in_percent(stats.images_native, stats.images_opened)
        yield "images", "decoded natively", f"{stats.images_native:,}", native, note and f"by Pillow: {note}"


def _gil(stats: Any) -> Iterator[_Row]:
    if stats.gil_checks:
        note = f"a thread waits for it {in_seconds(stats.mean_gil_wait_seconds)} on average"
        yield "GIL", "held by another", "", in_percent(stats.gil_held, stats.gil_checks), note


def _memory(stats: Any) -> Iterator[_Row]:
    if stats.bytes_read:
        yield "files", "read", in_bytes(stats.bytes_read), "", ""
    if stats.bytes_held:
        ready = f", {stats.queue_depth:,} of them ready" if stats.queue_depth else ""
        note = f"{counted(stats.batches_in_flight, 'batch', 'batches')} in flight{ready}"
        yield "memory", "batches", in_bytes(stats.bytes_held), "", note if stats.batches_in_flight else ""
    if stats.scratch_bytes:
        yield "memory", "threads", in_bytes(stats.scratch_bytes), "", ""


def _cache(stats: Any) -> Iterator[_Row]:
    if looked_for := stats.cache_hits + stats.cache_misses:
        records = counted(stats.cache_records, "record")
        note = f"{records} in {in_bytes(stats.cache_memory_bytes)}"
        if moved := stats.cache_bytes_read + stats.cache_bytes_written:
            damaged = f", {stats.cache_damaged:,} damaged" if stats.cache_damaged else ""
            note = f"{records} on disk, {in_bytes(moved)} read and written{damaged}"
        for hits, what in ((stats.cache_coefficient_hits, "coefficients"), (stats.cache_pixel_hits, "pixels")):
            note = f"{hits:,} by {what}; {note}" if hits else note
        yield "cache", "known before", f"{stats.cache_hits:,}", in_percent(stats.cache_hits, looked_for), note


def _device(stats: Any) -> Iterator[_Row]:
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
    ordered = sorted(((reason, count) for reason, count in counts.items() if count), key=lambda item: -item[1])
    return ", ".join(f"{reason} {count:,}" for reason, count in ordered)
