"""A loader's counters, warnings, explain() and repr() when worker processes make its batches."""

from __future__ import annotations

import itertools
import os
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from both_loaders import Processes
from cached_epochs import digests, loader_of, make_photographs
from numbered import Numbered
from torch.utils.data import IterableDataset
from torch.utils.data.datapipes.iter import IterableWrapper
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload
from fastload._decode_cache._worker_cache import CacheReport, WorkerCaches
from fastload._planning._verdicts import gil_advice
from fastload._process import _worker_process


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photographs(tmp_path_factory.mktemp("photographs"), 12)


def partly_native(folder: Path, cache: Any, **arguments: Any) -> fastload.DataLoader[Any]:
    return loader_of(folder, cache, collate_fn=list, workers="processes", **arguments)


# ---- counters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_persistent", [False, True])
def test_the_caches_of_workers_are_counted(photographs: Path, tmp_path: Path, is_persistent: bool) -> None:
    cache = fastload.Cache(tmp_path / "store")
    loader = partly_native(photographs, cache, persistent_workers=is_persistent)
    list(loader)
    first = loader.stats()
    assert (first.cache_hits, first.cache_misses) == (0, 12)
    list(loader)
    later = loader.stats()
    assert later.cache_hits - first.cache_hits + later.cache_misses - first.cache_misses == 12
    assert later.cache_hits > 0
    assert "known before" in str(later)
    if not is_persistent:  # workers publish their records at their end, and report again then
        assert later.cache_memory_bytes > 0
        assert (later.cache_hits, first.cache_misses) == (12, 12)
        assert first.cache_bytes_written > 0
        assert 6 <= first.cache_records <= 12  # the other worker's may not have been there yet
        assert later.cache_records == 12


class NamesOfThreads(Numbered):
    """Its samples are the numbers of threads of the worker that fastload has started."""

    def __getitem__(self, index: int) -> int:
        return sum(thread.name.startswith("fastload") for thread in threading.enumerate())


def test_a_worker_that_decodes_nothing_opens_no_store() -> None:
    loader = Processes(NamesOfThreads(8), 4, num_workers=2)
    assert torch.cat(list(loader)).tolist() == [0] * 8
    assert loader.stats().cache_records == 0


def test_a_worker_that_changes_its_environment_uses_the_store_of_the_program(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path / "of-the-program"))

    def move(worker_id: int) -> None:
        os.environ["FASTLOAD_CACHE"] = str(tmp_path / "of-the-worker")

    list(partly_native(photographs, fastload.Cache(), worker_init_fn=move))
    assert [path.name for path in tmp_path.iterdir()] == ["of-the-program"]


def test_records_in_a_store_count_once_and_those_apart_for_each_worker() -> None:
    def with_reports(*reports: tuple[int, bool]) -> Any:
        caches = WorkerCaches()
        for worker, (records, is_stored) in enumerate(reports):
            levels = {"cache_records": records, "cache_memory_bytes": 10}
            caches.note(worker, CacheReport({}, levels, is_stored, ("", None), False))
        found = caches.with_levels({"cache_records": 3, "cache_memory_bytes": 1})
        return found["cache_records"], found["cache_memory_bytes"]

    assert with_reports() == (3, 1)
    assert with_reports((5, True), (6, True)) == (6, 21)
    assert with_reports((5, False), (6, False)) == (11, 21)


def test_batches_of_an_epoch_that_was_left_are_counted() -> None:
    loader = Processes(Numbered(40), 4, num_workers=2, persistent_workers=True)
    assert len(list(itertools.islice(loader, 2))) == 2
    list(loader)
    assert loader.stats().samples_python == 40 + 6 * 4  # two were handed out, and four in flight
    assert loader.stats().batches_delivered == 2 + 10


def test_workers_count_their_waits_and_have_no_gil_to_wait_for() -> None:
    loader = Processes(Numbered(8), 2, num_workers=1)
    for _ in loader:
        pass
    stats = loader.stats()
    assert stats.worker_wait_seconds > 0
    assert (stats.gil_checks, stats.gil_held_share, stats.gil_wait_seconds) == (0, 0.0, 0.0)
    assert "workers, for work" in str(stats)
    assert "GIL" not in str(stats)


# ---- warnings --------------------------------------------------------------------------------------------------------


class Troubled(Numbered):
    """Each sample brings a warning of fastload's."""

    def sample(self, index: int) -> int:
        _worker_process.warn("a disk fails")
        if index > 17:
            _worker_process.warn("a second disk fails")
        return index


