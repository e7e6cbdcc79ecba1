"""The benchmark of many workers: batches are compared, simulated figures follow the costs, and goals are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from image_folders import make_clean_folder
from test_gpu_benchmark import HostMachine

from benchmarks import _many_cores, many_cores
from benchmarks._turns import ALL_LOADERS, LOADERS
from benchmarks._user_datasets import PATTERNS, Files


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_clean_folder(tmp_path / "data", 4)


def cost(total: float, own: float) -> dict[str, float]:
    return {"cpu_ms_per_sample": total, "own_ms_per_sample": own}


def speed(per_second: float, **more: Any) -> dict[str, Any]:
    return {"samples_per_second": per_second, "processes": 2, "sha256": "a", **more}


def test_a_pattern_is_compared_simulated_and_recorded(data: Path, tmp_path: Path) -> None:
    arguments = ["--patterns", "list-train", "--samples", "8", "--rounds", "1", "--workers", "1", "2"]
    assert many_cores.main([*arguments, "--data", str(data), "--json", str(tmp_path / "mine.json")]) == 0
    rounds = json.loads((tmp_path / "mine.json").read_text())["rounds"]["list-train"]
    assert list(rounds) == ["torch", "fastload", "threads", "small", "threads, 1", "threads, 2"]
    assert {len(figures) for figures in rounds.values()} == {1}
    assert rounds["torch"][0]["cpu_ms_per_sample"] > rounds["torch"][0]["own_ms_per_sample"] > 0
    assert rounds["threads"][0]["cpu_ms_per_sample"] > rounds["small"][0]["cpu_ms_per_sample"]


def test_loaders_take_turns_after_they_are_compared(data: Path, tmp_path: Path) -> None:
    files = Files(data, tmp_path, 8)
    rounds = _many_cores.measure_turns(lambda: PATTERNS["preset-train"].make(files), ALL_LOADERS, 2, 3, 1e9)
    assert {name: len(figures) for name, figures in rounds.items()} == dict.fromkeys(ALL_LOADERS, 3)
    forms = {name: figures[0]["processes"] for name, figures in rounds.items()}
    assert forms == {"torch": 3, "fastload": 1, "threads": 1, "processes": 1}  # native threads take no process


def test_no_round_begins_when_the_time_is_up(data: Path, tmp_path: Path) -> None:
    files = Files(data, tmp_path, 8)
    rounds = _many_cores.measure_turns(lambda: PATTERNS["list-train"].make(files), LOADERS, 1, 3, 0.0)
    assert {name: len(figures) for name, figures in rounds.items()} == {"torch": 1, "fastload": 1}
    assert [figures["processes"] for (figures,) in rounds.values()] == [2, 2]


def test_loaders_take_turns_beside_a_training(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_many_cores, "_BATCH_SIZE_OF_TRAINING", 2)
    monkeypatch.setattr(_many_cores, "_PROBE_STEPS", 1)

    def make(count: int) -> Any:
        return PATTERNS["list-train"].make(Files(data, tmp_path, count))

    rounds = _many_cores.measure_training(make, HostMachine(), "squeezenet1_1", LOADERS, 1, 1, 0.0)
    assert {name: len(figures) for name, figures in rounds.items()} == {"torch": 1, "fastload": 1}
    table = many_cores.format_tables({"list-train, 1": {name: [speed(1)] for name in LOADERS}, "x, resnet50": rounds})
    assert "beside a model" in table


def test_a_measurement_that_differs_ends_with_status_2(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = {"torch": [{"sha256": "a"}], "fastload": [{"sha256": "b"}]}
    monkeypatch.setattr(many_cores, "run_child", lambda command: digests)
    assert many_cores.main(["--measure", "--data", str(data), "--patterns", "list-train", "--workers", "1"]) == 2
    printed = capsys.readouterr()
    assert "list-train: the batches differ" in printed.err
    assert printed.out == ""


def test_runs_for_which_there_is_no_time_are_named(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--measure", "--data", str(data), "--patterns", "list-train", "--workers", "1", "--minutes", "0"]
    assert many_cores.main(arguments) == 0
    assert "list-train, 1 workers: left out, there is no time" in capsys.readouterr().out


def test_processes_load_what_workers_parent_and_cores_allow() -> None:
    def of(total: float, own: float, workers: int) -> float:
        return many_cores.images_per_second({"fastload": [cost(total, own)]}, "fastload", workers)

    assert of(1.25, 0.25, 4) == pytest.approx(4000)  # a millisecond in the worker
    assert of(1.5, 0.5, 16) == pytest.approx(2000)  # half a millisecond in the parent
    assert of(1.02, 0.02, 32) == pytest.approx(16 / 0.00102)  # 16 cores


def test_tables_name_what_misses_the_goals() -> None:
    simulated = {
        "torch": [cost(5.0, 0.5)],
        "fastload": [cost(1.1, 0.1)],
        "threads": [cost(1.0, 1.0)],
        "small": [cost(0.2, 0.2)],
        "threads, 4": [{"samples_per_second": 1600.0}],
    }
    *_, line, _, goal = many_cores.format_tables({"list-train": simulated}).splitlines()
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells == ["list-train", "4", "889", "1600 (1.80x)", "4000 (4.50x)"]
    assert goal.endswith("met by all")
    measured = {"torch": [speed(100)] * 2, "threads": [speed(150)] * 2, "fastload": [speed(390), speed(380)]}
    text = many_cores.format_tables({"list-train, 16": measured, "mask, 4": measured})
    assert "3.85x" in text
    assert text.splitlines()[-1].endswith("list-train, 16 3.85")
