"""``fastload doctor``: what limits a loader, what to change, and the gain from the change."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._display._stats import LoaderStats
from fastload._tools.doctor import doctor
from fastload._tools.doctor._report import DoctorReport
from fastload.cli._console import show
from fastload.cli._errors import FINE, LoaderFailedError, UsageError, one_line, require_folders
from fastload.cli._targets import function_of, measurable_loader_of

_DESCRIPTION = """Measures the machine, the files and a loader in parts, says in one sentence what limits it, by how
much, and what to change, and measures the loader again with that change. It takes less than a minute. Without a
training step it judges loading alone: give the step's length, a function that makes one, or the stats() of a loader
in use."""


def add_to(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor", help="say why training waits, and what to change", description=_DESCRIPTION
    )
    parser.add_argument(
        "loader", help="script.py:name or package.module:name, a DataLoader or a function returning one"
    )
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--step-time", type=float, metavar="S", help="seconds that a training step takes")
    step.add_argument("--train-step", metavar="SCRIPT:NAME", help="a function that is called with a batch, and timed")
    step.add_argument(
        "--stats", type=Path, metavar="FILE", help="JSON of loader.stats().as_dict(), written while training"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="length of each measurement (default: 5)"
    )
    parser.add_argument(
        "--timeline",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="draw the first batches to a .png file or an .html page; may be given twice",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    for name, value in (("--seconds", options.seconds), ("--step-time", options.step_time)):
        if value is not None and not value > 0:
            raise UsageError(f"{name} must be a positive number, got {value:g}")
    for path in options.timeline:
        if path.suffix not in (".png", ".html"):
            raise UsageError(f"--timeline must end in .png or .html, got {str(path)!r}")
    if options.timeline and importlib.util.find_spec("matplotlib") is None:
        raise UsageError('--timeline needs matplotlib: pip install "fastload[cli]"')
    require_folders(*options.timeline, options.json)
    loader = measurable_loader_of(options.loader)
    train_step: Callable[[Any], object] | None = None
    if options.train_step is not None:
        train_step = function_of(options.train_step)
    step_seconds = options.step_time if options.stats is None else _step_of(options.stats)
    try:
        with _Steps() as steps:
            report = doctor(
                loader,
                step_seconds=step_seconds,
                train_step=train_step,
                seconds=options.seconds,
                progress=steps.begin,
            )
    except Exception as error:
        raise LoaderFailedError(one_line(error)) from error
    show(report._table())
    _write(report, options)
    return FINE


class _Steps(contextlib.ExitStack):
    """Shows the progress of one step after another."""

    def begin(self, what: str) -> None:
        self.close()
        self.enter_context(Progress(what))


def _step_of(path: Path) -> float:
    try:
        stats = LoaderStats(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"--stats {path}: not JSON of loader.stats().as_dict(): {one_line(error)}") from error
    if not stats.mean_step_seconds:
        raise UsageError(f"--stats {path}: no batch was delivered yet, so the step's length is unknown")
    return stats.mean_step_seconds


def _write(report: DoctorReport, options: argparse.Namespace) -> None:
    try:
        for path in options.timeline:
            report.write_timeline(path)
        if options.json is not None:
            options.json.write_text(json.dumps(report.as_dict(), indent=2) + "\n")
    except OSError as error:
        raise UsageError(one_line(error)) from error
