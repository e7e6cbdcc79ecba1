"""Epochs of loaders with a cache on disk, to be compared with the bytes of a loader without one."""

from __future__ import annotations

import gc
import hashlib
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import recipes
import torch
from both_loaders import steps_of
from flat_values import flat
from image_folders import SUBSAMPLINGS, save_jpeg, synthetic_image
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload
from fastload._decode_cache._store import OpenStore

SIZE = 48
MIB = 1 << 20
# Name -> function that makes the transform: whole windows, parts of them, and a Python part at the end.
RECIPES = {
    "training": lambda: recipes.training(SIZE),
    "evaluation": lambda: recipes.evaluation(64, 32),
    "python tail": lambda: transforms.Compose([*recipes.training(SIZE).transforms, lambda image: image * 2]),
}


def make_photographs(root: Path, count: int) -> Path:
    """Photographs of which each has an index."""
    for seed in range(count):
        save_jpeg(root / f"class{seed % 2}" / f"{seed:02}.jpg", seed, 160, 120, subsampling=SUBSAMPLINGS[seed % 3])
    return root


def make_odd_photographs(root: Path) -> Path:
    """Makes 24 in two classes, of all subsamplings; one is progressive and one a PNG."""
    for seed in range(24):
        place = root / f"class{seed % 2}" / f"{seed:02}.jpg"
        save_jpeg(place, seed, 300, 220, subsampling=SUBSAMPLINGS[seed % 3], quality=70 + seed)
    synthetic_image(5, 300, 220).save(root / "class1" / "05.jpg", progressive=True)
    synthetic_image(8, 300, 220).save(root / "class0" / "08.jpg", "PNG")
    return root


def loader_of(folder: str | os.PathLike[str], cache: Any, **arguments: Any) -> fastload.DataLoader[Any]:
    """Returns a loader of an evaluation, so that an index is whole after one epoch."""
    dataset = ImageFolder(str(folder), recipes.evaluation(SIZE, SIZE - 8))
    return fastload.DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, "cache": cache, **arguments})


def shuffled_loader(dataset: Any, rng: Any, num_workers: int, cache: Any) -> fastload.DataLoader[Any]:
    return fastload.DataLoader(
        dataset,
        batch_size=5,
        shuffle=True,
        generator=torch.Generator().manual_seed(1),
        num_workers=num_workers,
        rng=rng,
        seed=3 if rng == "sample" else None,
        cache=cache,
    )


def told_in_two_epochs(dataset: Any, cache: Any) -> list[str]:
    """Returns the sum of each batch, or its error."""
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=2, cache=cache)
    told = []
    for epoch in range(2):
        torch.manual_seed(epoch)
        told += steps_of(loader, lambda batch: str(batch[0].sum().item()), str)
    return told


def digests(loader: Iterable[Any], epochs: int = 1) -> list[str]:
    """Returns a digest of the batches of each epoch, which begin with the same draws each time."""
    found = []
    for epoch in range(epochs):
        torch.manual_seed(epoch)
        found.append(hashlib.sha256(repr(flat(list(loader))).encode()).hexdigest())
    return found


def store_of(loader: fastload.DataLoader[Any]) -> OpenStore:
    store = loader._fastload.cache.store
    assert store is not None
    return store


def publish(loader: fastload.DataLoader[Any]) -> None:
    """Publishes the indexes that the loader has kept."""
    assert store_of(loader).native.flush(30.0)


def let_go_of_stores() -> None:
    """Waits until no store is open, as nobody has one any more."""
    gc.collect()
    end = time.monotonic() + 20
    while any(thread.name == "fastload-cache" for thread in threading.enumerate()):
        assert time.monotonic() < end, "a store's thread goes on"
        time.sleep(0.002)


def wait_for_another_second() -> None:
    """Versions of a file that are kept lie a minute apart, unless the clock is ahead."""
    time.sleep(1.1)


def blocks_bytes(folder: Path) -> int:
    """Returns the bytes on disk of the files in `folder`."""
    total = 0
    for entry in os.scandir(folder):
        try:
            total += entry.stat(follow_symlinks=False).st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def assert_only_records(folder: Path) -> None:
    """Asserts that the folder has only complete files of records and the files of every store."""
    names = {path.name for path in folder.iterdir()}
    assert {name for name in names if not name.endswith((".dat", ".dir"))} <= {"lock", "merge", "key"}, names
    stems = [{name[:-4] for name in names if name.endswith(ending)} for ending in (".dat", ".dir")]
    assert stems[0] == stems[1], names
