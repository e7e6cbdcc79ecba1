"""The row of later epochs: with an index and without one the batches are the same, or there is no figure."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from image_folders import save_jpeg

from benchmarks import __main__ as command
from benchmarks import _turns, second_epoch
from benchmarks.second_epoch import CASES
from fastload import _native
from fastload._decode_cache import _build

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number in range(8):
        save_jpeg(tmp_path / "data" / f"class{number % 2}" / f"{number}.jpg", number, 400, 300)
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def files_are_old_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", 3600 * 10**9)
    monkeypatch.setattr(second_epoch, "_SETTLING_SECONDS", 0)


@pytest.fixture(autouse=True)
def no_index() -> Iterator[None]:
    _native.clear_index_memory()
    yield
    _native.clear_index_memory()


def options_for(data: Path) -> argparse.Namespace:
    return argparse.Namespace(data=data, samples=8, batch_size=4, rounds=1)


@pytest.mark.parametrize("name", list(CASES))
def test_every_case_is_compared_and_timed_with_an_index(data: Path, name: str) -> None:
    report = second_epoch.measure(CASES[name], options_for(data))
    (figures,) = report["rounds"]
    assert len(figures["plain"]) == len(figures["indexed"]) == second_epoch._EPOCHS
    assert all(one["cpu_ms"] > 0 for one in (*figures["plain"], *figures["indexed"], figures["torch"]))
    # Built records are there from the first of the compared epochs, and of the timed ones, on; indexes from the second.
    num_without = 0 if CASES[name].kept != "index" else 1
    most = 8 * (second_epoch._NUM_COMPARED + second_epoch._EPOCHS - 2 * num_without)
    assert most - 8 * 2 <= report["cache_hits"] <= most if CASES[name].room else report["cache_hits"] == most
    assert report["cache_mismatches"] == 0
    assert report["index"]["records"] == report["files"] == 8


def test_an_index_is_shorter_where_the_data_set_lists_as_many_files_as_imagenet(data: Path) -> None:
    dense, rows = (
        second_epoch.measure(CASES[name], options_for(data))["index"]["record_bytes"] for name in ("eval", "eval-many")
    )
    assert rows < dense / 2


def test_the_row_is_compared_and_recorded(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = second_epoch.parse_arguments
    monkeypatch.setattr(
        second_epoch,
        "parse_arguments",
        lambda given: parse([*given, "--cases", "eval", "--kernels", "scalar"]),
    )
    arguments = ["--rows", "second_epoch", "--data", str(data), "--out", str(tmp_path), "--name", "mine", "--quick"]
    assert command.main([*arguments, "--images", "8", "--batch-size", "4"]) == 0
    record = json.loads((tmp_path / "mine-second_epoch.json").read_text())
    (report,) = record["rounds"]["eval"]["scalar"]
    assert report["kernels"] == "scalar"
    assert len(report["rounds"]) == 1
    assert {"torch", "torchvision", "PIL", "numpy"} <= set(record["versions"])


def test_an_index_that_changes_a_batch_ends_the_run_without_a_figure(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    differs = iter(["same", "same", "same", "same", "other"])
    monkeypatch.setattr(second_epoch, "_digest", lambda loader, epoch: next(differs))
    arguments = ["--data", str(data), "--samples", "8", "--cases", "eval", "--child", "scalar"]
    monkeypatch.setenv("FASTLOAD_SIMD", "")
    assert second_epoch.main(arguments) == 2
    printed = capsys.readouterr()
    assert "eval, scalar: the batches of epoch 1 differ" in printed.err
    assert printed.out == ""


def test_batches_other_than_torchs_end_the_run_without_a_figure(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    differs = iter(["torch", "ours", "ours"])
    monkeypatch.setattr(second_epoch, "_digest", lambda loader, epoch: next(differs))
    with pytest.raises(_turns.BatchesDiffer, match="epoch 0"):
        second_epoch.measure(CASES["eval"], options_for(data))


def test_a_child_that_fails_or_differs_from_another_kernel_table_ends_the_run(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(data), "--cases", "eval", "--kernels", "avx2", "scalar"]
    monkeypatch.setattr(_turns, "run_child", lambda command: {"sha256": command[-1]})
    assert second_epoch.main(arguments) == 2
    assert "eval: the batches differ" in capsys.readouterr().err

    def fail(command: Any) -> Any:
        raise subprocess.CalledProcessError(2, command)

    monkeypatch.setattr(_turns, "run_child", fail)
    assert second_epoch.main(arguments) == 2
    assert capsys.readouterr().out == ""


def test_ratios_are_of_the_same_epochs_and_medians_of_the_rounds() -> None:
    def one(scale: float) -> dict[str, float]:
        return {"ms": 2 * scale, "cpu_ms": scale}

    def figures(gain: float) -> dict[str, Any]:
        return {"plain": [one(6)] * 5, "indexed": [one(8), one(6), *[one(6 / gain)] * 3], "torch": one(36)}

    rounds = [figures(gain) for gain in (1, 2, 3)]
    report = {
        "rounds": rounds,
        "index": {"records": 2, "record_bytes": 200, "memory_bytes": 1000},
        "files": 2,
        "file_bytes": 20_000,
    }
    (line,) = second_epoch.format_page({"eval": {"avx2": [report]}}).splitlines()[2:]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == [
        *("evaluation", "avx2", "6.000", "0.75x / 0.75x", "1.00x / 1.00x", "2.00x / 2.00x", "12.0x / 12.0x"),
        "100 B, 1.00%",
    ]
    assert second_epoch.speed_up(rounds, (2, 3), "cpu_ms") == 2
    without = {**report, "index": {"records": 0, "record_bytes": 0, "memory_bytes": 0}}
    assert second_epoch._index_size(without) == "none"


def test_the_tables_of_the_page_are_those_of_the_records() -> None:
    page = (ROOT / "docs" / "second-epoch.md").read_text()
    for name in ("second-epoch", "second-epoch-coefficients", "second-epoch-pixels"):
        path = ROOT / "benchmarks" / "results" / f"{name}.json"
        assert second_epoch.format_page(json.loads(path.read_text())["rounds"]) in page, path.name
