"""Files of a store in which records are dead, and files that are removed while they are read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cached_epochs import digests, loader_of, make_photographs, wait_for_another_second
from image_folders import save_jpeg

import fastload
from fastload import _native
from fastload._decode_cache import _build
from fastload.cli import main

NUM_FILES = 12
HOUR_NS = 3600 * 10**9
of_images = pytest.mark.parametrize("what", ["coefficients", "pixels"])
LAST = "f" * 16  # of the name of a file that is listed after any other


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
    return loader_of(photographs, fastload.Cache(store, "1G", what=what))


def fill(photographs: Path, store: Path, what: Any) -> None:
    loader = cached(photographs, store, what)
    assert loader.cache.fill(loader, progress=False) == NUM_FILES


def change(photographs: Path, count: int) -> None:
    wait_for_another_second()
    for seed, path in enumerate(sorted(photographs.rglob("*.jpg"))[:count]):
        save_jpeg(path, 100 + seed, 160, 120)


def files_of(store: Path, what: str) -> list[Path]:
    return sorted((store / "v1").glob(f"{what}-*.dat"))


def copied(file: Path) -> Path:
    """Copies a file of records under another name, as another process would have built it."""
    copy = file.with_name(f"{file.name.partition('-')[0]}-{LAST}.dat")
    for ending in (".dat", ".dir"):
        shutil.copy(file.with_suffix(ending), copy.with_suffix(ending))
    return copy


@of_images
def test_info_counts_as_dead_what_another_file_has_better(photographs: Path, store: Path, what: str, run: Any) -> None:
    fill(photographs, store, what)
    (old,) = files_of(store, what)
    change(photographs, 8)
    fill(photographs, store, what)
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
def test_of_two_files_with_the_same_records_one_is_dead_and_stays(
    photographs: Path, store: Path, what: str, run: Any
) -> None:
    fill(photographs, store, what)
    (file,) = files_of(store, what)
    copy = copied(file)
    told = json.loads(run("info", store, "--json"))["files"]
    assert [row["dead_bytes"] for row in told if row["name"] == copy.stem] == [copy.stat().st_size]
    assert "removed: " not in run("clear", store, "--stale")
    assert files_of(store, what) == [file, copy]


@of_images
def test_an_epoch_that_reads_a_file_goes_on_when_it_is_removed(
    photographs: Path, store: Path, what: str, run: Any
) -> None:
    fill(photographs, store, what)
    loader = cached(photographs, store, what)
    iterator = iter(loader)
    first = next(iterator)
    assert f"folder removed: {store}" in run("clear", store) or files_of(store, what) == []
    assert digests([[first, *iterator]]) == digests([list(loader_of(photographs, None))])
    stats = loader.stats()
    assert stats.cache_coefficient_hits + stats.cache_pixel_hits == NUM_FILES
