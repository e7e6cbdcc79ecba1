"""Indexes in memory or on disk change no byte, error, draw or order, in this process and in later ones."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
from bad_folders import ListOfFiles
from cached_epochs import (
    RECIPES,
    SIZE,
    assert_only_records,
    digests,
    let_go_of_stores,
    loader_of,
    make_photographs,
    publish,
    shuffled_loader,
    store_of,
    told_in_two_epochs,
)
from child_loader import wait_for
from image_folders import save_jpeg
from torchvision.datasets import ImageFolder

import fastload
from fastload import _native


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    _native.clear_index_memory()
    yield
    _native.clear_index_memory()
    let_go_of_stores()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photographs(tmp_path_factory.mktemp("photographs"), 16)


@pytest.fixture
def cache(tmp_path: Path) -> fastload.Cache:
    return fastload.Cache(tmp_path / "store")


@pytest.fixture(params=["memory", "disk"])
def setting(request: pytest.FixtureRequest, cache: fastload.Cache) -> Any:
    """Returns the cache argument of a loader."""
    return cache if request.param == "disk" else "auto"


@pytest.mark.parametrize("num_workers", [0, 3])
@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
def test_three_epochs_have_the_bytes_without_a_cache_and_so_has_the_next_run(
    odd_images: Path, setting: Any, recipe: str, is_own: bool, rng: str, num_workers: int
) -> None:
    images = ImageFolder(str(odd_images), RECIPES[recipe]())
    dataset = ListOfFiles(images, images.transform) if is_own else images

    def run(cache: Any) -> tuple[list[str], Any, int]:
        loader = shuffled_loader(dataset, rng, num_workers, cache)
        found = digests(loader, 3)
        return found, loader.stats(), num_workers if "process" in repr(loader) else 1

    expected, plain, _ = run(None)
    assert plain.cache_misses == plain.cache_hits == 0
    first, filled, _ = run(setting)
    let_go_of_stores()
    second, known, writers = run(setting)
    assert first == second == expected
    assert filled.cache_mismatches == filled.cache_dropped == filled.cache_damaged == 0
    assert known.cache_mismatches == known.cache_dropped == known.cache_damaged == 0
    if not is_own or num_workers > 0:
        assert filled.cache_hits >= 22
        assert known.cache_hits >= 60
        assert known.cache_records >= 15
        # Not the progressive one, nor the PNG. One that several processes have made counts for each, and without a
        # folder of their own they share one with all processes of the user.
        if writers == 1 or isinstance(setting, fastload.Cache):
            assert known.cache_records <= 22 * writers
        assert known.cache_memory_bytes > 0
        let_go_of_stores()
    if isinstance(setting, fastload.Cache):
        if not is_own or num_workers > 0:
            assert_only_records(setting.path / "v1")
        else:  # Pillow decodes, and nothing is kept
            assert not setting.path.exists()


def test_another_process_finds_what_this_one_has_kept(
    photographs: Path, cache: fastload.Cache, run_child: Callable[..., Any]
) -> None:
    expected = digests(loader_of(photographs, None))
    program = """
    import os, fastload
    from cached_epochs import digests, loader_of
    loader = loader_of(os.environ["FOLDER"], fastload.Cache(os.environ["STORE"]))
    print(*digests(loader), loader.stats().cache_hits, loader.stats().cache_misses)
    """
    env = {"FOLDER": str(photographs), "STORE": str(cache.path)}
    # Each ends after its first epoch, and publishes its indexes on the way out.
    printed = [run_child(program, env=env, warm=True).stdout.split() for _ in range(2)]
    assert printed == [[*expected, "0", "16"], [*expected, "16", "0"]]


def test_bad_files_have_their_errors_and_places(odd_images: Path, cache: fastload.Cache, tmp_path: Path) -> None:
    folder = shutil.copytree(odd_images, tmp_path / "images")
    victim = folder / "class0" / "02.jpg"
    victim.write_bytes(victim.read_bytes()[:2000])
    dataset = ImageFolder(str(folder), recipes.training(SIZE))
    settings = (None, "auto", cache, fastload.Cache(cache.path, max_bytes="1MiB"))
    plain, *cached = (told_in_two_epochs(dataset, setting) for setting in settings)
    assert cached == [plain] * 3
    assert any("02.jpg" in line for line in plain)


def test_files_that_change_in_place_with_their_old_times_are_other_files(
    photographs: Path, setting: Any, tmp_path: Path
) -> None:
    folder = shutil.copytree(photographs, tmp_path / "images")
    digests(loader_of(folder, setting))
    let_go_of_stores()
    for seed, path in enumerate(sorted(folder.rglob("*.jpg"))):
        before = path.stat()
        save_jpeg(path, 100 + seed, 160, 120, quality=30)
        path.write_bytes(path.read_bytes().ljust(before.st_size, b"\0"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
    loader = loader_of(folder, setting)
    assert digests(loader, 2) == digests(loader_of(folder, None), 2)
    assert loader.stats().cache_mismatches == 0


def test_loaders_of_one_process_share_a_store_until_the_last_lets_go(photographs: Path, cache: fastload.Cache) -> None:
    loaders = [loader_of(photographs, fastload.Cache(cache.path)) for _ in range(2)]
    digests(loaders[0])
    digests(loaders[1])
    assert store_of(loaders[0]) is store_of(loaders[1])
    assert loaders[1].stats().cache_hits == 16
    del loaders
    let_go_of_stores()
    # The thread ends before its last reference to the store does.
    assert wait_for(lambda: not [path for path in open_files() if str(cache.path) in path])


def open_files() -> list[str]:
    return [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]


def test_each_store_has_a_secret_of_its_own_for_its_keys(photographs: Path, tmp_path: Path) -> None:
    """With one that is known, files could be made that have each other's indexes."""

    def key(name: str) -> tuple[int, int, int]:
        loader = loader_of(photographs, fastload.Cache(tmp_path / name))
        iter(loader)
        return store_of(loader).native.make_decode_cache(0).key_of(b"the same contents")

    assert key("one") == key("one")
    assert key("one")[:2] != key("other")[:2]
    path = tmp_path / "one" / "v1" / "key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(set(path.read_bytes())) > 100


