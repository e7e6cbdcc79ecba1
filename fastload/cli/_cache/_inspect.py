"""``fastload cache info``, ``verify`` and ``clear``: a store that is there is shown, checked or removed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from fastload._decode_cache._build import FileRun, comparing_actions
from fastload._decode_cache._clearing import clear_store
from fastload._decode_cache._report import FileState, StoreReport, report_of
from fastload._display._progress import Progress
from fastload._display._table import Table
from fastload._display._units import counted, in_bytes, in_percent
from fastload._process._file_system import is_remote
from fastload.cli._cache._arguments import (
    Kind,
    add_workers,
    cache_of,
    files_of,
    gone_through,
    kinds_in,
    names_of,
    rows_without_record,
    store_errors,
    workers_of,
)
from fastload.cli._common import DIFFERENT, FINE, INTERRUPTED, add_command, say, show

_REMOTE = 'of other machines: only "fastload cache build" writes, and only indexes'


def add_to(parts: Any) -> None:
    """Adds the commands to the subparsers of argparse."""
    parser = add_command(parts, "info", _info, help="say what a store has")
    parser.add_argument("path", nargs="?", help="folder of the store (default: decode in the cache folder)")
    parser.add_argument("--max-bytes", metavar="SIZE", help="that programs give the store (default: 4GiB)")
    parser.add_argument("--json", action="store_true", help="print it as JSON")

    parser = add_command(parts, "verify", _verify, help="check a store")
    parser.add_argument("path", help="folder of the store")
    parser.add_argument("--against", metavar="TARGET", help="a folder with images, or script.py:name of a loader")
    add_workers(parser)

    parser = add_command(parts, "clear", _clear, help="remove a store")
    parser.add_argument("path", help="folder of the store")
    parser.add_argument("--stale", action="store_true", help="only files of other versions and damaged ones")


def _info(options: argparse.Namespace) -> int:
    """Shows what a store has on disk, and changes nothing."""
    cache = cache_of(options.path, options.max_bytes)
    with store_errors(cache.path):
        report = report_of(cache.path, reads_records=False)
    if options.json:
        print(json.dumps({**_as_dict(report), "max_bytes": cache.max_bytes}, indent=2))
    else:
        show(Table(f"fastload cache info: {cache.path}", list(_info_rows(report, cache.max_bytes)), right=(1,)))
    return FINE


def _info_rows(report: StoreReport, max_bytes: int) -> Iterator[tuple[str, ...]]:
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
    yield from _rows_of_unused(report)
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


def _verify(options: argparse.Namespace) -> int:
    """Reads and checks every record of a store. With --against, also makes the records of each file of TARGET anew and
    compares them; for pixels TARGET is a loader. Nothing is changed."""
    path, num_workers = cache_of(options.path).path, workers_of(options)
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
            with store_errors(path):
                actions = comparing_actions(path, kind.name, kind.image_files(files), num_workers)
            run, is_whole = gone_through(f"comparing {kind.plural}", files.paths, actions)
            of_kind += _rows_of_comparison(kind, run)
            num_different += run.counts["different"]
        rows += ((kind.name, *row) for row in of_kind)
    rows += (("files", *row) for row in _rows_of_unused(report))
    num_bad = _num_damaged(report) + num_different
    verdict = f"{counted(num_bad, 'fault')}" if num_bad else "no fault"
    show(Table(f"fastload cache verify: {verdict} in {path}", rows, right=(2,)))
    if num_different:
        say(f'  memory or disk may be failing, or somebody has written to the store: "fastload cache clear {path}"')
    elif num_bad:
        say(f'  loaders do without such records; "fastload cache clear {path} --stale" removes the files they are in')
    if not is_whole:
        say("  interrupted: not all files were compared")
        return INTERRUPTED
    return DIFFERENT if num_bad else FINE


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


def _rows_of_unused(report: StoreReport) -> Iterator[tuple[str, ...]]:
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
    yield "different", f"{run.counts['different']:,}", names_of(run, "different")
    yield "without record", f"{run.counts['absent']:,}"
    yield from rows_without_record(kind, run)


def _clear(options: argparse.Namespace) -> int:
    """Removes the files of a store, and no others, and then its folders if they are empty, without asking. A file that
    a living process writes to stays. Processes that read the store go on."""
    path = cache_of(options.path).path
    with store_errors(path), Progress(f"removing {path}"):
        done = clear_store(path, only_stale=options.stale)
    say(f"fastload cache clear: {counted(len(done.removed), 'file')} removed from {path}, {in_bytes(done.num_bytes)}")
    for name, reason in sorted(done.stale.items()):
        say(f"  removed: {name}: {reason}")
    for name, reason in sorted(done.left.items()):
        say(f"  left: {name}: {reason}")
    for folder in done.folders:
        say(f"  folder removed: {folder}")
    return FINE
