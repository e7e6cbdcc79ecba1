"""The result of explain(): its text and the same content as fields."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastload._display._table import Table
from fastload._planning._verdicts import StageVerdict


class ExplanationRow(NamedTuple):
    """One stage of a loader, as explain() reports it.

    Attributes:
        stage: "source", "transform", "collate" and so on; "to change" for advice.
        what: The object found at this stage, or the text of a remark.
        reason: Why it is not native, or what Python does; None if it is native, and in a remark.
        is_native: Whether native code does it without Python; None in a remark.
    """

    stage: str
    what: str
    reason: str | None
    is_native: bool | None

    @property
    def _outcome(self) -> str:
        return "native" if self.is_native else self.reason or ""


class Explanation(str):
    """The text of explain(): a str, with the same content as fields.

    Attributes:
        verdict: The first line.
        rows: One row per stage, in the order of the text.

    Example:
        >>> explanation = fastload.DataLoader(list(range(10))).explain()
        >>> explanation.verdict
        'not native: samples are loaded in Python, in the calling thread'
        >>> explanation.as_dict()["rows"][0]["stage"]
        'source'
    """

    verdict: str
    rows: tuple[ExplanationRow, ...]

    def __new__(cls, text: str, rows: tuple[ExplanationRow, ...] = ()) -> Explanation:
        self = super().__new__(cls, text)
        self.verdict, self.rows = text.partition("\n")[0], rows
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.rows

    @property
    def is_native(self) -> bool:
        """Whether native code makes the whole batch."""
        return self.verdict.startswith("native:")

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain dicts and lists, for logging as JSON.

        Returns:
            A dict with "verdict": str, "is_native": bool, and "rows": a list with a dict for each row, with "stage",
            "what", "reason" and "is_native".
        """
        return {"verdict": self.verdict, "is_native": self.is_native, "rows": [row._asdict() for row in self.rows]}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        cells = [(row.stage, row.what, row._outcome) for row in self.rows]
        return Table(self.verdict, cells, head=("stage", "what", "native, or why not")).html()


def explanation_of(verdict: str, *rows: StageVerdict | str) -> Explanation:
    """Makes an explanation of its rows. A row that is text is a remark: its stage in ten columns, a blank, its text."""
    return Explanation("\n".join([verdict, *(f"  {row}" for row in rows)]), tuple(map(_row_of, rows)))


def _row_of(row: StageVerdict | str) -> ExplanationRow:
    if isinstance(row, StageVerdict):
        return ExplanationRow(row.stage, row.what, row.reason, row.reason is None)
    return ExplanationRow(row[:10].strip(), row[11:], None, None)
