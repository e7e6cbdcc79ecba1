"""Every block of Python in README and docs runs against a small folder, or is marked as a fragment."""

from __future__ import annotations

from pathlib import Path

import pytest
from architecture.document_code import is_run
from architecture.documents import BOOK, FRAGMENT, blocks, prose
from children import RunChild
from framework_recipes import recipe

BY_FRAMEWORKS = "docs/frameworks.md"  # its recipes need what tests/frameworks has for them
SAME_CODE = "README.zh.md"  # as README.md: test_documents.py compares the two
PAGES = [page for page in BOOK if page not in (BY_FRAMEWORKS, SAME_CODE) and any(map(is_run, blocks(page)))]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page == "docs/guide.md")) for page in PAGES]
)
def test_the_code_of_a_page_runs(page: str, run_child: RunChild) -> None:
    result = run_child(
        f"from architecture.document_code import run_page; print(run_page({page!r}), 'blocks')", timeout=600, warm=True
    )
    assert result.stdout.splitlines()[-1] == f"{sum(map(is_run, blocks(page)))} blocks"


def test_the_recipes_for_frameworks_are_those_that_are_run() -> None:
    folder = Path(__file__).resolve().parents[1]
    programs = [folder / "helpers" / f"{name}.py" for name in ("distributed_job", "ray_training", "resumed_training")]
    tests = "".join(path.read_text() for path in [*folder.glob("frameworks/*.py"), *programs])
    titles = [line.lstrip("#").strip() for line in prose(BY_FRAMEWORKS).splitlines() if line.startswith("##")]
    run = [title for title in titles if f'"{title}"' in tests]
    assert [recipe(title) for title in run] == [block.code for block in blocks(BY_FRAMEWORKS)]


@pytest.mark.parametrize("page", BOOK)
def test_marks_of_fragments_stand_before_blocks_of_python(page: str) -> None:
    marked = [block for block in blocks(page) if block.is_fragment]
    assert {block.language for block in marked} <= {"python"}
    assert len(marked) == prose(page).count(FRAGMENT)