def test_caches_and_loaders_with_one_can_be_pickled(photographs: Path, cache: fastload.Cache) -> None:
    assert pickle.loads(pickle.dumps(cache)) == cache
    loader = loader_of(photographs, cache)
    expected = digests(loader)
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.cache == cache
    assert digests(copy) == expected
    assert copy.stats().cache_hits == 16


def test_a_native_loader_gets_the_same_with_processes(photographs: Path, cache: fastload.Cache) -> None:
    expected = digests(loader_of(photographs, None), 2)
    here = loader_of(photographs, cache)
    assert digests(here, 2) == expected
    processes = loader_of(photographs, cache, workers="processes", multiprocessing_context="fork")
    assert digests(processes, 2) == expected
    assert digests(here, 2) == expected
    assert here.stats().cache_damaged == here.stats().cache_mismatches == 0
    publish(here)
    assert_only_records(cache.path / "v1")


def test_copies_are_known_by_their_contents(odd_images: Path, tmp_path: Path) -> None:
    first = fastload.DataLoader(ImageFolder(str(odd_images), recipes.evaluation(64, 32)), batch_size=5)
    list(first)
    copy = tmp_path / "copy"
    shutil.copytree(odd_images, copy)
    second = fastload.DataLoader(ImageFolder(str(copy), recipes.evaluation(64, 32)), batch_size=5)
    list(second)
    stats = second.stats()
    assert (stats.cache_misses, stats.cache_hits) == (0, first.stats().cache_misses)


