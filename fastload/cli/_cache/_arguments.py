"""The arguments that several of the commands share, and the stores that these name."""

from __future__ import annotations

import argparse
import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from fastload._decode_cache._cache import Cache, What, default_path
from fastload._process._limits import num_auto_workers
from fastload.cli._errors import UsageError, one_line

# In the tables the numbers stand after their names.
RIGHT = frozenset({1})
RIGHT_OF_GROUPS = frozenset({2})  # where the rows have a group in front


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
