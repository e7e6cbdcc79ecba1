"""The Markdown files of the repository, in parts: headings, links, code blocks.

A Python block of README or docs is run by test_code_blocks.py, unless the line before it is FRAGMENT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRAGMENT = "<!-- fragment -->"

READMES = ("README.md", "README.zh.md")
BOOK = [*READMES, *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))]
PAGES = [*BOOK, "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "benchmarks/photos/LICENSES.md"]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        line: The line of its first line of code, from 1.
        language: The word after the fence; empty if there is none.
    """

    page: str
    line: int
    language: str
    code: str
    is_fragment: bool


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def blocks(page: str) -> list[Block]:
    """Returns the fenced blocks of a page, in order."""
    text = text_of(page)
    return [
        Block(
            page,
            text.count("\n", 0, fence.start()) + 2,
            fence[1],
            fence[2],
            text[: fence.start()].rstrip("\n").endswith(FRAGMENT),
        )
        for fence in _FENCE.finditer(text)
    ]


def prose(page: str) -> str:
    """Returns the page without its fenced blocks."""
    return _FENCE.sub("", text_of(page))


def headings(page: str) -> list[str]:
    """Returns the headings with their marks: ``## Install``."""
    return re.findall(r"^#+ .+$", prose(page), re.MULTILINE)


def anchors(page: str) -> set[str]:
    """Returns the names of headings in links, on forges and on the site alike."""
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.lstrip("# ")) for heading in headings(page))
    return {re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in texts}


def links(page: str) -> list[str]:
    """Returns the targets of the links outside of code."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page)))


def commands(page: str) -> Iterator[str]:
    """Yields the commands of a page's blocks of bash, each in one line and without its comment."""
    for block in blocks(page):
        if block.language == "bash":
            yield from commands_of(block)


def commands_of(block: Block) -> Iterator[str]:
    lines = block.code.replace("\\\n", " ").splitlines()
    yield from (command for line in lines if (command := re.sub(r"(^|\s)#.*", "", line).strip()))


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", text_of("Makefile"), re.MULTILINE))
