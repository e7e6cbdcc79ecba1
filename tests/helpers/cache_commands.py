"""Helpers of the tests of ``fastload cache``: kinds of records, a loader on a store, its files and its tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import recipes
from torchvision.datasets import ImageFolder

import fastload

NUM_FILES = 12
HOUR_NS = 3600 * 10**9
# Kind of records -> what a build of them is told.
OPTIONS = {"index": [], "coefficients": ["--what", "coefficients", "--max-bytes", "4294967296"]}
each_kind = pytest.mark.parametrize("what", OPTIONS)


def grouped(text: str) -> dict[tuple[str, str], str]:
    """Returns the rows of a table of groups, by the names of group and row."""
    rows, group = {}, ""
    for line in text.splitlines():
        if line.startswith("  "):
            cells = re.split(r"  +", line.strip())
            if line[2] != " ":
                group = cells.pop(0)
            if cells:  # or else it is a sentence
                rows[group, cells[0]] = "  ".join(cells[1:])
    return rows


def loader(store: Path, what: Any = "index", size: int = 48) -> fastload.DataLoader[Any]:
    images = ImageFolder("images", recipes.evaluation(size + 8, size))
    cache = fastload.Cache(store, 4 << 30, what=what)
    return fastload.DataLoader(images, batch_size=4, num_workers=1, cache=cache)


def files_of(store: Path, ending: str = ".dat", what: str = "index") -> list[Path]:
    return sorted((store / "v1").glob(f"{what}-*{ending}"))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
