"""The table of the contract is true: its tests exist, and the document is made from it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from rows import DEVIATED, DOCUMENT, HELD, NOT_APPLICABLE, ROWS, SECTIONS, Row, document

TESTS = Path(__file__).resolve().parents[1]


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
def test_every_row_names_tests_that_exist(row: Row) -> None:
    assert missing(row) == []
    assert row.tests or row.verdict == NOT_APPLICABLE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_is_complete(row: Row) -> None:
    assert row.section in SECTIONS
    assert row.verdict in (HELD, DEVIATED, NOT_APPLICABLE)
    assert row.reason or row.verdict == HELD, "a deviation has its reason"
    assert not any("|" in text or "\n" in text for text in (row.name, row.torch, row.reason))


def test_no_row_comes_twice() -> None:
    names = [(row.section, row.name) for row in ROWS]
    assert len(set(names)) == len(names) >= 60


def test_a_test_that_vanishes_is_missed() -> None:
    gone = Row(SECTIONS[0], "x", "y", HELD, "", ("test_rows.py::test_no_such_function", "test_nowhere.py::test_x"))
    assert missing(gone) == list(gone.tests)
    assert missing(Row(SECTIONS[0], "x", "y", HELD, "", ("test_rows.py::test_a_test_that_vanishes_is_missed",))) == []


def test_the_document_is_what_the_rows_make() -> None:
    assert DOCUMENT.read_text() == document(), "run: python tests/contract/rows.py"
