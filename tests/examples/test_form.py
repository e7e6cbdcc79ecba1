"""Every example is short, says what it shows and how it is run, and has its row and its test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from example_runner import EXAMPLES

SCRIPTS = sorted(EXAMPLES.glob("*.py"))
FILES = sorted(path for path in EXAMPLES.iterdir() if path.is_file() and path.name != "README.md")


@pytest.mark.smoke
@pytest.mark.parametrize("script", [pytest.param(path, id=path.stem) for path in SCRIPTS])
def test_a_script_is_short_and_says_how_it_is_run(script: Path) -> None:
    text = script.read_text()
    assert len(text.splitlines()) < 125
    module = ast.parse(text)
    assert f"python examples/{script.name}" in (ast.get_docstring(module) or "")
    assert any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in module.body)
    assert text.endswith('\n\nif __name__ == "__main__":\n    main()\n')
    assert "argparse.ArgumentParser(" in text
    assert "shim" not in text


@pytest.mark.smoke
def test_every_file_has_its_row_and_its_test() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__))
    assert len(FILES) >= 8
    assert [path.name for path in FILES if f"]({path.name})" not in readme] == []
    assert [path.name for path in FILES if path.name not in tests] == []
