"""The benchmark of folder starts: every way to start sees the same samples, and differing ones show no figure."""

from __future__ import annotations

from pathlib import Path

import pytest
import torchvision_shim  # noqa: F401

from benchmarks import folder_index


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
