"""``fastload verify``: compares two of the user's loaders."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._process._config import TorchDataLoader
from fastload._tools.verify import VerifyReport, verify
from fastload.cli._console import say
from fastload.cli._errors import LoaderFailedError, UsageError, one_line, require_folders, write_json
from fastload.cli._targets import loader_of

_DESCRIPTION = """Compares two loaders bit for bit and says at which stage they first differ. Each is named as
script.py:name or package.module:name, and is a DataLoader or a function without arguments that returns one."""


def add_to(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify", help="compare two loaders bit for bit", description=_DESCRIPTION
    )
    parser.add_argument("old", help="the loader to compare with, usually torch's")
    parser.add_argument("new", help="the loader to check, usually fastload's")
    parser.add_argument("--batches", type=int, metavar="N", help="compare at most N batches (default: the whole epoch)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of both loaders (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--image", type=Path, metavar="FILE", help="write the worst sample beside its twin as PNG")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    require_folders(options.json, options.image)
    old, new = loader_of(options.old), loader_of(options.new)
    report = compare(old, new, options.batches, options.seed)
    say(str(report), "green" if report.is_equal else "red")
    write_json(options.json, report.as_dict())
    if options.image is not None and report.has_image:
        try:
            report.save_image(options.image)
        except OSError as error:
            raise UsageError(one_line(error)) from error
        say(f"\n  {options.image}: old, new and difference of the worst sample")
    return report.exit_code


def compare(old: TorchDataLoader[Any], new: TorchDataLoader[Any], batches: int | None, seed: int = 0) -> VerifyReport:
    """Runs fastload.verify with progress.

    Raises:
        UsageError: `batches` or `seed` is not a valid number.
        LoaderFailedError: iter() of a loader raises.
    """
    try:
        with Progress("comparing", "batches") as progress:
            return verify(old, new, batches=batches, seed=seed, progress=progress.advance)
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    except Exception as error:
        raise LoaderFailedError(one_line(error)) from error
