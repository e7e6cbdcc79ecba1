"""The benchmark of data sets written in Python: it runs, and shows no figure if batches differ."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest
from image_folders import make_clean_folder

import fastload
from benchmarks import _turns, python_path
from benchmarks._python_datasets import Spectrograms


def figures(**changed: Any) -> dict[str, Any]:
    one = {
        "workers": 2,
        "samples_per_second": 100.0,
        "cpu_ms_per_sample": 1.5,
        "first_batch_seconds": 0.2,
        "added_mib": 80.0,
        "processes": 3,
        "sha256": "a",
    }
    return {**one, **changed}


@pytest.mark.parametrize("kind", list(python_path.KINDS))
def test_both_loaders_load_the_same_batches_of_every_kind(tmp_path: Path, kind: str) -> None:
    options = argparse.Namespace(
        data=make_clean_folder(tmp_path / "data", 4),
        clips=tmp_path / "clips.npy",
        workers=2,
        samples=16,
        batch_size=4,
        rounds=1,
        old=Path(fastload.__file__).parents[1] if kind == "tokens" else None,
    )
    Spectrograms.make_file(options.clips)
    rounds = python_path.run_rounds(kind, options)
    assert ("old fastload" in rounds) == (kind == "tokens")
    (theirs,), (ours,) = rounds["torch"], rounds["fastload"]
    assert (theirs["processes"], ours["processes"]) == (3, 1)
    assert theirs["samples_per_second"] > 0
    assert ours["samples_per_second"] > 0


def test_a_folder_without_a_fastload_is_not_measured_as_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = python_path.parse_arguments(["--child", "old fastload", "--kinds", "tokens", "--old", str(tmp_path)])
    with pytest.raises(SystemExit, match="fastload was imported from"):
        python_path._measure(options)


def test_the_table_has_ratios_and_says_where_processes_are_faster() -> None:
    ours = figures(samples_per_second=50.0, first_batch_seconds=0.02, added_mib=8.0, processes=1)
    rounds = {"torch": [figures()], "fastload": [ours]}
    table = python_path.format_table({"tokens": rounds, "sleeping": {**rounds, "fastload": [figures()]}})
    _, _, _, tokens, _, sleeping = table.splitlines()
    assert "50 (0.50x)" in tokens
    assert "0.020 (10.0x sooner)" in tokens
    assert "8.0 (10.0x less)" in tokens
    assert "torch's DataLoader is 2.0x as fast" in tokens
    assert "torch's DataLoader" not in sleeping


def test_runs_of_different_batches_show_no_figure() -> None:
    with pytest.raises(_turns.BatchesDiffer, match="tokens: the batches differ"):
        _turns.check_batches({"tokens": {"torch": [figures()], "fastload": [figures(sha256="b")]}})
