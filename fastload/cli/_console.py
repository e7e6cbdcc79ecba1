"""Output of the commands: with rich if it is installed and the output is a terminal, otherwise in plain lines."""

from __future__ import annotations

import sys

from fastload._display._progress import is_rich
from fastload._display._table import Table


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

        first, newline, rest = text.partition("\n")
        console = Console(highlight=False, soft_wrap=True)
        console.print(first, style=colour, markup=False, end=newline or "\n")
        if newline:
            console.print(rest, markup=False)
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
