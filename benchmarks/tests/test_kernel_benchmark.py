"""The benchmark of the kernels: its output and files, that it measures all of them, and that it compares first."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("tabulate", reason="benchmarks/requirements.txt is not installed")

from benchmarks.kernels import __main__ as command

LINES = """
{"kernel": "inverse_dct", "unit": "block", "table": "avx2", "nanoseconds": [20.5, 20.75, 23.0]}
{"kernel": "inverse_dct", "unit": "block", "table": "scalar", "nanoseconds": [75.0, 70.125, 71.0]}
{"kernel": "resize", "unit": "output pixel", "table": "avx2", "nanoseconds": [2.0, 1.0, 4.0]}
{"kernel": "resize", "unit": "output pixel", "table": "scalar", "nanoseconds": [8.0, 8.0, 8.0]}
"""


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the command run a shell script instead of the program."""
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(command, "build", lambda: program)


def test_table_and_record_hold_the_medians(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, f"cat <<'END'{LINES}END", monkeypatch)
    assert command.main(["--output", str(tmp_path / "kernels.json")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["kernel", "median", "avx2", "scalar"]
    assert rows[2] == ["inverse_dct", "ns/block", "20.75", "71"]
    assert rows[3] == ["resize", "ns/output", "pixel", "2", "8"]
    record = json.loads((tmp_path / "kernels.json").read_text())
    assert record["measurements"][1]["nanoseconds"] == [75.0, 70.125, 71.0]
    assert record["measurements"][1]["summary"] == {"median": 71.0, "min": 70.125, "max": 75.0}
    assert record["machine"]["cpu"]


def test_program_is_pinned_and_gets_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f'echo "$@" > {tmp_path}/arguments; grep Cpus_allowed_list /proc/self/status > {tmp_path}/cores'
    stand_in(tmp_path, script, monkeypatch)
    core = command.parse_arguments([]).core
    assert command.main(["--rounds", "3", "--microseconds", "50", "--filter", "dct"]) == 0
    assert (tmp_path / "arguments").read_text().split() == ["3", "50", "dct"]
    assert (tmp_path / "cores").read_text().split() == ["Cpus_allowed_list:", str(core)]


def test_differing_bytes_are_a_failure_without_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, "exit 1", monkeypatch)
    assert command.main([]) == 1
    output = capsys.readouterr()
    assert "ended with status 1" in output.err
    assert output.out == ""


@pytest.mark.slow
def test_every_kernel_is_measured_in_every_table(tmp_path: Path) -> None:
    assert command.main(["--rounds", "1", "--microseconds", "1", "--output", str(tmp_path / "kernels.json")]) == 0
    measurements = json.loads((tmp_path / "kernels.json").read_text())["measurements"]
    header = (command.ROOT / "csrc" / "kernels" / "kernel_table.h").read_text()
    kernels = set(re.findall(r"^    \w+Function\*? (\w+);", header, re.MULTILINE)) - {"resize_scratch_bytes"}
    assert len(kernels) >= 8
    measured: dict[str, set[str]] = {}
    for row in measurements:
        measured.setdefault(re.split(r"[ ,]", row["kernel"])[0], set()).add(row["table"])
        assert row["nanoseconds"][0] > 0
    tables = {row["table"] for row in measurements}
    assert "scalar" in tables
    assert measured == dict.fromkeys(kernels, tables)
