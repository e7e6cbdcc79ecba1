"""Records that are built before training: Cache.fill(), and loaders that only read what it has written."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import recipes
from bad_folders import ListOfFiles
from cached_epochs import SIZE, digests, let_go_of_stores, loader_of, make_photographs
from torch.utils.data import DataLoader as TorchDataLoader
from torchvision.datasets import ImageFolder

import fastload
from fastload import _native
from fastload._decode_cache import _build, _file_records
from fastload._decode_cache._build import FileRun
from fastload.cli import main

NUM_FILES = 12
of_images = pytest.mark.parametrize("what", ["coefficients", "pixels"])


@pytest.fixture(autouse=True)
def files_are_old_enough(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", 3600 * 10**9)
    monkeypatch.setattr(_file_records, "SPOT_CHECK_INTERVAL", 0)
    _file_records._warn_of_lack.cache_clear()
    _native.clear_index_memory()
    yield
    let_go_of_stores()


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    return make_photographs(tmp_path / "photographs", NUM_FILES)


@pytest.fixture
def cached(photographs: Path, tmp_path: Path) -> Callable[[Any], fastload.DataLoader[Any]]:
    return lambda what: loader_of(photographs, fastload.Cache(tmp_path / "store", "1G", what=what))


Cached = Callable[[Any], fastload.DataLoader[Any]]


def records_in(store: Path, what: str) -> list[Path]:
    """Returns the files of records of a kind."""
    return sorted((store / "v1").glob(f"{what}-*"))


def hits(loader: fastload.DataLoader[Any]) -> int:
    stats = loader.stats()
    return stats.cache_coefficient_hits + stats.cache_pixel_hits


def test_a_fill_makes_what_the_command_makes(photographs: Path, cached: Cached, tmp_path: Path) -> None:
    loader = cached("coefficients")
    loader.cache.fill(loader, progress=False)
    command = ["cache", "build", str(photographs), "--what", "coefficients", "--max-bytes", "1G"]
    assert main([*command, "--path", str(tmp_path / "other")]) == 0
    sizes = [
        sorted(file.stat().st_size for file in records_in(path, "coefficients"))
        for path in (loader.cache.path, tmp_path / "other")
    ]
    assert sizes[0] == sizes[1]
    assert main([*command, "--path", str(loader.cache.path)]) == 0
    assert len(records_in(loader.cache.path, "coefficients")) == 2  # .dat and .dir: nothing was missing


@of_images
def test_a_loader_whose_store_has_no_records_names_the_command_once_and_goes_on(
    photographs: Path, cached: Cached, what: str
) -> None:
    loader = cached(what)
    target = "FOLDER" if what == "coefficients" else "script.py:loader"
    command = f"fastload cache build {target} --what {what} --path {loader.cache.path} --max-bytes 1000000000"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", RuntimeWarning)
        assert digests(loader, 3) == digests(loader_of(photographs, None), 3)
        digests(cached(what))
    texts = [str(warning.message) for warning in seen if issubclass(warning.category, RuntimeWarning)]
    assert texts == [
        f"the {what} in {str(loader.cache.path)!r} are not used: there are none yet: `{command}` builds them, and so "
        "does cache.fill(loader). Until then images are decoded by their indexes."
    ]
    assert f"there are none yet: `{command}` builds them" in json.dumps(loader.explain().as_dict())
    assert loader.stats().cache_hits == 2 * NUM_FILES  # by the indexes
    assert hits(loader) == 0
    assert records_in(loader.cache.path, what) == []


@of_images
@pytest.mark.filterwarnings("ignore:the .* are not used")
def test_a_loader_finds_in_its_next_epoch_what_was_built_meanwhile(
    photographs: Path, cached: Cached, what: str
) -> None:
    loader = cached(what)
    expected = digests(loader_of(photographs, None))
    assert digests(loader) == expected
    cached(what).cache.fill(loader, progress=False)
    assert digests(loader) == expected
    assert hits(loader) == NUM_FILES
    assert loader.stats().cache_misses == NUM_FILES  # of the first epoch
    assert "none yet" not in loader.explain()


@of_images
def test_an_interrupted_fill_publishes_what_is_there_and_goes_on_later(cached: Cached, what: str) -> None:
    loader = cached(what)
    take, count = FileRun._take, iter(range(NUM_FILES))

    def interrupting(run: FileRun, action: Any, place: int) -> None:
        def build(path: bytes) -> Any:
            outcome = action(path)
            if next(count) == 5:
                os.kill(os.getpid(), signal.SIGINT)
                assert run._has_ended.wait(60)
            return outcome

        take(run, build, place)

    with (
        mock.patch.object(FileRun, "_take", interrupting),
        mock.patch("fastload._decode_cache._cache.num_auto_workers", return_value=1),
        pytest.raises(KeyboardInterrupt),
    ):
        loader.cache.fill(loader, progress=False)
    with mock.patch.object(_native.RecordBuilder, "build_with_pixels"):
        digests(loader)
    assert hits(loader) == 6
    assert loader.cache.fill(loader, progress=False) == NUM_FILES
    digests(loader)
    assert hits(loader) == 6 + NUM_FILES


def test_files_that_cannot_be_read_are_counted(photographs: Path, cached: Cached) -> None:
    loader = cached("coefficients")
    sorted(photographs.rglob("*.jpg"))[0].unlink()
    with pytest.warns(RuntimeWarning, match="^1 file have no coefficients: 1 file cannot be read$"):
        assert loader.cache.fill(loader, progress=False) == NUM_FILES - 1


def test_a_fill_of_what_is_no_loader_over_files_is_refused(photographs: Path, cached: Cached) -> None:
    cache = cached("coefficients").cache
    with pytest.raises(TypeError, match=r"^loader must be a fastload\.DataLoader, got DataLoader$"):
        cache.fill(TorchDataLoader(range(3)))  # type: ignore[arg-type,type-var]
    images = ImageFolder(str(photographs), recipes.evaluation(SIZE, SIZE - 8))
    own = fastload.DataLoader(ListOfFiles(images, images.transform), batch_size=4)
    with pytest.raises(ValueError, match=r"^it is not known which files this loader reads: .*fastload cache build"):
        cache.fill(own)


def test_a_folder_that_cannot_be_used_is_an_error_of_a_fill(photographs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    loader = loader_of(photographs, fastload.Cache(tmp_path / "file", "1G", what="coefficients"))
    with pytest.raises(OSError, match="Not a directory"):
        loader.cache.fill(loader, progress=False)
