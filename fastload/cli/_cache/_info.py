"""``fastload cache info``: shows what a store has."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from fastload._decode_cache._report import StoreReport, report_of
from fastload._display._table import Table
from fastload._display._units import counted, in_bytes, in_percent
from fastload._process._file_system import is_remote
from fastload.cli._cache._arguments import RIGHT, cache_of, path_of, store_errors
from fastload.cli._cache._kinds import kinds_in
from fastload.cli._cache._verify import rows_of_unused
from fastload.cli._console import show
from fastload.cli._errors import FINE

_DESCRIPTION = "Shows what a store has on disk, and changes nothing."

_REMOTE = 'of other machines: only "fastload cache build" writes, and only indexes'


def add_to(parts: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = parts.add_parser("info", help="say what a store has", description=_DESCRIPTION)
    parser.add_argument("path", nargs="?", help="folder of the store (default: decode in the cache folder)")
    parser.add_argument("--max-bytes", metavar="SIZE", help="that programs give the store (default: 4GiB)")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    max_bytes = cache_of(options.path, options.max_bytes).max_bytes
    path = path_of(options.path)
    with store_errors(path):
        report = report_of(path, reads_records=False)
    if options.json:
        print(json.dumps({**_as_dict(report), "max_bytes": max_bytes}, indent=2))
    else:
        show(Table(f"fastload cache info: {path}", list(_rows(report, max_bytes)), right=RIGHT))
    return FINE


def _rows(report: StoreReport, max_bytes: int) -> Iterator[tuple[str, ...]]:
    sums = _as_dict(report)
    writers = sums["writers"]
    for kind in kinds_in(report):
        part = report.of(kind.name)
        of_kind = sums["kinds"][kind.name]
        num_files = counted(len(part.those("good")), "file")
        yield kind.name, f"{of_kind['records']:,}", f"records, {in_bytes(of_kind['record_bytes'])} in {num_files}"
    dead = sums["dead_bytes"]
    what = "of records that better ones stand in for, and of what is not published"
    yield "dead", in_bytes(dead), f"{in_percent(dead, sums['file_bytes']) or '0.0 %'}, {what}"
    yield "writers", f"{writers:,}", "processes that keep more" if writers else "nobody keeps more now"
    yield from rows_of_unused(report)
    share = in_percent(report.used_bytes, max_bytes)
    yield (
        "on disk",
        in_bytes(report.used_bytes),
        f"{share} of {in_bytes(max_bytes)}, and {in_bytes(report.free_bytes)} free",
    )
    yield "file system", report.file_system or "not known", _REMOTE if is_remote(report.file_system) else ""


def _sums(report: StoreReport) -> dict[str, int]:
    """Returns the sums over the files that are used."""
    good = report.those("good")
    return {
        "records": report.num_records,
        "record_bytes": sum(file["live_bytes"] for file in good),
        "file_bytes": sum(file["file_bytes"] for file in good),
        "dead_bytes": sum(file["dead_bytes"] for file in good),
    }


def _as_dict(report: StoreReport) -> dict[str, Any]:
    return {
        "path": str(report.path),
        **_sums(report),
        "kinds": {kind: _sums(report.of(kind)) for kind in report.files_by_kind},
        "writers": sum(file["has_writer"] for file in report.files),
        "foreign": len(report.those("foreign")),
        "damaged": len(report.damaged),
        "not_believed": len(report.those("untrusted")),
        "unreadable": len(report.those("unread")),
        "used_bytes": report.used_bytes,
        "free_bytes": report.free_bytes,
        "file_system": report.file_system,
        "files": [{"kind": kind, **file} for kind, files in report.files_by_kind.items() for file in files],
    }
