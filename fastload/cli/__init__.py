"""The commands of ``python -m fastload``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from fastload.cli import _index, _verify
from fastload.cli._targets import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 2 for wrong use, with a line that says why.

    Args:
        arguments: without the program's name; default: the process's.
    """
    parser = argparse.ArgumentParser(prog="python -m fastload", description="Tools around fastload.DataLoader.")
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    _verify.add_to(commands)
    _index.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        exit_code: int = options.run(options)
    except UsageError as error:
        print(f"fastload {options.command}: error: {error}", file=sys.stderr)
        return 2
    return exit_code
