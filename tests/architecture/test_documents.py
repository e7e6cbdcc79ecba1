"""The documents are true: links lead somewhere, commands exist, the READMEs agree, every public name is there."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from architecture.documents import (
    BOOK,
    PAGES,
    READMES,
    ROOT,
    anchors,
    blocks,
    commands,
    headings,
    links,
    make_targets,
    prose,
    text_of,
)

import fastload
from fastload.cli import main

RECORD = "benchmarks/results/amd-epyc.json"
# Packages of the systems in the documents; this machine may be another one.
OF_THE_SYSTEM = {"apt", "conda", "docker", "."}
OF_THE_READER = {"train.py"}
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    broken = []
    for link in links(page):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = Path(os.path.normpath((ROOT / page).parent / name)) if name else ROOT / page
        is_there = target.is_relative_to(ROOT) and target.exists()
        if not is_there or (anchor and anchor not in anchors(target.relative_to(ROOT).as_posix())):
            broken.append(link)
    assert broken == []


def test_every_page_of_docs_can_be_reached_from_the_index() -> None:
    assert set(links("docs/index.md")) >= {Path(page).name for page in BOOK if page.startswith("docs/")} - {"index.md"}


def test_the_readme_is_read_in_two_minutes() -> None:
    assert 450 <= len(text_of("README.md").split()) <= 600


def test_the_two_readmes_have_the_same_parts_code_and_figures() -> None:
    english, chinese = READMES
    levels = [[heading.split()[0] for heading in headings(page)] for page in READMES]
    assert levels[0] == levels[1]
    assert [(block.language, block.code) for block in blocks(english)] == [
        (block.language, block.code) for block in blocks(chinese)
    ]
    assert [set(links(page)) - set(READMES) for page in READMES] == [set(links(english)) - set(READMES)] * 2
    assert [page in links(other) for page, other in zip(READMES, reversed(READMES), strict=True)] == [True, True]
    for one, other in zip(sections(english), sections(chinese), strict=True):
        assert figures(one) == figures(other)


def sections(page: str) -> list[str]:
    return re.split(r"^## ", prose(page), flags=re.MULTILINE)


def figures(text: str) -> list[str]:
    """Returns the numbers of a text, including numbers in names."""
    return sorted(re.findall(r"\d+(?:\.\d+)?", text))


def test_the_figures_of_the_readmes_are_those_of_the_record() -> None:
    summaries = {
        (timing["contender"], timing["row"]): timing["summary"]
        for timing in json.loads((ROOT / RECORD).read_text())["timings"]
        if timing["workers"] == 1
    }
    expected = [
        [
            cell
            for summary in (summaries[contender, "train"], summaries[contender, "eval"])
            for cell in (f"{summary['images_per_second']['median']:.0f}", f"{summary['ratio_to_reference']:.2f}x")
        ]
        for contender in ("torch_pil", "torch_pillow_simd", "dali", "ffcv", "fastload_first_epoch", "fastload_loader")
    ]
    for page in READMES:
        table = re.findall(r"^\|[^|]*\|(.*\dx.*)\|[^|]*\|$", text_of(page), re.MULTILINE)
        assert [re.findall(r"[\d.]+x?", row) for row in table] == expected


@pytest.mark.parametrize("page", PAGES)
def test_blocks_say_what_they_are(page: str) -> None:
    """So that Python is run, and commands are looked at."""
    assert [f"{page}:{block.line}" for block in blocks(page) if not block.language] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist_with_their_options(page: str) -> None:
    assert [command for command in commands(page) if not exists(shlex.split(command))] == []


def exists(words: list[str]) -> bool:
    while "=" in words[0]:  # variables of the command
        words = words[1:]
    program, arguments = Path(words[0]).name or words[0], words[1:]
    if program == "make":
        return {word for word in arguments if "=" not in word} <= make_targets()
    if program not in ("python", "python3"):
        return program in OF_THE_SYSTEM or shutil.which(program, path=PATH) is not None
    if arguments[0] == "-m":
        return is_module(arguments[1:])
    return arguments[0] == "-c" or arguments[0] in OF_THE_READER or (ROOT / arguments[0]).is_file()


def is_module(words: list[str]) -> bool:
    name, *arguments = words
    if name == "fastload":
        return is_fastload_command(arguments)
    specification = importlib.util.find_spec(name)
    return specification is not None and (not name.startswith("benchmarks") or knows_options(arguments))


def is_fastload_command(arguments: list[str]) -> bool:
    """Returns whether there is such a command with such options, without running it."""
    with contextlib.redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit) as end:
        main([arguments[0], "--help"])
    return end.value.code == 0 and all(word in shown.getvalue() for word in arguments if word.startswith("--"))


def knows_options(arguments: list[str]) -> bool:
    source = "".join(path.read_text() for path in (ROOT / "benchmarks").rglob("*.py"))
    return all(f'"{word}"' in source for word in arguments if word.startswith("--"))


def test_the_reference_has_every_public_name() -> None:
    text = text_of("docs/reference.md")
    names = re.findall(r"^::: fastload\.(\w+)$", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert {*names, "__version__"} == set(fastload.__all__)
    assert "`fastload.__version__`" in text
