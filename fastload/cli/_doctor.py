"""``fastload doctor``: what limits a loader, what to change, and the gain from the change."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._tools.doctor import doctor
from fastload.cli._console import show
from fastload.cli._errors import FINE, LoaderFailedError, UsageError, one_line, require_folders, write_json
from fastload.cli._targets import function_of, loader_of

_DESCRIPTION = """Measures the machine, the files and a loader in parts, says in one sentence what limits it, by how
much, and what to change, and measures the loader again with that change. It takes less than a minute. Without a
training step it judges loading alone: give the step's length, or a function that makes one."""


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
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="length of each measurement (default: 5)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    for name, value in (("--seconds", options.seconds), ("--step-time", options.step_time)):
        if value is not None and not value > 0:
            raise UsageError(f"{name} must be a positive number, got {value:g}")
    require_folders(options.json)
    loader = loader_of(options.loader)
    train_step: Callable[[Any], object] | None = None
    if options.train_step is not None:
        train_step = function_of(options.train_step)
    try:
        with _Steps() as steps:
            report = doctor(
                loader,
                step_seconds=options.step_time,
                train_step=train_step,
                seconds=options.seconds,
                progress=steps.begin,
            )
    except Exception as error:
        raise LoaderFailedError(one_line(error)) from error
    show(report._table())
    write_json(options.json, report.as_dict())
    return FINE


class _Steps(contextlib.ExitStack):
    """Shows the progress of one step after another."""

    def begin(self, what: str) -> None:
        self.close()
        self.enter_context(Progress(what))
