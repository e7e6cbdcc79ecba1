"""The map is true: docs/design.md has a row for every folder of the core and every status code."""

from __future__ import annotations

import re
from pathlib import Path

from architecture.layers import CPP_LEVELS, package_table

ROOT = Path(__file__).resolve().parents[2]
DESIGN = (ROOT / "docs" / "design.md").read_text()


def levels_in(section: str) -> dict[str, int]:
    """Returns the rows of a section's table whose second column is a level; a row may name several folders."""
    text = DESIGN.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \| (\d) \|", text, re.MULTILINE)
    return {name: int(level) for names, level in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_folder_of_the_core_has_its_row_and_level() -> None:
    folders = {path.name for path in (ROOT / "csrc").iterdir() if path.is_dir()}
    assert levels_in("Folders of the core") == {name: CPP_LEVELS[name] for name in folders}


def test_the_table_of_python_packages_is_that_of_the_layers() -> None:
    assert package_table(ROOT) in DESIGN, "print it with python tests/architecture/layers.py --table"


def test_every_status_code_has_its_row_in_order() -> None:
    enum = re.search(r"enum class StatusCode[^{]*\{(.*?)\};", (ROOT / "csrc/base/status.h").read_text(), re.DOTALL)
    assert enum is not None
    codes = re.findall(r"\bk[A-Z]\w+", re.sub(r"//.*", "", enum.group(1)))
    assert re.findall(r"^\| `(k[A-Z]\w+)` \|", DESIGN, re.MULTILINE) == codes


def test_every_test_folder_is_in_the_contributors_map() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = [path for pattern in ("tests/*/*.*", "benchmarks/tests/*.*") for path in ROOT.glob(pattern)]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in files if path.suffix in {".py", ".cpp"}}
    assert "benchmarks/tests" in folders
    assert [name for name in sorted(folders) if f"`{name}`" not in text] == []
