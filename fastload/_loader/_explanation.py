"""What explain() returns."""

from __future__ import annotations

from typing import Any


class Explanation(str):
    """A text of several lines that notebooks show as such, by IPython's display protocol, and not as a literal."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
