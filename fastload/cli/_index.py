"""``fastload index``: makes, shows or removes the index file of an image folder."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from fastload._display._progress import Progress
from fastload.cli._errors import UsageError, one_line
from fastload.sources._folder_index import IndexedFolder, index_file, read_folder
from fastload.sources._image_folder import IMG_EXTENSIONS

_DESCRIPTION = """Lists an image folder as fastload.ImageFolder does, keeps the index in the cache folder, and describes
it. If the folder has an index, only changed directories are listed."""


def add_to(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "index", help="make the index file of an image folder", description=_DESCRIPTION
    )
    parser.add_argument("root", help="the folder, with one folder per class in it")
    parser.add_argument("--trust", action="store_true", help="trust directory times on FUSE file systems, too")
    parser.add_argument("--remove", action="store_true", help="remove the index file instead")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    root = os.path.expanduser(options.root)  # noqa: PTH111 - like ImageFolder, which keeps the form given
    try:
        if options.remove:
            _remove(root)
        else:
            _make(root, options.trust)
    except OSError as error:
        raise UsageError(one_line(error)) from error
    return 0


def _remove(root: str) -> None:
    file = index_file(root, IMG_EXTENSIONS)
    if file is None or not file.exists():
        raise UsageError(f"{root} has no index file")
    file.unlink()
    print(f"removed {file}")


def _make(root: str, is_trusted: bool) -> None:
    begin = time.perf_counter()
    with Progress(f"listing {root}"):
        folder = read_folder(root, IMG_EXTENSIONS, "trust" if is_trusted else "auto")
    seconds = time.perf_counter() - begin
    print("\n".join(_description(root, folder, seconds)))


def _description(root: str, folder: IndexedFolder, seconds: float) -> list[str]:
    table, size = folder.table, folder.table.blob.nbytes
    kept = "not kept" if folder.file is None else str(folder.file)
    return [
        f"{root}: {len(table)} samples, {len(table.class_names())} classes, {table.num_directories} directories",
        f"listed {folder.num_listed} of them in {seconds:.2f} s",
        f"index: {kept}, {size} bytes, {size / max(1, len(table)):.1f} per sample",
    ]
