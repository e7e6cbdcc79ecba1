"""The commands' common part: exit codes, the errors that end them, parsers, and their output.

With rich installed, output to a terminal has colours and boxes; otherwise it is plain lines.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fastload._display._progress import is_rich
from fastload._display._table import Table

FINE = 0
DIFFERENT = 1
WRONG_USE = 2
FAILED = 3
INTERRUPTED = 130  # as shells report a program that SIGINT has ended

EXIT_CODES = """exit codes:
  0    fine
  1    loaders that were compared differ (verify, bench), files are bad (check), a store has faults (cache)
  2    wrong use: an option, a file or a loader named on the command line is missing or cannot be used
  3    a loader failed while it ran
  130  interrupted
"""


class CommandError(Exception):
    """Ends a command; the text is one line that names the object and, if there is one, the next step."""

    exit_code = FAILED


class UsageError(CommandError):
    """Something on the command line is wrong."""

    exit_code = WRONG_USE


def one_line(error: BaseException) -> str:
    """Returns type and text of an exception in one line, without the traceback that a worker reports."""
    text = str(error)
    head, is_reported, traceback = text.partition("\nOriginal ")
    if is_reported:
        text = f"{head} {traceback.rstrip().rpartition(chr(10))[2]}"
    return " ".join(f"{type(error).__name__}: {text}".split())


@contextlib.contextmanager
def _errors_as(raised: type[CommandError], *kinds: type[Exception], prefix: str = "") -> Iterator[None]:
    """Turns exceptions of these types into one that ends the command, and whose text begins with `prefix`."""
    try:
        yield
    except CommandError:
        raise
    except kinds as error:
        raise raised(f"{prefix}{one_line(error)}") from error


usage_errors = functools.partial(_errors_as, UsageError)
loader_errors = functools.partial(_errors_as, CommandError, Exception)


def add_parser(commands: Any, name: str, description: str | None, **others: str) -> argparse.ArgumentParser:
    """Adds a parser to the subparsers of argparse."""
    form = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name, description=description, epilog=EXIT_CODES, formatter_class=form, **others
    )
    return parser


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], *, help: str
) -> argparse.ArgumentParser:
    """Adds a command to the subparsers of argparse; the docstring of `run` describes it to users."""
    parser = add_parser(commands, name, inspect.getdoc(run), help=help)
    parser.set_defaults(run=run)
    return parser


def require_folders(*files: Path | None) -> None:
    """Raises UsageError if the folder of an output file is missing: before the work, not after it."""
    for file in files:
        if file is not None and not file.parent.is_dir():
            raise UsageError(f"{file} cannot be written: there is no folder {file.parent}")


def write_json(file: Path | None, values: Mapping[str, Any]) -> None:
    """Writes an object to a file, if one is named. Raises UsageError if it cannot be written."""
    if file is not None:
        with usage_errors(OSError):
            file.write_text(json.dumps(values, indent=2) + "\n")


def show(table: Table) -> None:
    """Writes a table to standard output."""
    if is_rich(sys.stdout):
        _show_rich(table)
    else:
        print(table.text(columns=None))


def say(text: str, colour: str = "") -> None:
    """Writes text to standard output; its first line in `colour`, if there are colours."""
    if colour and is_rich(sys.stdout):
        from rich.console import Console
        from rich.text import Text

        first, newline, rest = text.partition("\n")
        Console(soft_wrap=True).print(Text.assemble((first, colour), newline, rest))
    else:
        print(text)


def _show_rich(table: Table) -> None:
    import rich.box
    import rich.table
    from rich.console import Console
    from rich.text import Text

    shown = rich.table.Table(title=Text(table.title), title_justify="left", title_style="bold", box=rich.box.SIMPLE)
    shown.show_header = bool(table.head)
    for number in range(max(map(len, [table.head, *table.rows]), default=0)):
        head = table.head[number] if number < len(table.head) else ""
        style = "cyan" if number == 0 else None
        shown.add_column(Text(head), justify="right" if number in table.right else "left", style=style)
    for row in table.rows:
        shown.add_row(*map(Text, row))
    Console().print(shown)
