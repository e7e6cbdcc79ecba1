"""``fastload cache build``: a record of each file, before training."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastload._decode_cache._build import FileRun, begin_build
from fastload._decode_cache._cache import Cache
from fastload._decode_cache._report import report_of
from fastload._decode_cache._store import CLOSE_SECONDS, KINDS
from fastload._display._table import Table
from fastload._display._units import counted, in_bytes, in_seconds
from fastload.cli._cache._arguments import (
    Kind,
    TargetFiles,
    add_workers,
    cache_of,
    files_of,
    gone_through,
    kind_of,
    names_of,
    rows_without_record,
    store_errors,
    workers_of,
)
from fastload.cli._common import DIFFERENT, FINE, INTERRUPTED, CommandError, add_command, say, show

_NOT_KEPT = 'too large, or instead of damaged records: "fastload cache verify" tells'
_WRONG = "their records were wrong"
_TOO_NEW = "changed in the last minute, or nobody knows when; the same command a minute later takes them"


def add_to(parts: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    parser = add_command(parts, "build", _run, help="keep a record of every file of a folder or a loader")
    parser.add_argument("target", help="a folder with images, or script.py:name or package.module:name of a loader")
    parser.add_argument("--what", choices=KINDS, default="index", help="what is kept of a file (default: index)")
    parser.add_argument("--path", metavar="P", help="folder of the store (default: decode in the cache folder)")
    parser.add_argument(
        "--max-bytes",
        metavar="SIZE",
        help="of the store, such as 200G or 1.5TiB (default: 4GiB; to be given with --what coefficients or pixels)",
    )
    add_workers(parser)


def _run(options: argparse.Namespace) -> int:
    """Reads and decodes every file of TARGET once, as a whole, and keeps its index in a store. With --what coefficients
    it keeps the coefficients, with --what pixels the images that the first steps of a loader's transform make. Loaders
    read them and never write them. Files that the store knows are passed over, so an interrupted build goes on with
    the same command. Ctrl-C publishes what is there. On a network file system only this command writes indexes, and no
    other process may use the store meanwhile; coefficients and pixels are not kept there."""
    kind, num_workers = kind_of(options), workers_of(options)
    cache = cache_of(options.path, options.max_bytes, kind.name)
    files = files_of(options.target)
    image_files = kind.image_files(files)
    with store_errors(cache.path):
        build = begin_build(cache.path, cache.max_bytes, kind.name, image_files)
    begin = time.perf_counter()
    try:
        actions = [build.action() for _ in range(num_workers)]
        run, is_whole = gone_through(
            f"building {kind.plural}", files.paths, actions, lambda: build.trouble() is not None
        )
    finally:
        is_published = build.close()
    seconds = time.perf_counter() - begin
    result = _Result(kind, cache, files, run, seconds, run.counts["kept"] - build.num_kept(run.counts["kept"]))
    result.show(build.trouble())
    if not is_published:
        raise CommandError(f"what was made is not published after {CLOSE_SECONDS:g} s: the disk does not keep up")
    if not is_whole:
        say("  interrupted: what is there is published, and the same command goes on with the rest")
        return INTERRUPTED
    return FINE if result.is_complete else DIFFERENT


@dataclass(frozen=True)
class _Result:
    """The result of a build, as the command shows it; `num_lost` of the records that were kept are not in the store."""

    kind: Kind
    cache: Cache
    files: TargetFiles
    run: FileRun
    seconds: float
    num_lost: int

    @property
    def num_known(self) -> int:
        """The number of files with a record."""
        counts = self.run.counts
        return counts["kept"] - self.num_lost + counts["known"] + counts["different"]

    @property
    def is_complete(self) -> bool:
        """Whether every file that can have a record has one."""
        left_out = len(self.files.paths) - self.num_known - self.run.counts["none"]
        return left_out == 0 and not self.files.unlisted

    def show(self, trouble: str | None) -> None:
        """Writes it to standard output."""
        total = counted(len(self.files.paths), "file")
        show(Table(f"fastload cache build: {self.num_known:,} of {total} known", list(self._rows(trouble)), right=(1,)))

    def _rows(self, trouble: str | None) -> Iterator[tuple[str, ...]]:
        counts = self.run.counts
        num_done = counts.total()
        speed = f"in {in_seconds(self.seconds)}, {num_done / self.seconds:,.0f} files/s"
        yield "kept", f"{counts['kept'] - self.num_lost:,}", speed
        yield "known before", f"{counts['known']:,}"
        if counts["different"]:
            yield "made anew", f"{counts['different']:,}", f"{_WRONG}: {names_of(self.run, 'different')}"
        if counts["too new"]:
            yield "too new", f"{counts['too new']:,}", f"{_TOO_NEW}: {names_of(self.run, 'too new')}"
        yield from rows_without_record(self.kind, self.run)
        for reason in self.files.unlisted[:1]:
            yield "not listed", f"{len(self.files.unlisted):,}", reason
        if trouble is not None:
            told = sum(counts[outcome] for outcome in ("none", "too new", "unread"))
            left = len(self.files.paths) - self.num_known - told
            advice = f"give a larger --max-bytes than {in_bytes(self.cache.max_bytes)}, or free space on the disk"
            yield "no room", f"{left:,}", f"{trouble}; {advice}"
        elif num_not_kept := counts["not kept"] + self.num_lost:
            yield "not kept", f"{num_not_kept:,}", _NOT_KEPT
        if trouble is None and num_done < len(self.files.paths):
            yield "not done", f"{len(self.files.paths) - num_done:,}"
        with store_errors(self.cache.path):
            report = report_of(self.cache.path, reads_records=False)
        yield "store", in_bytes(report.used_bytes), f"of at most {in_bytes(self.cache.max_bytes)}, in {report.path}"
