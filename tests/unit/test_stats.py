"""The typed view of the counters."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest

from fastload._stats import LoaderStats

COUNTERS: dict[str, Any] = {
    "samples_native": 90,
    "samples_fallback": 7,
    "fallback_reasons": {"not a jpeg": 4, "truncated": 3},
    "stage_seconds": {"read": 0.5, "decode": 2.5},
    "worker_wait_seconds": 0.25,
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
