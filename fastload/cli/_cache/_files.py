"""The files that a target names: the images below a folder, or the files of a loader's data set; and runs over them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader

from fastload._decode_cache._build import FileAction, FileRun
from fastload._display._progress import Progress
from fastload._process._config import MAX_FILE_BYTES
from fastload._process._exit import ThreadStartError
from fastload.cli._errors import CommandError, UsageError, one_line
from fastload.cli._targets import loader_of
from fastload.sources._image_folder import IMG_EXTENSIONS
from fastload.sources._lowering import FilePaths, NotLoweredError, lower_dataset

# Bytes of names, and os.walk: names are kept as the system gives them.
# ruff: noqa: PTH111, PTH116, PTH118, PTH123
_EXTENSIONS = tuple(map(str.encode, IMG_EXTENSIONS))


@dataclass(frozen=True)
class TargetFiles:
    """The files of a target.

    Attributes:
        paths: Each file once.
        unlisted: Why the system does not list some directories.
        loader: The target itself where it is a loader, torch's or fastload's; None for a folder.
    """

    paths: Sequence[bytes]
    unlisted: list[str] = field(default_factory=list)
    loader: TorchDataLoader[Any] | None = None


def files_of(target: str) -> TargetFiles:
    """Returns the images below a folder, however deep, or the files that a loader's data set reads.

    Raises UsageError if `target` is neither, has no files, or nobody knows which files it reads.
    """
    folder = os.path.expanduser(target)
    if Path(folder).is_dir():
        with Progress(f"listing {target}"):
            files = _below(os.fsencode(folder))
        if not files.paths:
            raise UsageError("; ".join([f"there is no image below {target}", *files.unlisted[:1]]))
        return files
    if ":" not in target and not target.endswith(".py"):
        raise UsageError(f"{target!r} is neither a folder nor of the form script.py:name or package.module:name")
    loader = loader_of(target)
    try:
        source = lower_dataset(loader.dataset)
    except NotLoweredError as error:
        raise UsageError(
            f"which files {target} reads is not known: {error}. Name the folder that they are in instead of the loader"
        ) from error
    if len(source) == 0:
        raise UsageError(f"the data set of {target} is empty")
    return TargetFiles(FilePaths(source), loader=loader)


def why_unread(path: bytes) -> str:
    """Returns why a file was not read, as far as another try tells."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if status.st_size > MAX_FILE_BYTES:
            return f"it is larger than {MAX_FILE_BYTES >> 30} GiB"
        with open(path, "rb", buffering=0) as file:
            file.read(1)
    except OSError as error:
        return str(error.strerror)
    return "it could not be read to its end"


def named(path: bytes) -> str:
    """Returns the path for messages."""
    return os.fsdecode(path).encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode(errors="replace")


def _below(root: bytes) -> TargetFiles:
    unlisted: list[str] = []
    paths: list[bytes] = []
    seen: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        unlisted.append(one_line(error))

    for folder, folders, names in os.walk(root, followlinks=True, onerror=note):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:  # a link to a directory that was gone through
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort()
        paths += [os.path.join(folder, name) for name in sorted(names) if name.lower().endswith(_EXTENSIONS)]
    return TargetFiles(paths, unlisted)


def gone_through(
    what: str,
    paths: Sequence[bytes],
    actions: Sequence[FileAction],
    must_end: Callable[[], bool] = lambda: False,
) -> tuple[FileRun, bool]:
    """Returns a FileRun over the files, whose progress names `what`, and whether Ctrl-C did not interrupt it."""
    files = FileRun(paths, actions, must_end)
    try:
        with Progress(what, "files", has_rate=True) as progress:
            files.run(progress.advance)
    except KeyboardInterrupt:
        return files, False
    except ThreadStartError as error:
        raise CommandError(str(error)) from error
    return files, True
