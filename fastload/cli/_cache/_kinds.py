"""The kinds of records, as the commands name them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from fastload import _native
from fastload._decode_cache._build import ImageFiles
from fastload._decode_cache._report import StoreReport
from fastload._decode_cache._store import KINDS, RecordKind
from fastload._loader._counterparts import as_fastload
from fastload._loader._current import CurrentLoader
from fastload.cli._cache._files import TargetFiles
from fastload.cli._errors import UsageError
from fastload.transforms._first_steps import NoFirstStepsError


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


def add_what(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds --what, of which the help says `what`."""
    parser.add_argument("--what", choices=KINDS, default="index", help=f"{what} (default: index)")


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
