"""The row of the trainer's delay: three loaders give the same batches of every data set, or there is no figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from image_folders import make_clean_folder

from benchmarks import __main__ as command
from benchmarks import _turns, trainer_delay
from benchmarks._turns import ALL_LOADERS
from benchmarks.trainer_delay import KINDS, measure_steps

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_clean_folder(tmp_path / "data", 4)


@pytest.mark.parametrize("name", list(KINDS))
def test_the_loaders_give_the_same_batches_of_every_data_set(data: Path, tmp_path: Path, name: str) -> None:
    trainer_delay._write_files(KINDS[name], data, tmp_path, 8)
    dataset = trainer_delay.make_dataset(name, data, tmp_path, 8)
    found = [measure_steps(dataset, loader, 4) for loader in ALL_LOADERS]
    assert len({figures["sha256"] for figures in found}) == 1
    for figures in found:
        assert figures["step_ms_p90"] >= figures["step_ms"] > figures["launches_ms"] > 0


def test_the_row_is_compared_and_recorded(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = trainer_delay.parse_arguments
    monkeypatch.setattr(trainer_delay, "parse_arguments", lambda given: parse([*given, "--kinds", "python"]))
    arguments = ["--rows", "trainer_delay", "--data", str(data), "--out", str(tmp_path), "--name", "mine", "--quick"]
    assert command.main(arguments) == 0
    record = json.loads((tmp_path / "mine-trainer_delay.json").read_text())
    assert {loader: len(rounds) for loader, rounds in record["rounds"]["python"].items()} == {
        "torch": 1,
        "fastload": 1,
    }


def test_different_batches_end_the_run_with_the_data_sets_name(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_turns, "run_child", lambda command: {"sha256": command[-1]})
    assert trainer_delay.main(["--data", str(data), "--kinds", "python"]) == 2
    printed = capsys.readouterr()
    assert "python: the batches differ" in printed.err
    assert printed.out == ""


def test_quantiles_are_of_the_steps_and_ratios_of_the_rounds() -> None:
    assert trainer_delay._quantile_ms([0.001 * number for number in range(11, 0, -1)], 0.5) == 6
    assert trainer_delay._quantile_ms([0.001 * number for number in range(11, 0, -1)], 0.9) == 10

    def one(scale: float) -> dict[str, float]:
        return {**{name: scale * (1 + at) for at, name in enumerate(trainer_delay._FIGURES)}, "samples_per_second": 7}

    rounds = {"torch": [one(1), one(2)], "threads": [one(3), one(2)], "processes": [one(1), one(4)]}
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in trainer_delay.format_page({"python": rounds}).splitlines()[2:]
    ]
    assert rows[0] == ["a tokenizer in Python", "torch", "1.5", "3.0", "4.5", "6.0", "7"]
    # Three times and once torch's in the two rounds.
    assert rows[1][1:] == ["threads", "2.5 (2.00x)", "5.0 (2.00x)", "7.5 (2.00x)", "10.0 (2.00x)", "7"]
    late = {"torch": rounds["torch"], "fastload": rounds["threads"]}
    on_time = {"torch": rounds["torch"], "fastload": rounds["torch"]}
    goal = "launches beside fastload, at most 1.05 times torch's: "
    assert trainer_delay.format_goal({"python": late, "own": on_time}) == f"{goal}python 2.00"
    assert trainer_delay.format_goal({"own": on_time, "arrays": rounds}) == f"{goal}met by all"


def test_the_table_of_the_page_is_that_of_the_record() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "trainer-delay.json").read_text())
    assert trainer_delay.format_page(record["rounds"]) in (ROOT / "docs" / "environments.md").read_text()
