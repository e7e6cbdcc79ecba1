"""Indexes in the memory of a process: the loaders that share them, their limit, and what is told of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import recipes
from cached_epochs import make_odd_photographs
from torchvision.datasets import ImageFolder

import fastload
from fastload import _native


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    _native.clear_index_memory()
    yield
    _native.clear_index_memory()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_odd_photographs(tmp_path / "images")


def test_copies_are_known_by_their_contents(folder: Path, tmp_path: Path) -> None:
    first = fastload.DataLoader(ImageFolder(str(folder), recipes.evaluation(64, 32)), batch_size=5)
    list(first)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    second = fastload.DataLoader(ImageFolder(str(copy), recipes.evaluation(64, 32)), batch_size=5)
    list(second)
    stats = second.stats()
    assert (stats.cache_misses, stats.cache_hits) == (0, first.stats().cache_misses)


def test_explain_and_stats_say_what_is_kept(folder: Path) -> None:
    dataset = ImageFolder(str(folder), recipes.evaluation(64, 32))
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
    assert "cache" not in in_processes.explain()


def test_other_values_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"cache must be 'auto', a fastload\.Cache or None, got 'index'"):
        fastload.DataLoader(ImageFolder(str(folder)), cache="index")  # type: ignore[arg-type]


def test_a_loader_that_is_told_to_keep_nothing_from_now_on(folder: Path) -> None:
    loader = fastload.DataLoader(ImageFolder(str(folder), recipes.evaluation(64, 32)), batch_size=5, num_workers=1)
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


def test_a_forked_process_begins_with_nothing(folder: Path, run_child: Callable[..., Any]) -> None:
    assert run_child(PROGRAM, env={"FOLDER": str(folder)}).stdout.split() == ["done"]


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


def test_what_does_not_fit_is_counted(folder: Path, run_child: Callable[..., Any]) -> None:
    printed = run_child(LARGE, env={"FOLDER": str(folder)}).stdout
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
