"""``fastload bench``: compares torch's DataLoader and fastload's on the same data, then measures them in turns."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._display._table import Table
from fastload._display._units import counted, in_percent, in_seconds
from fastload._loader._counterparts import fastload_counterpart, torch_counterpart
from fastload._process._config import TorchDataLoader
from fastload._process._limits import num_auto_workers
from fastload._tools._benchmark import BenchmarkResult, benchmark
from fastload.cli._common import (
    DIFFERENT,
    FINE,
    UsageError,
    add_command,
    loader_errors,
    require_folders,
    say,
    show,
    write_json,
)
from fastload.cli._folder_commands import loader_of_folder
from fastload.cli._loader_commands import compare
from fastload.cli._targets import loader_of

_NUM_TURNS = 2
_WARMUP_SECONDS = 0.5
_LARGE_SHARE = 0.5  # share of the time


def add_to(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    parser = add_command(commands, "bench", _run, help="measure torch's loader and fastload's on your data")
    parser.add_argument("target", help="a folder of images, or script.py:name or package.module:name of a loader")
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="measure each loader this long (default: 10)"
    )
    parser.add_argument(
        "--compare", type=int, default=4, metavar="N", help="compare this many batches first (default: 4)"
    )
    parser.add_argument("--batch-size", type=int, metavar="N", help="batch size of a folder's loader (default: 64)")
    parser.add_argument("--workers", type=int, metavar="N", help="threads of a folder's loader (default: auto)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON")


def _run(options: argparse.Namespace) -> int:
    """Compares the batches of torch's DataLoader and of fastload's, and measures both in turns. For a folder with a
    folder of images for each class, the loader is the usual one for training: random crops of 224 pixels, flips,
    normalisation (torchvision is needed). Your own loader, torch's or fastload's, is measured as both kinds with its
    own arguments, except its device."""
    if not options.seconds > 0:
        raise UsageError(f"--seconds must be a positive number, got {options.seconds:g}")
    require_folders(options.json)
    given = _loader(options)
    old, new = torch_counterpart(given), fastload_counterpart(given)
    report = compare(old, fastload_counterpart(given, rng="torch"), options.compare)
    if not report.is_equal:
        say(str(report), "red")
        say("\n  nothing was measured, because the batches differ")
        return DIFFERENT
    say(f"fastload bench: {new!r}")
    say(f"  compared      {counted(report.samples_compared, 'sample')}: 0 differences")
    say(f"  fastload is   {new.explain().verdict}")
    results = _measured({"torch": old, "fastload": new}, options.seconds / _NUM_TURNS)
    show(_table(results))
    # A reason why the numbers may differ from a training epoch's.
    if starting := [name for name, turns in results.items() if _Sum(turns).start_share > _LARGE_SHARE]:
        say(
            f"  note: {' and '.join(starting)} spent most of the time starting epochs, because an epoch is short here. "
            "With more images or smaller batches the numbers represent a long epoch."
        )
    turns = {name: [turn.as_dict() for turn in found] for name, found in results.items()}
    write_json(options.json, {"compared": report.as_dict(), **turns})
    return FINE


def _loader(options: argparse.Namespace) -> TorchDataLoader[Any]:
    target: str = options.target
    if Path(target).expanduser().is_dir():
        batch_size = 64 if options.batch_size is None else options.batch_size
        workers = num_auto_workers() if options.workers is None else options.workers
        if batch_size < 1 or workers < 0:
            raise UsageError("--batch-size must be positive and --workers must not be negative")
        with Progress(f"listing {target}"):
            return loader_of_folder(target, batch_size, workers)
    if options.batch_size is not None or options.workers is not None:
        raise UsageError("--batch-size and --workers are for a folder's loader: set them where your loader is made")
    return loader_of(target)


def _measured(loaders: dict[str, TorchDataLoader[Any]], seconds: float) -> dict[str, list[BenchmarkResult]]:
    """Measures the loaders in turns, so that both profit from what the first one leaves in the page cache."""
    results: dict[str, list[BenchmarkResult]] = {name: [] for name in loaders}
    for turn in range(_NUM_TURNS):
        for name, loader in loaders.items():
            progress = Progress(f"measuring {name}, turn {turn + 1} of {_NUM_TURNS}", "%")
            with loader_errors(prefix=f"{name}'s loader: "), progress:
                found = benchmark(loader, seconds, warmup_seconds=_WARMUP_SECONDS, progress=progress.advance)
            results[name].append(found)
    return results


def _table(results: dict[str, list[BenchmarkResult]]) -> Table:
    old, new = (_Sum(turns) for turns in results.values())
    rows = [
        ("samples/s", f"{old.rate:,.0f}", f"{new.rate:,.0f}", f"{new.rate / old.rate:.2g} times as many"),
        ("  by turns", old.rates, new.rates, ""),
        ("first batch", in_seconds(old.first), in_seconds(new.first), "the best"),
        ("epoch starts", old.epoch_starts, new.epoch_starts, "of the time"),
        ("CPU a sample", in_seconds(old.cpu), in_seconds(new.cpu), f"{old.cpu / new.cpu:.2g} times as much with torch"),
        ("a batch, p50", in_seconds(old.p50), in_seconds(new.p50), ""),
        ("a batch, p99", in_seconds(old.p99), in_seconds(new.p99), ""),
    ]
    return Table("", rows, head=("", *results), right=(1, 2))


class _Sum:
    """The sum of all turns of one loader."""

    def __init__(self, turns: Sequence[BenchmarkResult]) -> None:
        samples, seconds = sum(turn.samples for turn in turns), sum(turn.seconds for turn in turns)
        self.rate = samples / seconds
        self.rates = ", ".join(f"{turn.samples_per_second:,.0f}" for turn in turns)
        self.first = min(turn.first_batch_seconds for turn in turns)
        starts = sum(turn.epoch_start_seconds for turn in turns)
        self.start_share = starts / seconds
        self.epoch_starts = in_percent(starts, seconds)
        self.cpu = max(sum(turn.cpu_seconds for turn in turns) / samples, 1e-9)
        self.p50 = min(turn.wait_p50_seconds for turn in turns)
        self.p99 = max(turn.wait_p99_seconds for turn in turns)
