"""``python -m fastload verify``: compare two loaders of the user's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastload._verify import verify
from fastload.cli._targets import UsageError, loader_of, one_line

_DESCRIPTION = """Compares two loaders bit for bit and says at which stage they part. Each is named as script.py:name or
package.module:name, and is a DataLoader or a function without arguments that returns one."""
_EXIT_CODES = "exit codes: 0 nothing differs, 1 something differs, 2 the loaders could not be compared"


def add_to(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    parser = commands.add_parser(
        "verify", help="compare two loaders bit for bit", description=_DESCRIPTION, epilog=_EXIT_CODES
    )
    parser.add_argument("old", help="the loader to compare with, usually torch's")
    parser.add_argument("new", help="the loader to check, usually fastload's")
    parser.add_argument("--batches", type=int, metavar="N", help="compare at most N batches (default: the whole epoch)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of both loaders (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--image", type=Path, metavar="FILE", help="write the worst sample beside its twin as PNG")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    old, new = loader_of(options.old), loader_of(options.new)
    try:
        report = verify(old, new, batches=options.batches, seed=options.seed)
    except Exception as error:
        raise UsageError(one_line(error)) from error
    print(report)
    try:
        if options.json is not None:
            options.json.write_text(report.to_json() + "\n")
        if options.image is not None and report.has_image:
            report.save_image(options.image)
            print(f"\n  {options.image}: old, new and difference of the worst sample")
    except OSError as error:
        raise UsageError(one_line(error)) from error
    return report.exit_code
