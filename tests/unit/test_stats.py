"""The typed view of the counters."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import json
import pickle
import re
import sys
import timeit
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import pytest
from made_samples import in_threads

from fastload._display import _stats
from fastload._display._stats import LoaderStats
from fastload._process._waits import WaitHistogram, interval_of, middle_seconds

COUNTERS: dict[str, Any] = {
    "samples_native": 90,
    "samples_fallback": 7,
    "fallback_reasons": {"not a jpeg": 4, "truncated": 3},
    "stage_seconds": {"read": 0.5, "decode": 2.5},
    "worker_wait_seconds": 0.25,
    "wait_counts": {"1048576": 3},
    "bytes_held": 1 << 40,
    "queue_depth": 2,
}


def test_counters_become_fields_and_missing_ones_are_zero() -> None:
    stats = LoaderStats.from_counters(COUNTERS, {"samples_python": 3, "consumer_wait_seconds": 1.5})
    assert (stats.samples_native, stats.samples_fallback, stats.samples_python, stats.samples) == (90, 7, 3, 100)
    assert stats.fallback_reasons["truncated"] == 3
    assert stats.stage_seconds["decode"] == 2.5
    assert (stats.consumer_wait_seconds, stats.worker_wait_seconds) == (1.5, 0.25)
    assert (stats.bytes_held, stats.queue_depth, stats.samples_failed) == (1 << 40, 2, 0)


def test_as_dict_is_plain_json_and_names_every_field() -> None:
    values = LoaderStats.from_counters(COUNTERS).as_dict()
    assert json.loads(json.dumps(values)) == values
    assert {name: values[name] for name in COUNTERS} == COUNTERS
    assert set(values) == {entry.name for entry in dataclasses.fields(LoaderStats)}


def test_a_snapshot_does_not_change() -> None:
    stats = LoaderStats.from_counters(COUNTERS)
    mutable: Any = stats
    with pytest.raises(dataclasses.FrozenInstanceError):
        mutable.samples_native = 1
    with pytest.raises(TypeError):
        mutable.fallback_reasons["truncated"] = 1
    COUNTERS["stage_seconds"]["read"] = 9.0
    assert stats.stage_seconds["read"] == 0.5
    COUNTERS["stage_seconds"]["read"] = 0.5


def test_snapshots_compare_and_pickle() -> None:
    stats = LoaderStats.from_counters(COUNTERS)
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert stats != LoaderStats()


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([{"samples_natve": 1}], "counter 'samples_natve' is unknown; known: batches_delivered, "),
        ([{"queue_depth": 1}, {"queue_depth": 2}], "counter 'queue_depth' is given twice"),
    ],
)
def test_misspelt_and_doubled_counters_are_refused(parts: list[dict[str, int]], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LoaderStats.from_counters(*parts)


FULL = LoaderStats(
    **{entry.name: 3 for entry in dataclasses.fields(LoaderStats) if entry.type in ("int", "float")},
    fallback_reasons={"not a JPEG": 2, "a reason <b> that is long, " * 5: 1},
    image_fallback_reasons={"progressive": 1},
    stage_seconds={f"stage {number}": 1.5 for number in range(12)},
    wait_counts={interval_of(10**number): 1 for number in range(12)},
)


def test_the_table_shows_only_nonzero_values() -> None:
    stats = LoaderStats.from_counters(COUNTERS, {"consumer_wait_seconds": 1.5})
    assert str(stats).splitlines() == [
        "fastload: 97 samples in 0 batches",
        "  samples      native                  90  92.8 %",
        "               decoded by Pillow        7   7.2 %  not a jpeg 4, truncated 3",
        "  stage times  read                500 ms  16.7 %",
        "               decode              2.50 s  83.3 %",
        "  waits        you, for batches    1.50 s          p50 1.08 ms, p99 1.08 ms, longest 1.08 ms",
        "               workers, for work   250 ms",
        "  memory       batches            1.10 TB",
    ]
    assert str(LoaderStats()) == "fastload: 0 samples in 0 batches"
    assert str(LoaderStats(batches_delivered=1, samples_native=1)).startswith("fastload: 1 sample in 1 batch\n")
    assert "  waits  between batches  3.00 s    600 ms a batch" in str(
        LoaderStats(batches_delivered=5, consumer_busy_seconds=3.0)
    )


def test_the_largest_table_fits_a_screen() -> None:
    lines = str(FULL).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("consumer", "workers", "clause"),
    [
        (3.0, 1.0, "loading is the bottleneck: "),
        (1.0, 3.0, "training is the bottleneck: "),
        (1.0, 1.5, "loading is about as fast"),
    ],
)
def test_the_waits_say_which_side_limits(consumer: float, workers: float, clause: str) -> None:
    waits = {"consumer_wait_seconds": consumer, "worker_wait_seconds": workers}
    assert clause in str(LoaderStats(batches_delivered=1, **waits))
    assert clause not in str(LoaderStats(**waits))  # unknown before the first batch


def test_notebooks_show_the_table_with_every_cell_escaped() -> None:
    shown = FULL._repr_html_()
    root = ElementTree.fromstring(shown)
    assert len(root.findall("tr")) == len(str(FULL).splitlines()) - 1
    assert "a reason <b> that is long" in "".join(root.itertext())
    printer = mock.Mock()
    FULL._repr_pretty_(printer, False)
    printer.text.assert_called_once_with(str(FULL))


def test_a_difference_subtracts_counts_and_keeps_current_levels() -> None:
    earlier = LoaderStats(
        samples_native=5, bytes_held=100, queue_depth=4, stage_seconds={"read": 0.5}, wait_counts={16: 2, 32: 1}
    )
    later = LoaderStats(
        samples_native=8,
        bytes_held=70,
        queue_depth=1,
        stage_seconds={"read": 0.75, "decode": 2.0},
        wait_counts={16: 2, 32: 4, 64: 1},
        fallback_reasons={"truncated": 1},
    )
    assert later - earlier == LoaderStats(
        samples_native=3,
        bytes_held=70,
        queue_depth=1,
        stage_seconds={"read": 0.25, "decode": 2.0},
        wait_counts={32: 3, 64: 1},
        fallback_reasons={"truncated": 1},
    )
    assert later - LoaderStats() == later


@pytest.mark.parametrize(
    ("earlier", "message"),
    [
        (LoaderStats(samples_native=2), r"samples_native would be negative \(1 - 2\): subtract the earlier stats\(\)"),
        (LoaderStats(wait_counts={16: 1}), r"wait_counts\[16\] would be negative \(0 - 1\)"),
    ],
)
def test_a_difference_the_wrong_way_round_is_refused(earlier: LoaderStats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoaderStats(samples_native=1) - earlier


def test_only_stats_can_be_subtracted() -> None:
    other: Any = 3
    with pytest.raises(TypeError, match="unsupported operand"):
        LoaderStats() - other


def test_the_docstring_says_which_fields_are_current_levels() -> None:
    text = inspect.cleandoc(LoaderStats.__doc__ or "").partition("Attributes:")[2].partition("Example:")[0]
    told = {name for name, words in re.findall(r"^ {4}(\w+): ((?:.|\n {8})+)", text, re.MULTILINE) if "urrent" in words}
    assert told == _stats.CURRENT_LEVELS


@pytest.mark.parametrize("nanoseconds", [0, 1, 31, 32, 33, 999, 10**6 + 1, 10**9 - 1, 3 * 10**11])
def test_a_wait_read_from_the_histogram_is_within_3_percent(nanoseconds: int) -> None:
    seconds = middle_seconds(interval_of(nanoseconds))
    assert seconds == pytest.approx(nanoseconds / 1e9, rel=1 / 32)


def test_quantiles_are_those_of_the_sorted_waits() -> None:
    waits = [number**3 for number in range(1, 1001)]
    counts = collections.Counter(map(interval_of, waits))
    stats = LoaderStats(wait_counts=counts)
    assert stats.wait_p50_seconds == pytest.approx(500**3 / 1e9, rel=1 / 16)
    assert stats.wait_p99_seconds == pytest.approx(990**3 / 1e9, rel=1 / 16)
    assert stats.wait_longest_seconds == pytest.approx(1000**3 / 1e9, rel=1 / 32)
    assert LoaderStats().wait_p99_seconds == 0.0
    with pytest.raises(ValueError, match=r"share must be in \[0.0, 1.0\], got 50"):
        stats.wait_quantile_seconds(50)


def test_threads_count_every_wait() -> None:
    waits = WaitHistogram()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(4, lambda _: [waits.add(n) for n in range(2000)])
    finally:
        sys.setswitchinterval(interval)
    found = waits.stats()
    assert sum(found["wait_counts"].values()) == 8000
    assert found["consumer_wait_seconds"] == pytest.approx(4 * sum(range(2000)) / 1e9)


def test_counting_a_wait_costs_less_than_a_microsecond() -> None:
    """Takes the best of many rounds, which is about a third of that."""
    waits = WaitHistogram()
    best = min(timeit.repeat(lambda: waits.add(12_345_678), number=1000, repeat=20)) / 1000
    assert best < 1e-6
