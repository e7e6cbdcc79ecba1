"""Folders of empty files, and the comparison of fastload's ImageFolder with torchvision's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision_shim  # noqa: F401
from torchvision import datasets

from fastload import ImageFolder
from fastload.sources._folder_index import index_file
from fastload.sources._image_folder import IMG_EXTENSIONS


def make_tree(root: Path, names: Iterable[str | bytes]) -> Path:
    """Makes files below `root`, with the directories they need; returns `root`."""
    for name in names:
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def file_of(root: Path) -> Path:
    """Returns the path of the index file of `root`."""
    file = index_file(str(root), IMG_EXTENSIONS)
    assert file is not None
    return file


def assert_same_index(mine: ImageFolder, theirs: datasets.ImageFolder) -> None:
    assert mine.classes == theirs.classes
    assert mine.class_to_idx == theirs.class_to_idx
    assert list(mine.samples) == theirs.samples
    assert list(mine.imgs) == theirs.imgs
    assert list(mine.targets) == theirs.targets
    assert np.asarray(mine.targets).tolist() == theirs.targets
    assert [mine.samples[index] for index in range(len(mine))] == theirs.samples
    assert [mine.targets[index] for index in range(len(mine))] == theirs.targets
    assert len(mine) == len(theirs)
    assert str(mine.root) == str(theirs.root)


def outcome(make: Callable[[], Any]) -> tuple[Any, ...]:
    """Returns the samples of a data set that `make` returns, or the error that it raises."""
    try:
        dataset = make()
    except OSError as error:
        return type(error), str(error)
    return dataset.classes, dataset.class_to_idx, list(dataset.samples), list(dataset.targets), str(dataset.root)


def assert_like_torchvision(root: str | os.PathLike[str], **options: Any) -> None:
    """Compares fastload's data set of `root`, made with `options`, with torchvision's, or their errors."""
    assert outcome(lambda: ImageFolder(root, **options)) == outcome(lambda: datasets.ImageFolder(root))


def wait_for_tick(folder: Path) -> None:
    """Returns when a change of a directory would get another time than any change in `folder` has."""
    last = max(os.lstat(parent).st_ctime_ns for parent, _, _ in os.walk(folder))
    probe = folder.with_name(folder.name + ".probe")
    probe.write_bytes(b"")
    while probe.stat().st_ctime_ns <= last:
        probe.write_bytes(b"x")


def corner(image: Any) -> torch.Tensor:
    """Returns a corner of the image: a transform that other processes can import."""
    return torch.from_numpy(np.asarray(image)[:24, :24].copy())
