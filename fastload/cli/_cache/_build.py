"""``fastload cache build``: a record of each file, before training."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from fastload import _native
from fastload._decode_cache._builders import FileRun
from fastload._decode_cache._cache import Cache, place_of
from fastload._decode_cache._report import StoreReport, report_of
from fastload._decode_cache._store import CLOSE_SECONDS, OpenStore
from fastload._display._table import Table
from fastload._display._units import counted, in_bytes, in_seconds
from fastload.cli._cache._arguments import RIGHT, add_shared, add_workers, cache_of, store_errors, workers_of
from fastload.cli._cache._files import TargetFiles, files_of, named, why_unread
from fastload.cli._cache._kinds import Kind, add_what, kind_of
from fastload.cli._cache._run import FLUSH_SECONDS, builders, gone_through, record_action
from fastload.cli._console import say, show
from fastload.cli._errors import DIFFERENT, FINE, INTERRUPTED, CommandError, UsageError

_DESCRIPTION = """Reads and decodes every file of TARGET once, as a whole, and keeps its index in a store, or with
--what coefficients its coefficients, or with --what pixels what the first steps of a loader's transform make of it, so
that the first epoch is as fast as later ones. A file that the store knows is passed over: what was interrupted goes on
with the same command. Ctrl-C publishes what is there. On a network file system this command alone writes indexes, and
no other process may use the store meanwhile; coefficients and pixels are not kept there."""
_NOT_KEPT = 'too large, or in the place of damaged records: "fastload cache verify" tells'
_TOO_NEW = "changed in the last minute, or nobody knows when; the same command a minute later takes them"


def add_to(parts: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = parts.add_parser(
        "build", help="keep a record of every file of a folder or a loader", description=_DESCRIPTION
    )
    parser.add_argument("target", help="a folder with images, or script.py:name or package.module:name of a loader")
    add_what(parser, "what is kept of a file")
    parser.add_argument("--path", metavar="P", help="folder of the store (default: decode in the cache folder)")
    parser.add_argument(
        "--max-bytes",
        metavar="SIZE",
        help="of the store, such as 200G or 1.5TiB (default: 4GiB; to be given with --what coefficients or pixels)",
    )
    add_workers(parser)
    add_shared(parser)
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    kind, num_workers = kind_of(options), workers_of(options)
    cache = cache_of(options.path, options.max_bytes, options.shared, kind.name)
    files = files_of(options.target)
    with store_errors(cache.path):
        store = OpenStore(place_of(cache, kind.name), is_built=True)
    if store.obstacle is not None:
        raise UsageError(f"nothing can be kept in {cache.path}: {store.obstacle}")
    begin = time.perf_counter()
    try:
        store.native.flush(FLUSH_SECONDS)  # so that it is tidied up before its records are counted
        num_before = _num_records(store)
        decode_cache = kind.make_cache(store.native, len(files.paths))
        actions = [record_action(builder, store) for builder in builders(kind, decode_cache, files, num_workers)]
        run, is_whole = gone_through(
            f"building {kind.plural}",
            files.paths,
            actions,
            lambda: store.why_nothing_is_kept() is not None or not decode_cache.is_worth_it,
        )
    finally:
        is_published = store.close()
    # Records that a thread has left to the writer are lost where that finds no room, or a damaged one in their place.
    trouble = _trouble(store, decode_cache)
    num_new = run.counts["kept"] if trouble is None and kind.is_merged else _num_records(store) - num_before
    build = _Build(kind, cache, files, run, time.perf_counter() - begin, max(0, run.counts["kept"] - num_new))
    build.show(trouble)
    if not is_published:
        raise CommandError(f"what was made is not published after {CLOSE_SECONDS:g} s: the disk does not keep up")
    if not is_whole:
        say("  interrupted: what is there is published, and the same command goes on with the rest")
        return INTERRUPTED
    return FINE if build.is_complete else DIFFERENT


def _num_records(store: OpenStore) -> int:
    """That are published."""
    return sum(file["records"] for file in store.native.report(False) if StoreReport.is_good(file))


def _trouble(store: OpenStore, decode_cache: _native.DecodeCache) -> str | None:
    if (reason := store.why_nothing_is_kept()) is not None:
        return reason
    return None if decode_cache.is_worth_it else "those of fewer than one file in 20 would fit"


class _Build:
    """What was done, for people."""

    def __init__(
        self, kind: Kind, cache: Cache, files: TargetFiles, run: FileRun, seconds: float, num_lost: int
    ) -> None:
        self._kind = kind
        self._cache = cache
        self._files = files
        self._run = run
        self._seconds = seconds
        self._num_lost = num_lost
        self._num_kept = run.counts["kept"] - num_lost
        self._num_known = self._num_kept + run.counts["known"] + run.counts["different"]

    @property
    def is_complete(self) -> bool:
        """Whether every file that can have a record has one."""
        left_out = len(self._files.paths) - self._num_known - self._run.counts["none"]
        return left_out == 0 and not self._files.unlisted

    def show(self, trouble: str | None) -> None:
        """Writes it to standard output."""
        total = counted(len(self._files.paths), "file")
        show(
            Table(f"fastload cache build: {self._num_known:,} of {total} known", list(self._rows(trouble)), right=RIGHT)
        )

    def _rows(self, trouble: str | None) -> Iterator[tuple[str, ...]]:
        counts = self._run.counts
        num_done = counts.total()
        yield "kept", f"{self._num_kept:,}", f"in {in_seconds(self._seconds)}, {num_done / self._seconds:,.0f} files/s"
        yield "known before", f"{counts['known']:,}"
        if counts["different"]:
            yield "made anew", f"{counts['different']:,}", f"their records were wrong: {self._names('different')}"
        if counts["none"]:
            yield f"without {self._kind.name}", f"{counts['none']:,}", self._kind.why_none
        if counts["too new"]:
            yield "too new", f"{counts['too new']:,}", f"{_TOO_NEW}: {self._names('too new')}"
        if counts["unread"]:
            yield "unreadable", f"{counts['unread']:,}", self._unread()
        for reason in self._files.unlisted[:1]:
            yield "not listed", f"{len(self._files.unlisted):,}", reason
        if trouble is not None:
            told = sum(counts[outcome] for outcome in ("none", "too new", "unread"))
            left = len(self._files.paths) - self._num_known - told
            yield "no room", f"{left:,}", f"{trouble}; {self._advice()}"
        elif num_not_kept := counts["not kept"] + self._num_lost:
            yield "not kept", f"{num_not_kept:,}", _NOT_KEPT
        if trouble is None and num_done < len(self._files.paths):
            yield "not done", f"{len(self._files.paths) - num_done:,}"
        with store_errors(self._cache.path):
            report = report_of(self._cache.path, is_shared=self._cache.shared, reads_records=False)
        yield "store", in_bytes(report.used_bytes), f"of at most {in_bytes(self._cache.max_bytes)}, in {report.path}"

    def _names(self, outcome: _native.BuildOutcome) -> str:
        return ", ".join(map(named, self._run.named(outcome)))

    def _unread(self) -> str:
        return "; ".join(f"{named(path)}: {why_unread(path)}" for path in self._run.named("unread"))

    def _advice(self) -> str:
        return f"give a larger --max-bytes than {in_bytes(self._cache.max_bytes)}, or free space on the disk"
