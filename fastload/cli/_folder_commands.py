"""The commands on a folder of images: ``fastload check`` and ``fastload index``; and the loader of one for bench."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._display._units import counted
from fastload._errors import SampleError
from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader
from fastload.cli._common import DIFFERENT, FINE, UsageError, add_command, one_line, say, usage_errors
from fastload.sources import ImageFolder
from fastload.sources._folder_index import index_file, read_folder
from fastload.sources._image_folder import IMG_EXTENSIONS

# ruff: noqa: PTH111 - like ImageFolder, all keep the form of a path that is given

_BATCH_SIZE = 32
# ImageNet's statistics, with which all of torchvision's weights were trained.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def add_to(commands: Any) -> None:
    """Adds the commands to the subparsers of argparse."""
    parser = add_command(commands, "index", _index, help="make the index file of an image folder")
    parser.add_argument("root", help="the folder, with one folder per class in it")
    parser.add_argument("--trust", action="store_true", help="trust directory times on FUSE file systems, too")
    parser.add_argument("--remove", action="store_true", help="remove the index file instead")

    parser = add_command(commands, "check", _check, help="list the images of a folder that cannot be loaded")
    parser.add_argument("root", help="the folder, with one folder per class in it")
    parser.add_argument(
        "--ledger", metavar="FILE", help="write one JSON object per line to this new file, as a loader does"
    )
    parser.add_argument("--workers", type=int, default=None, help="threads (default: auto)")


def _check(options: argparse.Namespace) -> int:
    """Decodes every image below a folder with one folder per class, as a loader does, and lists the files that cannot
    be loaded. Pixels that are wrong but can be decoded are not found."""
    if options.workers is not None and options.workers < 0:
        raise UsageError(f"--workers must not be negative, got {options.workers}")
    with _ledger(options.ledger) as ledger:
        with Progress(f"listing {options.root}"):
            dataset = _whole_images(options.root)
        workers: Any = "auto" if options.workers is None else options.workers
        _decode(DataLoader(dataset, _BATCH_SIZE, num_workers=workers, on_error="skip", max_errors=1, ledger=ledger))
        bad = [json.loads(line) for line in ledger.read_text().splitlines()]
    if options.ledger is None:
        for entry in bad:
            say(entry["text"])
    kinds = Counter(entry["stage"] for entry in bad)
    by_stage = ", ".join(f"{stage} {count:,}" for stage, count in kinds.most_common())
    say(
        f"fastload check: {len(bad):,} of {counted(len(dataset), 'file')} cannot be loaded"
        + (f" ({by_stage})" if bad else "")
        + (f": {options.ledger}" if bad and options.ledger is not None else "")
    )
    return DIFFERENT if bad else FINE


@contextlib.contextmanager
def _ledger(given: str | None) -> Iterator[Path]:
    """Gives a new empty file: the named one, or a temporary one that is removed afterwards."""
    with contextlib.nullcontext("") if given else tempfile.TemporaryDirectory() as folder:
        path = Path(given).expanduser() if given else Path(folder, "bad.jsonl")
        with usage_errors(OSError):
            try:
                path.touch(exist_ok=False)
            except FileExistsError as error:
                raise UsageError(f"{given} exists already: remove it, or name another file") from error
        yield path


def _decode(loader: DataLoader[Any]) -> None:
    iterator, total = iter(loader), len(loader.dataset)  # type: ignore[arg-type]
    with Progress("decoding", "files") as progress:
        for number in range(len(loader)):
            with contextlib.suppress(SampleError):  # the batch would be empty
                next(iterator)
            progress.advance(min(total, (number + 1) * _BATCH_SIZE), total)


def _index(options: argparse.Namespace) -> int:
    """Lists an image folder as fastload.ImageFolder does, keeps the index in the cache folder, and describes it. If
    the folder has an index, only changed directories are listed."""
    root = os.path.expanduser(options.root)
    with usage_errors(OSError):
        if options.remove:
            _remove_index(root)
        else:
            _make_index(root, options.trust)
    return FINE


def _remove_index(root: str) -> None:
    file = index_file(root, IMG_EXTENSIONS)
    if file is None or not file.exists():
        raise UsageError(f"{root} has no index file")
    file.unlink()
    print(f"removed {file}")


def _make_index(root: str, is_trusted: bool) -> None:
    begin = time.perf_counter()
    with Progress(f"listing {root}"):
        folder = read_folder(root, IMG_EXTENSIONS, "trust" if is_trusted else "auto")
    seconds = time.perf_counter() - begin
    table, size = folder.table, folder.table.blob.nbytes
    kept = "not kept" if folder.file is None else str(folder.file)
    print(f"{root}: {len(table)} samples, {len(table.class_names())} classes, {table.num_directories} directories")
    print(f"listed {folder.num_listed} of them in {seconds:.2f} s")
    print(f"index: {kept}, {size} bytes, {size / max(1, len(table)):.1f} per sample")


def loader_of_folder(root: str, batch_size: int, num_workers: int) -> TorchDataLoader[Any]:
    """Returns torch's loader over torchvision's ImageFolder with random crops of 224 pixels, flips and normalisation.

    Raises UsageError if torchvision is not installed, or `root` has no folder of images for each class.
    """
    transforms, datasets = _torchvision("measuring a folder", ", or name a loader of yours as script.py:name")
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(_MEAN, _STD)]
    with usage_errors(OSError):
        dataset = datasets.ImageFolder(os.path.expanduser(root), transforms.Compose(steps))
    return TorchDataLoader(dataset, batch_size, shuffle=True, num_workers=num_workers)


def _whole_images(root: str) -> ImageFolder:
    """Returns the images of a folder, each decoded as a whole for a few pixels. Raises UsageError."""
    transforms, _ = _torchvision("checking a folder")
    with usage_errors(OSError):
        return ImageFolder(
            os.path.expanduser(root), transforms.Compose([transforms.Resize((8, 8)), transforms.PILToTensor()])
        )


def _torchvision(what: str, otherwise: str = "") -> tuple[Any, Any]:
    """Returns torchvision's transforms and data sets."""
    try:
        from torchvision import datasets, transforms
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for another torch
        raise UsageError(
            f"{what} needs torchvision, which cannot be imported ({one_line(error)}): pip install torchvision"
            f"{otherwise}"
        ) from error
    return transforms, datasets
