"""The loader's counters, and the cost of its work."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest
import recipes
import torch.profiler
from numbered import Made
from torchvision.datasets import ImageFolder

import fastload
from fastload._loader import _current
from fastload._planning import _plan


@pytest.mark.parametrize("num_workers", [0, 2])
def test_every_clean_baseline_sample_is_native(clean_folder: Path, num_workers: int) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.training(48))
    loader = fastload.DataLoader(dataset, batch_size=5, num_workers=num_workers)
    assert loader.stats().samples_native == 0
    list(loader)
    stats = loader.stats()
    assert (stats.samples_native, stats.samples_fallback, stats.samples_failed) == (len(dataset), 0, 0)
    assert stats.batches_delivered == len(loader)
    assert all(stats.stage_seconds[stage] > 0 for stage in ("read", "header", "decode", "transform"))
    assert stats.bytes_read == sum(Path(path).stat().st_size for path, _ in dataset.samples)
    assert stats.bytes_held > 0
    assert stats.queue_depth == 0


def test_fallbacks_are_counted_with_their_reasons(mixed_folder: Path) -> None:
    dataset = ImageFolder(str(mixed_folder), recipes.training(48))
    loader = fastload.DataLoader(dataset, batch_size=5, num_workers=2)
    iterator = iter(loader)
    sources = [report.source for _ in iterator for report in iterator.batch_report()]
    stats = loader.stats()
    assert stats.samples_fallback == sources.count("fallback") >= 6
    assert stats.samples_native == sources.count("native") >= 7
    assert sum(stats.fallback_reasons.values()) == stats.samples_fallback
    assert stats.stage_seconds["fallback"] > 0


@pytest.mark.parametrize("init_fn", [None, lambda worker_id: None])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_plan_is_made_for_explain_and_for_each_iterator_and_the_table_once(
    clean_folder: Path, shuffle: bool, init_fn: Callable[[int], None] | None
) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.training(48))
    with (
        mock.patch.object(_plan, "lower_transform", side_effect=_plan.lower_transform) as transforms_lowered,
        mock.patch.object(_current, "lower_dataset", side_effect=_current.lower_dataset) as datasets_lowered,
    ):
        loader = fastload.DataLoader(dataset, shuffle=shuffle, num_workers=2, worker_init_fn=init_fn)
        loader.explain()
        list(loader)
        list(loader)
    assert (transforms_lowered.call_count, datasets_lowered.call_count) == (3, 1)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_python_calls_per_batch_do_not_depend_on_the_batch_size(
    clean_folder: Path, num_workers: int, shuffle: bool
) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.training(48))
    dataset.samples = dataset.samples * 10

    def calls_of_a_batch(batch_size: int) -> int:
        """Returns the fewest calls of several warm batches: the collector may run its callbacks in one of them."""
        loader = fastload.DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, shuffle=shuffle)
        iterator = iter(loader)
        counts = []
        for _ in range(8):
            calls = 0

            def count(frame: FrameType, event: str, argument: Any) -> None:
                nonlocal calls
                calls += event in ("call", "c_call")

            sys.setprofile(count)
            try:
                next(iterator)
            finally:
                sys.setprofile(None)
            counts.append(calls)
        return min(counts[2:])

    counts = {batch_size: calls_of_a_batch(batch_size) for batch_size in (1, 4, 16)}
    assert len(set(counts.values())) == 1, counts


def _squares(count: int) -> Any:
    return [number**2 for number in range(count)]


ITERATORS: dict[str, dict[str, Any]] = {
    "native, caller": {"num_workers": 0},
    "native, threads": {"num_workers": 2},
    "Python, caller": {"dataset": _squares(20), "num_workers": 0},
    "Python, threads": {"dataset": _squares(20), "num_workers": 2, "workers": "threads"},
    "Python, processes": {"dataset": _squares(20), "num_workers": 1, "workers": "processes"},
}


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("is_profiled", [False, True])
def test_the_wait_for_every_batch_is_counted_whoever_makes_it(clean_folder: Path, name: str, is_profiled: bool) -> None:
    arguments = {"dataset": ImageFolder(str(clean_folder), recipes.training(48)), **ITERATORS[name]}
    loader = fastload.DataLoader(**arguments, batch_size=4)
    with torch.profiler.profile() if is_profiled else contextlib.nullcontext():
        begin = time.perf_counter()
        for _ in loader:
            pass
        seconds = time.perf_counter() - begin
    stats = loader.stats()
    assert sum(stats.wait_counts.values()) == stats.batches_delivered == len(loader) >= 3
    assert 0 < stats.wait_p50_seconds <= stats.wait_longest_seconds
    assert stats.wait_longest_seconds * 0.96 <= stats.consumer_wait_seconds <= seconds


def test_a_batch_that_comes_late_is_the_longest_wait() -> None:
    def late(index: int) -> int:
        if index == 5:
            time.sleep(0.2)
        return index

    loader = fastload.DataLoader(Made(late, 8))
    list(loader)
    stats = loader.stats()
    assert stats.wait_longest_seconds > 0.19
    assert stats.wait_p50_seconds < 0.1


@pytest.mark.parametrize("name", ITERATORS)
def test_the_time_between_batches_is_the_consumers_and_not_that_between_epochs(clean_folder: Path, name: str) -> None:
    arguments = {"dataset": ImageFolder(str(clean_folder), recipes.training(48)), **ITERATORS[name]}
    is_kept = arguments["num_workers"] > 0
    loader = fastload.DataLoader(**arguments, batch_size=4, persistent_workers=is_kept)
    begin = time.perf_counter()
    for _ in loader:
        time.sleep(0.01)
    seconds = time.perf_counter() - begin
    stats = loader.stats()
    assert 0.01 * len(loader) <= stats.consumer_busy_seconds <= seconds
    assert stats.consumer_busy_seconds + stats.consumer_wait_seconds <= seconds
    assert stats.mean_step_seconds == pytest.approx(stats.consumer_busy_seconds / len(loader))
    for _ in loader:  # an epoch that is left, and continued later
        break
    time.sleep(0.1)
    next(iter(loader))
    assert (loader.stats() - stats).consumer_busy_seconds < 0.09
