"""The benchmark of late storage: the delay is felt, and runs that loaded other batches show no figure."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pytest
from image_folders import make_clean_folder

from benchmarks import storage_latency


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler named cc")
def test_a_delay_is_felt_and_changes_no_batch(tmp_path: Path) -> None:
    library = storage_latency._build_library(tmp_path)
    options = argparse.Namespace(data=make_clean_folder(tmp_path / "data", 4), workers=1, images=20)
    warm, late = (storage_latency._run_child(library, delay_us, options) for delay_us in (0, 50_000))
    assert late["sha256"] == warm["sha256"]
    assert late["images_per_second"] < 5 / 0.05  # one thread and its readers have at most 5 files in hand


def test_runs_of_different_batches_show_no_figure() -> None:
    one = {"images_per_second": 100.0, "sha256": "a"}
    other = {"images_per_second": 90.0, "sha256": "a"}
    shown = storage_latency.format_rounds({"warm": [one], "late": [other]}, 2.0, 8)
    assert shown == "8 workers, images/s: 100 from the page cache, 90 with 2 ms for each file: 90.0%"
    with pytest.raises(SystemExit, match="the batches differ"):
        storage_latency.format_rounds({"warm": [one], "late": [{**other, "sha256": "b"}]}, 2.0, 8)
