"""The rows of docs/dataloader-contract.md are complete, and the tests that they name exist."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parents[1]
DOCUMENT = TESTS.parent / "docs" / "dataloader-contract.md"
HELD, DEVIATED, NOT_APPLICABLE = "held", "**deviated**", "**not applicable**"


class Row(NamedTuple):
    """One thing that a program may rely on.

    Attributes:
        section: The heading above the row's table.
        name: The thing's name.
        torch: The behaviour of torch.
        verdict: HELD, DEVIATED or NOT_APPLICABLE.
        reason: For a verdict other than HELD: what is done instead, and why. For HELD a remark, or nothing.
        tests: "file.py::function" below tests/contract, or "folder/file.py::function" below tests.
    """

    section: str
    name: str
    torch: str
    verdict: str
    reason: str
    tests: list[str]


def rows_of(text: str) -> list[Row]:
    """Returns the rows of all tables."""
    rows, section = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| |"):
            name, torch, fastload, tests = (cell.strip() for cell in line.strip("|").split(" | "))
            verdict, _, reason = fastload.partition(": ")
            rows.append(Row(section, name, torch, verdict, reason, re.findall(r"`([^`]+)`", tests)))
    return rows


TEXT = DOCUMENT.read_text()
ROWS = rows_of(TEXT)


@functools.cache
def collected(path: Path) -> frozenset[str]:
    """Returns the names of the functions that pytest collects from a module; none if there is no such module."""
    if not path.exists() or not path.name.startswith("test_"):
        return frozenset()
    body = ast.parse(path.read_text()).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def missing(row: Row) -> list[str]:
    """Returns the tests of a row that do not exist."""
    found = []
    for name in row.tests:
        file, _, function = name.partition("::")
        path = TESTS / file if "/" in file else TESTS / "contract" / file
        if function not in collected(path):
            found.append(name)
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_is_complete_and_names_tests_that_exist(row: Row) -> None:
    assert missing(row) == []
    assert row.tests or row.verdict == NOT_APPLICABLE
    assert row.verdict in (HELD, DEVIATED, NOT_APPLICABLE)
    assert row.reason or row.verdict == HELD, "a deviation has its reason"


def test_no_row_comes_twice() -> None:
    names = [(row.section, row.name) for row in ROWS]
    assert len(set(names)) == len(names) >= 60


def test_the_rows_are_counted() -> None:
    counts = Counter(row.verdict for row in ROWS)
    held, deviated, others = (counts[verdict] for verdict in (HELD, DEVIATED, NOT_APPLICABLE))
    assert f"{held} rows are held, {deviated} deviated from on purpose, {others} are not applicable.\n" in TEXT


def test_a_test_that_vanishes_is_missed() -> None:
    table = (
        "## A\n\n| | torch | fastload | tests |\n|---|---|---|---|\n| x | y | held | `{}`, `test_nowhere.py::test_x` |"
    )
    (gone,) = rows_of(table.format("test_rows.py::test_no_such_function"))
    assert missing(gone) == ["test_rows.py::test_no_such_function", "test_nowhere.py::test_x"]
    (known,) = rows_of(table.format("test_rows.py::test_a_test_that_vanishes_is_missed"))
    assert missing(known) == ["test_nowhere.py::test_x"]
