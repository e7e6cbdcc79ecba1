"""What the commands do and say of each kind of records."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from fastload import _native
from fastload._decode_cache._file_records import file_records_in
from fastload._decode_cache._report import StoreReport
from fastload._decode_cache._store import KINDS, RecordKind
from fastload._loader._current import CurrentLoader
from fastload._loader._twins import as_fastload
from fastload.cli._cache._files import TargetFiles
from fastload.cli._errors import UsageError
from fastload.transforms._first_steps import NoFirstStepsError

Builder = _native.IndexBuilder | _native.CoefficientBuilder | _native.PixelBuilder


@dataclass(frozen=True)
class Kind:
    """Of one kind.

    Attributes:
        name: Of the kind.
        plural: Its records, in a sentence.
        why_none: What files have none.
        needs_loader: Whether they depend on what a loader does, and not on files alone.
        is_merged: Whether whoever opens a store may make one file of several, with fewer records.
        make_cache: From a store of the kind and a number of files, what builders are made with.
        make_builder: From the files, and that and limits as keyword arguments. Raises UsageError where these files have
            no records of this kind.
    """

    name: RecordKind
    plural: str
    why_none: str
    needs_loader: bool
    is_merged: bool
    make_cache: Callable[[_native.RecordStore, int], _native.DecodeCache]
    make_builder: Callable[..., Builder]


def _file_record_cache(store: _native.RecordStore, num_files: int) -> _native.DecodeCache:
    # By the facts of files on any file system: a loader decides by itself what it believes.
    return store.make_decode_cache(num_files, file_records_in(store, "trust", 0))


def _first_steps_of(files: TargetFiles) -> _native.FirstSteps:
    if files.loader is None:
        raise UsageError(
            "pixels are those behind the first steps of a transform: name a loader, script.py:name or "
            "package.module:name, in the place of the folder"
        )
    try:
        return CurrentLoader(as_fastload(files.loader)).plan().kept_first_steps()
    except NoFirstStepsError as error:
        raise UsageError(
            f"no pixels of this loader are worth keeping: {error}. --what coefficients or index fits any transform"
        ) from error


_INDEX = Kind(
    name="index",
    plural="indexes",
    why_none="progressive, with restart markers, of fewer than four rows of blocks, damaged, or no JPEG",
    needs_loader=False,
    is_merged=True,
    make_cache=lambda store, num_files: store.make_decode_cache(num_files),
    make_builder=lambda _, **arguments: _native.IndexBuilder(**arguments),
)
_COEFFICIENTS = Kind(
    name="coefficients",
    plural="coefficients",
    why_none="damaged, no JPEG, or one that Pillow decodes",
    needs_loader=False,
    is_merged=False,
    make_cache=_file_record_cache,
    make_builder=lambda _, **arguments: _native.CoefficientBuilder(**arguments),
)
_PIXELS = Kind(
    name="pixels",
    plural="pixels",
    why_none="damaged, no JPEG, or one that Pillow decodes: a loader keeps what Pillow has made of those",
    needs_loader=True,
    is_merged=False,
    make_cache=_file_record_cache,
    make_builder=lambda files, **arguments: _native.PixelBuilder(first_steps=_first_steps_of(files), **arguments),
)
_ALL = (_INDEX, _COEFFICIENTS, _PIXELS)


def add_what(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds --what, of which the help says `what`."""
    parser.add_argument("--what", choices=KINDS, default="index", help=f"{what} (default: index)")


def kind_of(options: argparse.Namespace) -> Kind:
    """What --what names."""
    return next(kind for kind in _ALL if kind.name == options.what)


def kinds_in(report: StoreReport) -> tuple[Kind, ...]:
    """Those of which a store has records; of an empty one that of any store."""
    return tuple(kind for kind in _ALL if report.of(kind.name).num_records) or _ALL[:1]