def test_explain_and_stats_say_what_is_kept(odd_images: Path) -> None:
    dataset = ImageFolder(str(odd_images), recipes.evaluation(64, 32))
    loader = fastload.DataLoader(dataset, batch_size=5, num_workers=1)
    assert "cache      JPEG indexes in memory, at most" in loader.explain()
    list(loader)
    assert "cache      JPEG indexes in memory, of 2" in loader.explain()
    assert "known before" in str(loader.stats())
    silent = fastload.DataLoader(dataset, batch_size=5, num_workers=1, cache=None)
    list(silent)
    assert "cache" not in silent.explain()
    assert "known before" not in str(silent.stats())
    in_processes = fastload.DataLoader(dataset, batch_size=5, num_workers=1, workers="processes")
    assert "cache      JPEG indexes in memory, at most" in in_processes.explain()  # native threads make its batches


def test_other_values_are_refused(odd_images: Path) -> None:
    with pytest.raises(ValueError, match=r"cache must be 'auto', a fastload\.Cache or None, got 'index'"):
        fastload.DataLoader(ImageFolder(str(odd_images)), cache="index")  # type: ignore[arg-type]


def test_a_loader_that_is_told_to_keep_nothing_from_now_on(odd_images: Path) -> None:
    loader = fastload.DataLoader(ImageFolder(str(odd_images), recipes.evaluation(64, 32)), batch_size=5, num_workers=1)
    list(loader)
    before = loader.stats().cache_misses
    assert before > 0
    loader.cache = None
    list(loader)
    stats = loader.stats()
    assert (stats.cache_misses, stats.cache_hits) == (before, 0)


PROGRAM = """
import os
import recipes
import torch
from torchvision.datasets import ImageFolder

import fastload
from fastload import _native

dataset = ImageFolder(os.environ["FOLDER"], recipes.training(48))


def epoch(cache):
    torch.manual_seed(1)
    loader = fastload.DataLoader(dataset, batch_size=5, num_workers=2, cache=cache)
    return [images.numpy().tobytes() for images, _ in loader], loader.stats()


expected, _ = epoch(None)
epoch("auto")
known = _native.index_memory()["records"]
assert known > 0
child = os.fork()
if child == 0:
    assert _native.index_memory()["records"] == 0
    found, stats = epoch("auto")
    assert found == expected and stats.cache_hits == 0
    assert _native.index_memory()["records"] > 0
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
found, stats = epoch("auto")
assert found == expected and stats.cache_hits >= known
print("done")
"""


def test_a_forked_process_begins_with_nothing(odd_images: Path, run_child: Callable[..., Any]) -> None:
    assert run_child(PROGRAM, env={"FOLDER": str(odd_images)}).stdout.split() == ["done"]


LARGE = """
import os
import recipes
import torch
from torchvision.datasets import ImageFolder

import fastload
from fastload import _native

assert _native.set_index_memory(1000)
_native.index_memory()  # which fixes the limit
dataset = ImageFolder(os.environ["FOLDER"], recipes.training(48))
cached = fastload.DataLoader(dataset, batch_size=5, num_workers=2)
plain = fastload.DataLoader(dataset, batch_size=5, num_workers=2, cache=None)
for _ in range(3):
    for loader in (cached, plain):
        torch.manual_seed(1)
        loader.images = [images for images, _ in loader]
    assert all(map(torch.equal, cached.images, plain.images))
print(cached.stats().cache_dropped, cached.stats().cache_hits, cached.stats().cache_memory_bytes)
"""


def test_what_does_not_fit_is_counted(odd_images: Path, run_child: Callable[..., Any]) -> None:
    printed = run_child(LARGE, env={"FOLDER": str(odd_images)}).stdout
    dropped, hits, memory = map(int, printed.split())
    assert dropped > 0
    assert hits == 0
    assert memory <= 1000


def test_each_process_has_a_secret_of_its_own_for_its_keys(run_child: Callable[..., Any]) -> None:
    """With one that is known, files could be made that have each other's indexes."""
    code = "from fastload import _native; print(*_native.make_decode_cache(0).key_of(b'the same contents'))"
    keys = [tuple(map(int, run_child(code).stdout.split())) for _ in range(2)]
    assert keys[0][2] == keys[1][2] == len(b"the same contents")
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] != keys[1][1]
