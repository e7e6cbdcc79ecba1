"""The arguments that several of the commands share: stores, kinds of records and threads."""

from __future__ import annotations

import argparse
import contextlib
import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastload import _native
from fastload._decode_cache._build import ImageFiles
from fastload._decode_cache._cache import Cache, What, default_path
from fastload._decode_cache._report import StoreReport
from fastload._decode_cache._store import RecordKind
from fastload._loader._counterparts import as_fastload
from fastload._loader._current import CurrentLoader
from fastload._process._limits import num_auto_workers
from fastload.cli._cache._files import TargetFiles
from fastload.cli._errors import UsageError, one_line
from fastload.transforms._first_steps import NoFirstStepsError


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


def cache_of(path: str | None, max_bytes: str | None, what: What = "index") -> Cache:
    """Returns the store as a program would name it, with its default folder. Raises UsageError."""
    try:
        cache = Cache(path, max_bytes, what)
    except ValueError as error:
        text = str(error).replace("max_bytes", "--max-bytes", 1).replace(f"what={what!r}", f"--what {what}")
        raise UsageError(text) from error
    return Cache(path_of(None), max_bytes, what) if path is None else cache


def path_of(path: str | None) -> Path:
    """Returns the folder of a store. Raises UsageError where none is given and there is no default."""
    try:
        return default_path() if path is None else Cache(path).path
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
    """One kind of records.

    Attributes:
        name: The name of the kind.
        plural: Its records, in a sentence.
        why_none: The files that have no record of it.
        needs_loader: Whether its records depend on a loader's steps, and not on files alone.
    """

    name: RecordKind
    plural: str
    why_none: str
    needs_loader: bool = False

    def image_files(self, files: TargetFiles) -> ImageFiles:
        """Returns what a build or a comparison takes. Raises UsageError where these files have no such records."""
        return ImageFiles(files.paths, _first_steps_of(files) if self.needs_loader else None)


_ALL = (
    Kind(
        "index", "indexes", "progressive, with restart markers, of fewer than four rows of blocks, damaged, or no JPEG"
    ),
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
