"""The benchmark of late storage: the delay is felt, and runs with other batches show no figure."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from image_folders import make_clean_folder

from benchmarks import storage_latency

_NEEDS_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler named cc")


@_NEEDS_COMPILER
@pytest.mark.parametrize("is_relative", [True, False])
def test_a_delay_is_felt_and_changes_no_batch(tmp_path: Path, is_relative: bool) -> None:
    library = storage_latency._build_library(tmp_path)
    data = make_clean_folder(tmp_path / "data", 4)
    data = Path(os.path.relpath(data)) if is_relative else data
    options = argparse.Namespace(data=data, workers=1, images=20, cache=None)
    warm, late = (storage_latency._run_child(library, delay_us, options) for delay_us in (0, 50_000))
    assert late["sha256"] == warm["sha256"]
    assert late["images_per_second"] < 9 / 0.05  # one thread and its readers have at most 9 files in hand


@_NEEDS_COMPILER
def test_reads_of_a_store_are_delayed_and_no_others(tmp_path: Path) -> None:
    library = storage_latency._build_library(tmp_path)
    script = """
import ctypes, os, time
buffer = ctypes.create_string_buffer(4)
parts = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 4)
for name in ("records.dat", "others.bin"):
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.write(file, b"1234")
    begin = time.perf_counter()
    for _ in range(5):
        assert ctypes.CDLL(None).preadv(file, parts, 1, ctypes.c_long(0)) == 4
    print(time.perf_counter() - begin)
"""
    environment = {**os.environ, "LD_PRELOAD": str(library), "STORAGE_DELAY_US": "100000"}
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    delayed, other = map(float, run.stdout.split())
    assert delayed >= 0.5 > other


def test_runs_of_different_batches_show_no_figure() -> None:
    one = {"images_per_second": 100.0, "sha256": "a"}
    other = {"images_per_second": 90.0, "sha256": "a"}
    shown = storage_latency.format_rounds({"warm": [one], "late": [other]}, 2.0, 8)
    assert shown == "8 workers, images/s: 100 from the page cache, 90 with 2 ms for each file: 90.0%"
    with pytest.raises(SystemExit, match="the batches differ"):
        storage_latency.format_rounds({"warm": [one], "late": [{**other, "sha256": "b"}]}, 2.0, 8)
