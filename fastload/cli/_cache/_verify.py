"""``fastload cache verify``: every record of a store read and checked, and compared with its file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastload._decode_cache._build import FileRun, comparing_actions
from fastload._decode_cache._report import FileState, StoreReport, report_of
from fastload._display._progress import Progress
from fastload._display._table import Table
from fastload._display._units import counted
from fastload.cli._cache._arguments import RIGHT_OF_GROUPS, add_workers, path_of, store_errors, workers_of
from fastload.cli._cache._files import TargetFiles, files_of, named, why_unread
from fastload.cli._cache._kinds import Kind, kinds_in
from fastload.cli._cache._run import gone_through
from fastload.cli._console import say, show
from fastload.cli._errors import DIFFERENT, FINE, INTERRUPTED

_DESCRIPTION = """Reads and checks every record of a store. With --against, also makes the records of each file of
TARGET anew and compares them; for pixels TARGET is a loader. Nothing is changed."""


def add_to(parts: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = parts.add_parser("verify", help="check a store", description=_DESCRIPTION)
    parser.add_argument("path", help="folder of the store")
    parser.add_argument("--against", metavar="TARGET", help="a folder with images, or script.py:name of a loader")
    add_workers(parser)
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    path, num_workers = path_of(options.path), workers_of(options)
    files = None if options.against is None else files_of(options.against)
    with store_errors(path), Progress(f"reading {path}"):
        report = report_of(path, reads_records=True)
    rows: list[tuple[str, ...]] = []
    num_different, is_whole = 0, True
    for kind in kinds_in(report):
        of_kind = list(_rows_of(report.of(kind.name)))
        if files is not None and kind.needs_loader and files.loader is None:
            of_kind.append(("compared", "0", "their loader was not named"))
        elif files is not None and is_whole:
            run, is_whole = _compared(kind, path, files, num_workers)
            of_kind += _rows_of_comparison(kind, run)
            num_different += run.counts["different"]
        rows += ((kind.name, *row) for row in of_kind)
    rows += (("files", *row) for row in rows_of_unused(report))
    num_bad = _num_damaged(report) + num_different
    verdict = f"{counted(num_bad, 'fault')}" if num_bad else "no fault"
    show(Table(f"fastload cache verify: {verdict} in {path}", rows, right=RIGHT_OF_GROUPS))
    if num_different:
        say(f'  memory or disk may be failing, or somebody has written to the store: "fastload cache clear {path}"')
    elif num_bad:
        say(f'  loaders do without such records; "fastload cache clear {path} --stale" removes the files they are in')
    if not is_whole:
        say("  interrupted: not all files were compared")
        return INTERRUPTED
    return DIFFERENT if num_bad else FINE


def _compared(kind: Kind, path: Path, files: TargetFiles, num_workers: int) -> tuple[FileRun, bool]:
    with store_errors(path):
        actions = comparing_actions(path, kind.name, kind.image_files(files), num_workers)
    return gone_through(f"comparing {kind.plural}", files.paths, actions)


def _num_damaged(report: StoreReport) -> int:
    """Returns how many records are damaged, and files of no use."""
    files = [*report.those("untrusted"), *report.those("unread"), *report.those("damaged")]
    return len(files) + sum(file["damaged"] for file in report.files)


def _rows_of(report: StoreReport) -> Iterator[tuple[str, ...]]:
    good = report.those("good")
    yield "records", f"{report.num_records:,}", f"in {counted(len(good), 'file')}"
    damaged = [file for file in good if file["damaged"] > 0]
    where = ", ".join(file["name"] for file in damaged)
    yield "damaged", f"{sum(file['damaged'] for file in damaged):,}", where


def rows_of_unused(report: StoreReport) -> Iterator[tuple[str, ...]]:
    """Yields rows about files that are not used, and why."""
    states: tuple[tuple[FileState, str, str], ...] = (
        ("foreign", "foreign", "of another version of fastload, or another machine"),
        ("untrusted", "not believed", "others may write to them, or own them"),
        ("unread", "unreadable", ""),
        ("damaged", "damaged files", ""),
    )
    for state, name, why in states:
        if files := report.those(state):
            yield name, f"{len(files):,}", ": ".join(filter(None, [why, ", ".join(file["name"] for file in files[:3])]))


def _rows_of_comparison(kind: Kind, run: FileRun) -> Iterator[tuple[str, ...]]:
    yield "compared", f"{run.counts['known'] + run.counts['different']:,}", "files with a record"
    yield "different", f"{run.counts['different']:,}", ", ".join(map(named, run.named("different")))
    yield "without record", f"{run.counts['absent']:,}"
    if run.counts["none"]:
        yield f"without {kind.name}", f"{run.counts['none']:,}", kind.why_none
    if run.counts["unread"]:
        why = "; ".join(f"{named(path)}: {why_unread(path)}" for path in run.named("unread"))
        yield "unreadable", f"{run.counts['unread']:,}", why
