"""The arguments that several of the commands share, and runs over the files that a target names."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader as TorchDataLoader

from fastload import _native
from fastload._decode_cache._build import FileAction, FileRun
from fastload._decode_cache._cache import Cache, What, default_path
from fastload._decode_cache._report import StoreReport
from fastload._decode_cache._store import ImageFiles, RecordKind
from fastload._display._progress import Progress
from fastload._loader._counterparts import as_fastload
from fastload._loader._current import CurrentLoader
from fastload._process._config import MAX_FILE_BYTES
from fastload._process._exit import ThreadStartError
from fastload._process._limits import num_auto_workers
from fastload.cli._common import CommandError, UsageError, one_line
from fastload.cli._targets import loader_of
from fastload.sources._image_folder import IMG_EXTENSIONS
from fastload.sources._lowering import FilePaths, NotLoweredError, lower_dataset
from fastload.transforms._first_steps import NoFirstStepsError

# Bytes of names, and os.walk: names are kept as the system gives them.
# ruff: noqa: PTH111, PTH116, PTH118, PTH123
_EXTENSIONS = tuple(map(str.encode, IMG_EXTENSIONS))


@dataclass(frozen=True)
class TargetFiles:
    """The files of a target, each once; why some directories are not listed; and the target if it is a loader."""

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


def _why_unread(path: bytes) -> str:
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


def _named(path: bytes) -> str:
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


def names_of(run: FileRun, outcome: _native.BuildOutcome) -> str:
    """Returns the first files with an outcome, for a row."""
    return ", ".join(map(_named, run.named(outcome)))


def rows_without_record(kind: Kind, run: FileRun) -> Iterator[tuple[str, str, str]]:
    """Yields rows about files that cannot have a record, and those that were not read, and why."""
    if run.counts["none"]:
        yield f"without {kind.name}", f"{run.counts['none']:,}", kind.why_none
    if run.counts["unread"]:
        why = "; ".join(f"{_named(path)}: {_why_unread(path)}" for path in run.named("unread"))
        yield "unreadable", f"{run.counts['unread']:,}", why


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Adds --workers."""
    parser.add_argument(
        "--workers", default="auto", metavar="N", help="threads (default: auto, one for each processor)"
    )


def workers_of(options: argparse.Namespace) -> int:
    """Returns the number of threads. Raises UsageError."""
    if options.workers == "auto":
        return num_auto_workers()
    if not options.workers.isdecimal() or int(options.workers) < 1:
        raise UsageError(f"--workers must be auto or a positive number, got {options.workers!r}")
    return int(options.workers)


def cache_of(path: str | None, max_bytes: str | None = None, what: What = "index") -> Cache:
    """Returns the store as a program would name it. Raises UsageError, also where a default folder is needed and there
    is none."""
    try:
        return Cache(default_path() if path is None else path, max_bytes, what)
    except ValueError as error:
        text = str(error).replace("max_bytes", "--max-bytes", 1).replace(f"what={what!r}", f"--what {what}")
        raise UsageError(text) from error
    except RuntimeError as error:
        raise UsageError(f"{one_line(error)}: name a folder") from error


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turns a system error about the store into a UsageError that names the store."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(
            f'there is no store in {path}: "fastload cache build" makes one, and so does a loader with cache=Cache(...)'
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.ENOTDIR:
            reason = "it is a file"
        elif error.errno == errno.EBADMSG:
            reason = f'{reason}, by "fastload cache clear"'
        raise UsageError(f"the store in {path} cannot be used: {reason}") from error


@dataclass(frozen=True)
class Kind:
    """A kind of records; with `needs_loader` they depend on a loader's steps. `why_none` says which files have none."""

    name: RecordKind
    plural: str
    why_none: str
    needs_loader: bool = False

    def image_files(self, files: TargetFiles) -> ImageFiles:
        """Returns what a build or a comparison takes. Raises UsageError where these files have no such records."""
        return ImageFiles(files.paths, _first_steps_of(files) if self.needs_loader else None)


_NO_INDEX = "progressive, with restart markers, of fewer than four rows of blocks, damaged, or no JPEG"
_ALL = (
    Kind("index", "indexes", _NO_INDEX),
    Kind("coefficients", "coefficients", "damaged, no JPEG, or one that Pillow decodes"),
    Kind("pixels", "pixels", "damaged, or no image", needs_loader=True),
)


def kind_of(options: argparse.Namespace) -> Kind:
    """Returns the kind that --what names."""
    return next(kind for kind in _ALL if kind.name == options.what)


def kinds_in(report: StoreReport) -> tuple[Kind, ...]:
    """Returns the kinds of which a store has records; for an empty store the kind that any store has."""
    return tuple(kind for kind in _ALL if report.of(kind.name).num_records) or _ALL[:1]


def _first_steps_of(files: TargetFiles) -> _native.FirstSteps:
    if files.loader is None:
        raise UsageError(
            "pixels are the images after the first steps of a transform: name a loader, script.py:name or "
            "package.module:name, instead of the folder"
        )
    try:
        return CurrentLoader(as_fastload(files.loader)).plan().kept_first_steps()
    except NoFirstStepsError as error:
        raise UsageError(
            f"no pixels of this loader are worth keeping: {error}. --what coefficients or index fits any transform"
        ) from error
