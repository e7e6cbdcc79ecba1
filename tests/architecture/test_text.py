"""Rules for the text of every file: nothing of one machine, no open end without a condition, licence and lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_FOLDERS = {".git", "build", "dist", "corpus", "results", "__pycache__", "node_modules"}
OURS = {".ci", ".devcontainer", ".github"}
SUFFIXES = {".py", ".pyi", ".h", ".cpp", ".cu", ".md", ".toml", ".txt", ".in", ".map", ".yml", ".json", ""}

MACHINE_PATH = re.compile(r"(?<![\w.<>-])/(?:home|root|Users|work|tmp/dev)/\w")
OPEN_END = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b(?!\((?:when|until) )")


def text_files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        made = {name for name in folders if name.startswith(".") or name.endswith(".egg-info")} - OURS
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS | made]
        yield from (Path(folder, name) for name in names if Path(name).suffix in SUFFIXES and name != ".git")


def findings(pattern: re.Pattern[str], root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in sorted(text_files(root))
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_path_of_one_machine() -> None:
    assert findings(MACHINE_PATH, ROOT) == []


def test_every_open_end_names_its_condition() -> None:
    assert findings(OPEN_END, ROOT) == []


@pytest.mark.parametrize(
    ("pattern", "line", "is_found"),
    [
        (MACHINE_PATH, "see /ho" + "me/someone/data", True),
        (MACHINE_PATH, 'Path("/wo' + 'rk/shared")', True),
        (MACHINE_PATH, "frame/wo" + "rk/x, <root>/roo" + "t/x", False),
        (OPEN_END, "// TO" + "DO: faster", True),
        (OPEN_END, "// TO" + "DO(when torch 2.4 is dropped): use the new name", False),
    ],
)
def test_the_patterns_see_what_they_should(pattern: re.Pattern[str], line: str, is_found: bool, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(line)
    assert bool(findings(pattern, tmp_path)) == is_found


def test_files_end_with_one_newline_and_have_no_trailing_blanks() -> None:
    bad = [
        str(path.relative_to(ROOT))
        for path in text_files(ROOT)
        if (text := path.read_text(errors="replace"))
        and (not text.endswith("\n") or text.endswith("\n\n") or re.search(r"[ \t]$", text, re.MULTILINE))
    ]
    assert bad == []
