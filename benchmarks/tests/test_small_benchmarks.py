"""The benchmarks of folder starts, of ranks that share a store and of saved states: no figure where results differ."""

from __future__ import annotations

from pathlib import Path

import pytest
import torchvision_shim  # noqa: F401
from image_folders import make_clean_folder, save_jpeg

from benchmarks import folder_index, rank_hits, saved_states


def test_every_start_sees_the_same_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path / "cache"))
    root = folder_index._make_files(tmp_path, 24, 4)
    figures = {start: [folder_index._measure(start, str(root), 1)] for start in folder_index._STARTS}
    assert sorted(path.name for path in root.iterdir()) == [f"n{label:08}" for label in range(4)]
    assert len({rounds[0]["samples_sha256"] for rounds in figures.values()}) == 1
    assert figures["fastload, no index"][0]["index_file_bytes_per_sample"] == 0
    assert figures["fastload, second start"][0]["index_file_bytes_per_sample"] > 0


def test_differing_samples_show_no_figure() -> None:
    one, other = ({"samples_sha256": digest} for digest in "ab")
    with pytest.raises(SystemExit, match="the data sets differ"):
        folder_index._show({"torchvision": [one], "fastload, no index": [other]})


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


@pytest.mark.smoke
def test_figures_are_shown_of_equal_batches_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--rounds", "1", "--samples", "640", "--data", str(make_clean_folder(tmp_path, 8))]
    assert saved_states.main(arguments) == 0
    shown = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in shown.splitlines() if line.startswith("| ")] == [
        "8 workers",
        "native, random transforms",
        "native, no draws",
        "native, no draws, own sampler that draws",
        "made by Python",
    ]
    assert "First batch of a new epoch of 640 samples" in shown
    monkeypatch.setattr(saved_states, "add_batch", lambda digest, batch: digest.update(str(id(batch)).encode()))
    assert saved_states.main(arguments) == 2
    assert "differ: no figure is worth showing" in capsys.readouterr().err
