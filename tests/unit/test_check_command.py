"""``fastload check``: the files that it names, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bad_folders import make_bad_folder

from fastload.cli import main

BAD = [(1, "HTML"), (2, "truncated"), (5, "empty")]


def test_it_names_every_file_that_cannot_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_bad_folder(tmp_path / "images", 8, BAD)
    assert main(["check", str(tmp_path / "images")]) == 1
    *files, verdict = capsys.readouterr().out.splitlines()
    assert verdict == "fastload check: 3 of 8 files cannot be loaded (header 2, decode 1)"
    assert len(files) == 3
    for line, (index, _) in zip(files, BAD, strict=True):
        assert line.startswith(f"sample {index} ({folder.samples[index][0]!r}): ")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_with_a_ledger_it_writes_what_a_loader_writes(
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