@pytest.mark.parametrize("num_epochs", [1, 2])
def test_a_warning_of_workers_is_raised_once_in_the_program(num_epochs: int) -> None:
    loader = Processes(Troubled(20), 4, num_workers=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(num_epochs):
            assert len(list(loader)) == 5
    told = [(warning.category, str(warning.message)) for warning in caught]
    assert told == [(RuntimeWarning, "a disk fails"), (RuntimeWarning, "a second disk fails")]


def test_a_warning_that_is_an_error_costs_no_batch() -> None:
    iterator = iter(Processes(Troubled(20), 4, num_workers=2))
    batches, errors = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while True:
            try:
                batches.append(next(iterator).tolist())
            except RuntimeWarning as error:
                errors.append(str(error))
            except StopIteration:
                break
    assert [index for batch in batches for index in batch] == list(range(20))
    assert errors == ["a disk fails", "a second disk fails"]


def test_a_cache_that_workers_cannot_open_is_told_once(photographs: Path, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    loader = partly_native(photographs, fastload.Cache(tmp_path / "store"))
    expected = digests(partly_native(photographs, None), 2)
    with pytest.warns(RuntimeWarning, match=r"^the cache .* is not used: ") as caught:
        assert digests(loader, 2) == expected
    assert len([warning for warning in caught if "is not used" in str(warning.message)]) == 1


# ---- explain(), repr() and torch's warning ---------------------------------------------------------------------------


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(range(8))


def forms(loader: fastload.DataLoader[Any]) -> tuple[str, str]:
    """Returns the makers of the batches in explain() and the workers in repr()."""
    found = [part for part in repr(loader).strip("<>").split(", ") if part.rpartition(" ")[2].startswith(KINDS)]
    return loader.explain().verdict.partition(":")[2].rpartition(", ")[2].partition(":")[0], *found


KINDS = ("worker", "thread", "process")
PROCESSES, THREADS, WORKERS, CALLER = "by 2 processes", "by 2 threads", "2 workers", "in the calling thread"


@pytest.mark.parametrize("workers", ["auto", "processes", "threads"])
def test_every_form_of_workers_is_named_as_it_is(photographs: Path, workers: Any) -> None:
    shown = "2 threads" if workers == "threads" else WORKERS
    by = THREADS if workers == "threads" else PROCESSES
    python = [
        loader_of(photographs, "auto", collate_fn=list, workers=workers),
        fastload.DataLoader(Numbered(8), 2, num_workers=2, workers=workers),
        fastload.DataLoader(Stream(), 2, num_workers=2, workers=workers),
        fastload.DataLoader(Stream(), 2, num_workers=3, num_streams=2, workers=workers),
    ]
    for loader in python:
        assert forms(loader) == (by, shown)
        list(loader)
        assert forms(loader) == (by, by.removeprefix("by "))
    native = loader_of(photographs, "auto", workers=workers)
    assert native.explain().verdict == "native: batches are read, decoded and transformed by 2 threads"
    assert shown in repr(native)
    list(native)
    assert "2 threads" in repr(native)
    native.workers = "threads" if workers == "processes" else "processes"
    assert ("2 threads" if workers == "processes" else WORKERS) in repr(native)
    caller = fastload.DataLoader(Numbered(8), 2, workers=workers)
    for _ in range(2):
        assert caller.explain().verdict.endswith(CALLER)
        assert "no workers" in repr(caller)
        list(caller)


def test_a_loader_of_a_data_pipe_has_processes() -> None:
    loader = fastload.DataLoader(IterableWrapper(range(4)), num_workers=2, workers="threads")
    list(loader)
    assert "2 processes" in repr(loader)


@pytest.mark.parametrize("workers", ["auto", "processes"])
def test_too_many_workers_of_a_native_loader_are_threads(photographs: Path, workers: Any) -> None:
    many = (os.cpu_count() or 1) + 1
    with pytest.warns(UserWarning, match=f"will use {many} worker threads") as caught:
        next(iter(loader_of(photographs, "auto", workers=workers, num_workers=many)))
    assert not [warning for warning in caught if "worker processes" in str(warning.message)]


def test_the_cache_row_says_where_workers_keep_indexes(
    photographs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path))
    loader = partly_native(photographs, "auto")
    assert "JPEG indexes in a folder that the workers share, at most" in loader.explain()
    for _ in range(2):
        list(loader)
    assert f"JPEG indexes in {str(tmp_path / 'decode')!r}, 12 records" in loader.explain()


def test_only_threads_are_advised_to_become_processes() -> None:
    stats = fastload.LoaderStats(gil_checks=20, gil_held=20)
    assert gil_advice(stats) is not None
    for workers, is_advised in (("threads", True), ("processes", False), ("auto", False)):
        loader = fastload.DataLoader(Numbered(8), num_workers=2, workers=workers)  # type: ignore[arg-type]
        loader._fastload.workers.counters.add({"gil_checks": 20, "gil_held": 20})
        assert ("workers='processes'" in loader.explain()) == is_advised


def refuse(image: Any) -> Any:
    raise ValueError("no such image")


def test_an_error_of_a_sample_names_the_kind_of_its_worker(photographs: Path) -> None:
    steps = transforms.Compose([transforms.Resize((40, 40)), transforms.ToTensor(), refuse])
    for workers, kind in (("processes", "process"), ("threads", "thread")):
        loader = fastload.DataLoader(ImageFolder(str(photographs), steps), num_workers=1, workers=workers)  # type: ignore[arg-type]
        with pytest.raises(fastload.SampleError, match=f"Caught ValueError in DataLoader worker {kind} 0"):
            next(iter(loader))
