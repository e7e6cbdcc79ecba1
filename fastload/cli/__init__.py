"""The command ``fastload``, also available as ``python -m fastload``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from fastload import _native
from fastload.cli import _bench, _cache, _folder_commands, _info, _loader_commands
from fastload.cli._common import EXIT_CODES, INTERRUPTED, WRONG_USE, CommandError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code, one of those in --help.

    Args:
        arguments: without the program's name; default: the process's.
    """
    parser = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    options, of_scripts = parser.parse_args(given[:end]), given[end + 1 :]
    if options.command is None:
        parser.print_help(sys.stderr)
        return WRONG_USE
    if of_scripts and options.command in _WITHOUT_SCRIPTS:
        parser.error(f"arguments after -- are for a script, and {options.command} imports none")
    argv, sys.argv = sys.argv, [sys.argv[0], *of_scripts]  # as if imported scripts were run with them
    try:
        exit_code: int = options.run(options)
        sys.stdout.flush()
    except CommandError as error:
        print(f"fastload {options.command}: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"fastload {options.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has stopped reading
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        sys.argv = argv
    return exit_code


# Commands that do not take a loader.
_WITHOUT_SCRIPTS = ("info", "index", "check")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fastload",
        description="Tools for fastload.DataLoader. `fastload COMMAND --help` describes each command.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fastload {_native.version}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for module in (_info, _loader_commands, _bench, _folder_commands, _cache):
        module.add_to(commands)
    return parser
