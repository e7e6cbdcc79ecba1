"""What explain() returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastload._display._table import Table
from fastload._planning._verdicts import StageVerdict


class ExplanationRow(NamedTuple):
    """What explain() says of one stage.

    Attributes:
        stage: "source", "transform", "collate" and so on; "to change" for advice.
        what: Was found there.
        reason: Why it is not native, or what Python does; None where it is, and in a remark.
        is_native: Whether native code does it without Python; None in a remark, where there is nothing to do.
    """

    stage: str
    what: str
    reason: str | None
    is_native: bool | None

    @property
    def _outcome(self) -> str:
        return "native" if self.is_native else self.reason or ""


class Explanation(str):
    """The text of explain(), a str in every respect, with the same as fields.

    Attributes:
        verdict: The first line.
        rows: What is said of each stage, in the order of the text.

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
        """Whether native code makes the batches as a whole."""
        return self.verdict.startswith("native:")

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain dicts and lists, for logging as JSON.

        Returns:
            "verdict": str, "is_native": bool, "rows": a dict for each with "stage", "what", "reason", "is_native".
        """
        return {"verdict": self.verdict, "is_native": self.is_native, "rows": [row._asdict() for row in self.rows]}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        cells = [(row.stage, row.what, row._outcome) for row in self.rows]
        return Table(self.verdict, cells, head=("stage", "what", "native, or why not")).html()


def explanation_of(verdict: str, *rows: StageVerdict | str) -> Explanation:
    """The text and its fields. A row that is text is a remark: its stage in ten columns, a blank, and what is said."""
    return Explanation("\n".join([verdict, *(f"  {row}" for row in rows)]), tuple(map(_row_of, rows)))


def _row_of(row: StageVerdict | str) -> ExplanationRow:
    if isinstance(row, StageVerdict):
        return ExplanationRow(row.stage, row.what, row.reason, row.reason is None)
    return ExplanationRow(row[:10].strip(), row[11:], None, None)
