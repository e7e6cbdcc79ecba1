"""Ranks that share a store: after one has seen an image, all know it in the next epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_folders import save_jpeg

from benchmarks import rank_hits


def test_ranks_know_what_others_have_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        save_jpeg(tmp_path / "data" / f"class{number % 2}" / f"{number}.jpg", number, 400, 300)
    arguments = ["--data", str(tmp_path / "data"), "--ranks", "2", "--samples", "8", "--seconds", "0.5"]
    assert rank_hits.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [cell[0] for cell in cells] == ["1", "2"]
    assert all(cell[1] == "0.0%" and cell[3] == "100.0%" for cell in cells)


def test_batches_that_differ_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_hits, "known_shares", lambda *arguments: None)
    assert rank_hits.main(["--data", str(tmp_path)]) == 2
