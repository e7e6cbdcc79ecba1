"""A table that is shown as text in a terminal and as HTML in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

# Width of a line that print() shows.
MAX_COLUMNS = 100


@dataclass(frozen=True)
class Table:
    """Rows of cells, which may differ in length, under a title; columns with a number in `right` are right-aligned."""

    title: str
    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()
    right: Collection[int] = ()

    def text(self, columns: int | None = MAX_COLUMNS) -> str:
        """Returns lines cut to `columns` characters, or whole; a first cell equal to the one above is left blank."""
        lines = [self.head, *_without_repeats(self.rows)] if self.head else _without_repeats(self.rows)
        cells = list(zip_longest(*lines, fillvalue=""))
        # The last column may be long, and nothing follows it.
        widths = [max(map(len, column)) for column in cells[:-1]]
        shown = [*filter(None, [self.title]), *(self._line(line, widths) for line in lines)]
        return "\n".join(shown if columns is None else [_cut(line, columns) for line in shown])

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        placed = [
            cell.rjust(width) if number in self.right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(cells, [*widths, 0], strict=False))
        ]
        return ("  " + "  ".join(placed)).rstrip()

    def html(self) -> str:
        """Returns a table element with every cell escaped."""
        lines = [self.head, *_without_repeats(self.rows)] if self.head else _without_repeats(self.rows)
        num_columns = max(map(len, lines), default=0)
        kinds = ["th" if self.head else "td", *["td"] * len(lines)]
        rows = [self._html_row(kind, line, num_columns) for kind, line in zip(kinds, lines, strict=False)]
        return f"<table><caption style='text-align:left'>{_escaped(self.title)}</caption>{''.join(rows)}</table>"

    def _html_row(self, kind: str, cells: Sequence[str], num_columns: int) -> str:
        """Returns a row element; a last cell with text spans the empty columns to its right."""
        last = max((number for number, cell in enumerate(cells) if cell), default=0)
        placed = []
        for number, cell in enumerate(cells[: last + 1]):
            side = "right" if number in self.right else "left"
            span = f" colspan='{num_columns - last}'" if number == last and side == "left" else ""
            placed.append(f"<{kind}{span} style='text-align:{side};vertical-align:top'>{_escaped(cell)}</{kind}>")
        return f"<tr>{''.join(placed)}</tr>"


def _escaped(text: str) -> str:
    import html  # only notebooks need it

    return html.escape(text)


class Shown:
    """An object that print() and notebooks show as a table."""

    @abstractmethod
    def _table(self) -> Table:
        """Returns the table that is shown."""

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def _without_repeats(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    shown: list[Sequence[str]] = []
    above = None
    for row in rows:
        shown.append(["", *row[1:]] if row and row[0] == above else row)
        above = row[0] if row else None
    return shown


def _cut(line: str, columns: int) -> str:
    return line if len(line) <= columns else line[: columns - 3].rstrip() + "..."
