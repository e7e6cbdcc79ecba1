"""Files of a store that are mostly dead: `fastload cache info`, `clear --stale`, and the next epoch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cached_epochs import digests, let_go_of_stores, loader_of, make_photographs, wait_for_another_second
from image_folders import save_jpeg

import fastload
from fastload import _native
from fastload._decode_cache import _build
from fastload.cli import main

NUM_FILES = 12
HOUR_NS = 3600 * 10**9
of_images = pytest.mark.parametrize("what", ["coefficients", "pixels"])
FIRST, LAST = "0" * 16, "f" * 16  # names of files that are looked through before and after any other


@pytest.fixture(autouse=True)
def files_are_old_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", HOUR_NS)
    _native.clear_index_memory()


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    return make_photographs(tmp_path / "photographs", NUM_FILES)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command of `fastload cache`, which succeeds, and gives what it wrote."""

    def run_command(*arguments: Any) -> str:
        assert main(["cache", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run_command


def cached(photographs: Path, store: Path, what: Any) -> fastload.DataLoader[Any]:
    return loader_of(photographs, fastload.Cache(store, "1G", what=what, spot_checks=0))


def hits_in_an_epoch(photographs: Path, store: Path, what: Any) -> int:
    """The epoch has the batches of one without a store. Nobody uses the store behind it."""
    loader = cached(photographs, store, what)
    assert digests(loader) == digests(loader_of(photographs, None))
    stats = loader.stats()
    del loader
    let_go_of_stores()
    return stats.cache_coefficient_hits + stats.cache_pixel_hits


def change(photographs: Path, count: int) -> None:
    wait_for_another_second()
    for seed, path in enumerate(sorted(photographs.rglob("*.jpg"))[:count]):
        save_jpeg(path, 100 + seed, 160, 120)


def files_of(store: Path, what: str) -> list[Path]:
    return sorted((store / "v1").glob(f"{what}-*.dat"))


def copied(file: Path, digits: str) -> Path:
    """The same records in a file of another name, as two processes keep them that do not see each other's yet."""
    copy = file.with_name(f"{file.name.partition('-')[0]}-{digits}.dat")
    for ending in (".dat", ".dir"):
        shutil.copy(file.with_suffix(ending), copy.with_suffix(ending))
    return copy


@of_images
def test_a_file_that_is_mostly_dead_is_removed_and_its_other_records_are_made_again(
    photographs: Path, store: Path, what: str, run: Any
) -> None:
    assert hits_in_an_epoch(photographs, store, what) == 0
    (old,) = files_of(store, what)
    change(photographs, 8)
    assert hits_in_an_epoch(photographs, store, what) == 4
    (new,) = set(files_of(store, what)) - {old}
    text = run("clear", store, "--stale")
    assert text.startswith(f"fastload cache clear: 2 files removed from {store}, ")
    assert text.splitlines()[1:] == [f"  removed: {old.stem}: more than half of it is dead"]
    assert files_of(store, what) == [new]
    assert not old.with_suffix(".dir").exists()
    assert [hits_in_an_epoch(photographs, store, what) for _ in range(2)] == [8, NUM_FILES]


@of_images
@pytest.mark.parametrize("num_changed", [0, 4])
def test_a_file_of_which_less_than_half_is_dead_stays(
    photographs: Path, store: Path, what: str, num_changed: int, run: Any
) -> None:
    hits_in_an_epoch(photographs, store, what)
    change(photographs, num_changed)
    hits_in_an_epoch(photographs, store, what)
    files = files_of(store, what)
    assert len(files) == (2 if num_changed else 1)
    assert run("clear", store, "--stale") == f"fastload cache clear: 0 files removed from {store}, 0 bytes\n"
    assert files_of(store, what) == files
    assert hits_in_an_epoch(photographs, store, what) == NUM_FILES


@of_images
def test_info_counts_as_dead_what_another_file_has_better(photographs: Path, store: Path, what: str, run: Any) -> None:
    hits_in_an_epoch(photographs, store, what)
    (old,) = files_of(store, what)
    change(photographs, 8)
    hits_in_an_epoch(photographs, store, what)
    told = json.loads(run("info", store, "--json"))
    files = {file["name"]: file for file in told["files"] if file["kind"] == what}
    assert {file["live_records"] for file in files.values()} == {4, 8}
    assert (files[old.stem]["records"], files[old.stem]["live_records"]) == (NUM_FILES, 4)
    assert sum(file["dead_bytes"] for file in files.values()) == told["kinds"][what]["dead_bytes"]
    assert files[old.stem]["dead_bytes"] > old.stat().st_size / 2
    for file in files.values():
        assert file["live_bytes"] + file["dead_bytes"] == file["file_bytes"]
    assert told["kinds"][what]["records"] == NUM_FILES


@pytest.mark.parametrize("what", ["index", "coefficients", "pixels"])
def test_of_two_files_with_the_same_records_one_is_removed_but_none_of_indexes(
    photographs: Path, store: Path, what: str, run: Any
) -> None:
    hits_in_an_epoch(photographs, store, what)
    (file,) = files_of(store, what)
    copy = copied(file, LAST)
    told = json.loads(run("info", store, "--json"))["files"]
    assert [row["dead_bytes"] for row in told if row["name"] == copy.stem] == [copy.stat().st_size]
    text = run("clear", store, "--stale")
    assert (f"removed: {copy.stem}: " in text) == (what != "index")
    assert files_of(store, what) == ([file, copy] if what == "index" else [file])


@of_images
def test_a_file_that_is_mostly_dead_stays_while_its_writer_lives(
    photographs: Path, store: Path, what: str, run: Any
) -> None:
    loader = cached(photographs, store, what)
    plain = digests(loader_of(photographs, None), 2)
    assert digests(loader) == plain[:1]
    assert all(opened.native.flush(60) for opened in loader._fastload.cache._stores())
    (file,) = files_of(store, what)
    other = copied(file, FIRST)
    text = run("clear", store, "--stale")
    assert text.startswith(f"fastload cache clear: 0 files removed from {store}, ")
    assert text.splitlines()[1:] == [f"  left: {file.name}: a process that is alive writes to it"]
    assert files_of(store, what) == [other, file]
    assert digests(loader, 2) == plain
    del loader
    let_go_of_stores()
    assert f"removed: {file.stem}: more than half of it is dead" in run("clear", store, "--stale")
    assert files_of(store, what) == [other]


@of_images
def test_an_epoch_that_reads_a_file_goes_on_when_it_is_removed(
    photographs: Path, store: Path, what: str, run: Any
) -> None:
    hits_in_an_epoch(photographs, store, what)
    (file,) = files_of(store, what)
    loader = cached(photographs, store, what)
    iterator = iter(loader)
    first = next(iterator)
    copied(file, FIRST)
    assert f"removed: {file.stem}: more than half of it is dead" in run("clear", store, "--stale")
    assert digests([[first, *iterator]]) == digests([list(loader_of(photographs, None))])
    stats = loader.stats()
    assert stats.cache_coefficient_hits + stats.cache_pixel_hits == NUM_FILES
