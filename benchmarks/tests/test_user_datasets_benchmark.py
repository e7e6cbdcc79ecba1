"""The row of data sets as users write them: every pattern gives both loaders' batches alike, or there is no figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from image_folders import make_clean_folder

import fastload
from benchmarks import __main__ as command
from benchmarks import _turns, user_datasets
from benchmarks._turns import measure
from benchmarks._user_datasets import PATTERNS, Files, Pattern

ROOT = Path(__file__).resolve().parents[2]
IN_PYTHON = "not native: samples are loaded in Python, by one process: your Python runs for each sample\n"
OF_ARRAY = "partly native: samples are made natively of the data set's array, by one process\n"
NATIVE = "native: batches are read, decoded and transformed by one thread\n"
VERDICTS = {"preset-train": NATIVE, "preset-eval": NATIVE, "cifar": OF_ARRAY, "mnist": OF_ARRAY}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_clean_folder(tmp_path / "data", 4)


def only(monkeypatch: pytest.MonkeyPatch, name: str, pattern: Pattern) -> None:
    monkeypatch.setattr(user_datasets, "PATTERNS", {name: pattern})


@pytest.mark.parametrize("name", list(PATTERNS))
def test_both_loaders_give_the_same_batches_of_every_pattern(data: Path, tmp_path: Path, name: str) -> None:
    pattern = PATTERNS[name]
    if not pattern.is_installed:
        pytest.skip(f"{pattern.package} is not installed")
    files = Files(data, tmp_path, 8)
    if pattern.write is not None:
        pattern.write(files)
    theirs = measure((pattern.make_for_torch or pattern.make)(files), "torch", 4, 1, pattern.num_loaders)
    ours = measure(pattern.make(files), "fastload", 4, 1, pattern.num_loaders)
    assert ours["sha256"] == theirs["sha256"]
    is_native = name in ("preset-train", "preset-eval")
    explanation = str(fastload.DataLoader(pattern.make(files), 4, num_workers=1).explain())
    assert explanation.startswith(VERDICTS.get(name, IN_PYTHON))
    assert ours["processes"] == theirs["processes"] - (pattern.num_loaders if is_native else 0)
    assert ours["images_decoded_natively"] == ours["images_decoded"]
    assert (ours["images_decoded"] > 0) == (name not in ("arrays", "cifar", "imread", "mnist"))


def test_the_row_is_compared_and_recorded(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "list-eval", PATTERNS["list-eval"])
    arguments = ["--rows", "user_datasets", "--data", str(data), "--out", str(tmp_path), "--name", "mine", "--quick"]
    assert command.main([*arguments, "--images", "8", "--batch-size", "4"]) == 0
    record = json.loads((tmp_path / "mine-user_datasets-1.json").read_text())
    assert list(record["rounds"]) == ["list-eval"]
    assert {"torch", "torchvision", "PIL", "numpy"} <= set(record["versions"])
    (ours,) = record["rounds"]["list-eval"]["fastload"]
    assert ours["images_decoded_natively"] == ours["images_decoded"] > 0


def test_different_batches_end_the_run_with_the_patterns_name(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, "list-eval", PATTERNS["list-eval"])
    monkeypatch.setattr(_turns, "run_child", lambda command: {"sha256": command[-1]})
    assert user_datasets.main(["--data", str(data)]) == 2
    printed = capsys.readouterr()
    assert "list-eval: the batches differ" in printed.err
    assert printed.out == ""


def test_a_pattern_whose_package_is_missing_is_skipped_and_says_so(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(monkeypatch, "other", Pattern("of nobody", lambda files: None, package="no_such_package"))
    assert user_datasets.main(["--data", str(data)]) == 0
    assert "other: skipped, no_such_package is not installed" in capsys.readouterr().out


def test_ratios_are_those_of_the_rounds_and_the_share_that_of_all_images() -> None:
    def one(speed: float, cpu: float, **counts: float) -> dict[str, Any]:
        return {"samples_per_second": speed, "cpu_ms_per_sample": cpu, **counts}

    theirs = [one(100, 8), one(50, 16)]
    counts = {"images_decoded": 10, "images_decoded_natively": 5, "processes": 2}
    rounds = {"torch": theirs, "fastload": [one(300, 2, **counts)] * 2, "threads": [one(400, 1)] * 2}
    table = user_datasets.format_table({"clip": rounds})
    # Sixteen images a sample; ratios 3 and 6 in the two rounds.
    assert [cell.strip() for cell in table.splitlines()[-1].split("|")[1:-1]] == [
        "clip",
        "1200",
        "4800",
        "6400",
        "50%",
        "processes",
        "4.50x",
        "5.33x",
        "6.00x",
        "10.67x",
    ]


@pytest.mark.parametrize("name", ["user-datasets", "user-datasets-two-workers"])
def test_the_table_of_the_page_is_that_of_the_record(name: str) -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    assert user_datasets.format_page(record["rounds"]) in (ROOT / "docs" / "user-datasets.md").read_text()
