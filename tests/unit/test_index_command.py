"""``fastload index``: its report on a folder, and its exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from folder_trees import make_tree

import fastload
from fastload.cli import main
from fastload.sources import _folder_scan


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_folder_scan, "SETTLED_AFTER_NS", 0)
    return make_tree(tmp_path / "data", ["a/1.jpg", "a/sub/2.jpg", "b/3.jpg"])


def test_it_makes_the_index_that_the_data_set_uses(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", str(root)]) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[0] == f"{root}: 3 samples, 2 classes, 4 directories"
    assert re.fullmatch(r"listed 4 of them in \d+\.\d\d s", first[1])
    (file,) = root.with_name("cache").iterdir()
    assert first[2] == f"index: {file}, {file.stat().st_size} bytes, {file.stat().st_size / 3:.1f} per sample"
    before = file.stat().st_mtime_ns
    assert len(fastload.ImageFolder(root)) == 3
    assert main(["index", str(root)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("listed 0 of them")
    assert file.stat().st_mtime_ns == before


def test_it_removes_the_index(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["index", str(root)])
    assert main(["index", str(root), "--remove"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("removed ")
    assert list(root.with_name("cache").iterdir()) == []
    assert main(["index", str(root), "--remove"]) == 2
    assert capsys.readouterr().err == f"fastload index: error: {root} has no index file\n"


def test_an_index_that_cannot_be_kept_is_not_claimed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root.with_name("cache").write_bytes(b"a file")
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert main(["index", str(root)]) == 0
    assert "index: not kept, " in capsys.readouterr().out
