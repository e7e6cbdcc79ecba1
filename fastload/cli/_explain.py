"""``fastload explain``: which parts of a loader are native, and why the others are not."""

from __future__ import annotations

import argparse
import json
from typing import Any

from fastload._display._progress import Progress
from fastload._loader._counterparts import as_fastload
from fastload.cli._console import say
from fastload.cli._errors import LoaderFailedError, one_line
from fastload.cli._targets import loader_of

_DESCRIPTION = """Says, stage by stage, what is native in a loader and, if a stage is not, why and what to change. For
torch's loader it says how fastload.DataLoader would load with the same arguments."""


def add_to(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain", help="say what is native in a loader", description=_DESCRIPTION
    )
    parser.add_argument(
        "loader", help="script.py:name or package.module:name, a DataLoader or a function returning one"
    )
    parser.add_argument("--json", action="store_true", help="print the fields as JSON")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    loader = loader_of(options.loader)
    try:
        with Progress("looking at the loader"):
            explanation = as_fastload(loader).explain()
    except Exception as error:
        raise LoaderFailedError(one_line(error)) from error
    if options.json:
        print(json.dumps(explanation.as_dict(), indent=2))
        return 0
    kind = explanation.verdict.partition(" ")[0]
    say(str(explanation), {"native:": "green", "partly": "yellow"}.get(kind, "red"))
    return 0
