"""The benchmark of saved states: it shows figures of loops with the same batches, and of no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_folders import make_clean_folder

from benchmarks import saved_states


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
