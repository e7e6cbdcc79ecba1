"""``fastload cache``: a store on disk made, looked at, checked and removed."""

from __future__ import annotations

import argparse
from typing import Any

from fastload.cli._cache import _build, _clear, _info, _verify
from fastload.cli._errors import EXIT_CODES

_DESCRIPTION = """A store on disk keeps what decoding a file leaves behind, for later runs and other processes: what
fastload.Cache(PATH) names in a program. `fastload cache COMMAND --help` says more of each."""


def add_to(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "cache", help="make, look at, check or remove a store of fastload.Cache", description=_DESCRIPTION
    )
    parts = parser.add_subparsers(title="commands", dest="part", metavar="COMMAND", required=True)
    for module in (_build, _info, _verify, _clear):
        part = module.add_to(parts)
        part.epilog = EXIT_CODES
        part.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser
