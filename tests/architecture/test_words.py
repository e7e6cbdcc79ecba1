"""Sentences are plain: words.py has the rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from architecture.words import ROOT, files, findings


def test_sentences_are_plain() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}: {problem}" for path in files(ROOT) for line, problem in findings(path)]
    assert found == []


@pytest.mark.parametrize(
    ("suffix", "text", "problem"),
    [
        (".py", '"""Of each file its size."""', "docstring begins with 'Of'"),
        (".py", 'def f():\n    """The size."""', "a verb in the third person, not 'The'"),
        (".py", '@property\ndef f():\n    """Says the size."""', "a noun and its article, not 'Says'"),
        (".py", "# It comes\n# behind the header.", "'behind'"),
        (".py", "x = 1  # the worker, who waits", "'who'"),
        (".h", "// In the place of\n// a lock.", "'In the place of'"),
        (".h", "int x;  // its size and that of y", "'that of'"),
        (".cpp", "/* Read it. What is left is zero. */", "'What'"),
        (".md", "# Where\n\nThe facts of a file.", "'facts'"),
    ],
)
def test_each_rule_finds_its_sentence(tmp_path: Path, suffix: str, text: str, problem: str) -> None:
    path = tmp_path / f"sentence{suffix}"
    path.write_text(text + "\n")
    assert any(problem in found for _, found in findings(path)), findings(path)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".py", 'def f():\n    """Returns the size after `behind`."""\n    return "Of all"'),
        (".md", "Users who read `That of` are fine.\n\n```text\nWhat is in a block\n```"),
        (".h", 'const char* text = "Of // what";\n'),
    ],
)
def test_code_and_quotes_are_left_alone(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"sentence{suffix}"
    path.write_text(text + "\n")
    assert findings(path) == []
