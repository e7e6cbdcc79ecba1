"""What the commands do and say of each kind of records."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from fastload import _native
from fastload._decode_cache._coefficients import coefficients_in
from fastload._decode_cache._report import StoreReport
from fastload._decode_cache._store import KINDS, RecordKind

Builder = _native.IndexBuilder | _native.CoefficientBuilder


@dataclass(frozen=True)
class Kind:
    """Of one kind.

    Attributes:
        name: Of the kind.
        plural: Its records, in a sentence.
        why_none: What files have none.
        is_merged: Whether whoever opens a store may make one file of several, with fewer records.
        make_cache: From a store of the kind and a number of files, what builders are made with.
        make_builder: From that, and limits as keyword arguments.
    """

    name: RecordKind
    plural: str
    why_none: str
    is_merged: bool
    make_cache: Callable[[_native.RecordStore, int], _native.DecodeCache]
    make_builder: Callable[..., Builder]


def _coefficient_cache(store: _native.RecordStore, num_files: int) -> _native.DecodeCache:
    # By the facts of files on any file system: a loader decides by itself what it believes.
    return store.make_decode_cache(num_files, coefficients_in(store, "trust", 0))


_INDEX = Kind(
    name="index",
    plural="indexes",
    why_none="progressive, with restart markers, of fewer than four rows of blocks, damaged, or no JPEG",
    is_merged=True,
    make_cache=lambda store, num_files: store.make_decode_cache(num_files),
    make_builder=lambda **arguments: _native.IndexBuilder(**arguments),
)
_COEFFICIENTS = Kind(
    name="coefficients",
    plural="coefficients",
    why_none="damaged, no JPEG, or one that Pillow decodes",
    is_merged=False,
    make_cache=_coefficient_cache,
    make_builder=lambda **arguments: _native.CoefficientBuilder(**arguments),
)
_ALL = (_INDEX, _COEFFICIENTS)


def add_what(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds --what, of which the help says `what`."""
    parser.add_argument("--what", choices=KINDS, default="index", help=f"{what} (default: index)")


def kind_of(options: argparse.Namespace) -> Kind:
    """What --what names."""
    return next(kind for kind in _ALL if kind.name == options.what)


def up_to(kind: Kind) -> tuple[Kind, ...]:
    """It, and what a store has besides: indexes are part of any."""
    return _ALL[: _ALL.index(kind) + 1]


def kinds_in(report: StoreReport) -> tuple[Kind, ...]:
    """Those of which a store has records; of an empty one that of any store."""
    return tuple(kind for kind in _ALL if report.of(kind.name).num_records) or _ALL[:1]
