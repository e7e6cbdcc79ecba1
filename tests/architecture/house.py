"""The size of the house in figures, for before and after a change: `python tests/architecture/house.py [root]`.

Rooms are the modules and packages at the top of fastload/, arrows the imports between them, floors the longest chain of
imports. Everything is read from the text of the sources; nothing is imported.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from layers import COMMENT_OR_STRING, ROOT, imported_modules

CPP_SUFFIXES = {".h", ".cpp", ".cu"}


def rooms(root: Path) -> set[str]:
    entries = list((root / "fastload").iterdir())
    return {path.stem for path in entries if path.suffix == ".py" or (path / "__init__.py").exists()}


def arrows(root: Path) -> set[tuple[str, str]]:
    """Returns pairs of a room and a room whose code it imports."""
    names = rooms(root)
    found = set()
    for path in (root / "fastload").rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        for module in imported_modules(ast.parse(path.read_text()), list(parts[:-1])):
            used = module.split(".")
            if used[0] == "fastload" and len(used) > 1 and used[1] in names and used[1] != parts[1]:
                found.add((parts[1], used[1]))
    return found


def num_floors(edges: set[tuple[str, str]]) -> int:
    @functools.cache
    def height(room: str) -> int:
        return 1 + max((height(used) for user, used in edges if user == room), default=0)

    return max(height(user) for user, _ in edges)


def lines_below(folders: list[Path], suffixes: set[str]) -> int:
    files = {path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*"))}
    return sum(len(path.read_text().splitlines()) for path in files if path.suffix in suffixes)


def num_case_labels(root: Path) -> int:
    texts = [path.read_text() for path in (root / "csrc").rglob("*") if path.suffix in CPP_SUFFIXES]
    return sum(len(re.findall(r"\bcase\b[^;]*?:", COMMENT_OR_STRING.sub("", text))) for text in texts)


def figures(root: Path) -> Iterator[tuple[str, int]]:
    edges = arrows(root)
    code = CPP_SUFFIXES | {".py", ".pyi"}
    yield "rooms of fastload/", len(rooms(root))
    yield "floors of fastload/", num_floors(edges)
    yield "arrows of fastload/", len(edges)
    yield "case labels in csrc/", num_case_labels(root)
    product = [root / name for name in ("fastload", "csrc", "setup.py", "setup_cuda.py")]
    yield "lines of the product", lines_below(product, code)
    tests = [root / name for name in ("tests", "fuzz", "benchmarks/tests")]
    yield "lines of the tests", lines_below(tests, code)
    yield "lines of the benchmarks", lines_below([root / "benchmarks"], code)
    yield "lines of the documents", lines_below([root / "docs", *root.glob("*.md")], {".md"})
    yield "words of docs/design.md", len((root / "docs" / "design.md").read_text().split())
    yield "words of README.md", len((root / "README.md").read_text().split())


if __name__ == "__main__":
    for name, value in figures(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT):
        print(f"{name:<26} {value:>6}")
