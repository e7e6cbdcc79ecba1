"""``fastload check`` and ``fastload index``: their reports on a folder, and their exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bad_folders import make_bad_folder
from folder_trees import make_tree

import fastload
from fastload.cli import main
from fastload.sources import _folder_scan

BAD = [(1, "HTML"), (2, "truncated"), (5, "empty")]


def test_check_names_every_file_that_cannot_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_bad_folder(tmp_path / "images", 8, BAD)
    assert main(["check", str(tmp_path / "images")]) == 1
    *files, verdict = capsys.readouterr().out.splitlines()
    assert verdict == "fastload check: 3 of 8 files cannot be loaded (header 2, decode 1)"
    assert len(files) == 3
    for line, (index, _) in zip(files, BAD, strict=True):
        assert line.startswith(f"sample {index} ({folder.samples[index][0]!r}): ")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_check_with_a_ledger_writes_what_a_loader_writes(
    workers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_bad_folder(tmp_path / "images", 40, [(index, "empty") for index in range(33)])  # a whole batch
    ledger = tmp_path / "bad.jsonl"
    assert main(["check", str(tmp_path / "images"), "--ledger", str(ledger), "--workers", workers]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"fastload check: 33 of 40 files cannot be loaded (header 33): {ledger}"
    ]
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [entry["path"] for entry in entries] == [folder.samples[index][0] for index in range(33)]
    assert main(["check", str(tmp_path / "images"), "--ledger", str(ledger)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_sound_folder_is_reported_as_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_bad_folder(tmp_path / "images", 3, [])
    assert main(["check", str(tmp_path / "images")]) == 0
    assert capsys.readouterr().out == "fastload check: 0 of 3 files cannot be loaded\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_folder_scan, "SETTLED_AFTER_NS", 0)
    return make_tree(tmp_path / "data", ["a/1.jpg", "a/sub/2.jpg", "b/3.jpg"])


def test_index_makes_the_file_that_the_data_set_uses(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_index_removes_the_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
