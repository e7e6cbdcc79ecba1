"""The test images made by others, where they are: real, odd and hostile ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


def corpora_root() -> Path | None:
    given = os.environ.get("FASTLOAD_CORPORA")
    root = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "corpora"
    return root if root.is_dir() else None


class ManifestRow(NamedTuple):
    path: Path
    kind: str
    tags: str
    pillow_format: str
    rgb_md5: str
    pillow_error: str


def manifest_rows() -> list[ManifestRow]:
    root = corpora_root()
    if root is None:
        return []
    lines = (root / "MANIFEST.tsv").read_text().splitlines()
    columns = {name: number for number, name in enumerate(lines[0].split("\t"))}
    rows = []
    for line in lines[1:]:
        fields = line.split("\t")
        name = fields[columns["file"]]
        facts = [fields[columns[c]] for c in ("class", "tags", "pillow_format", "rgb_md5", "pillow_error")]
        rows.append(ManifestRow(root / name, *facts))
    return rows
