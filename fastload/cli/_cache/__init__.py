"""``fastload cache``: a store on disk made, looked at, checked and removed."""

from __future__ import annotations

from typing import Any

from fastload.cli._cache import _build, _inspect
from fastload.cli._common import add_parser

_DESCRIPTION = """A store on disk keeps what decoding a file leaves behind, for later runs and other processes: what
fastload.Cache(PATH) names in a program. `fastload cache COMMAND --help` says more of each."""


def add_to(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    parser = add_parser(
        commands, "cache", _DESCRIPTION, help="make, look at, check or remove a store of fastload.Cache"
    )
    parts = parser.add_subparsers(title="commands", dest="part", metavar="COMMAND", required=True)
    _build.add_to(parts)
    _inspect.add_to(parts)
