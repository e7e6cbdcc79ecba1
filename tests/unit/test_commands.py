"""The command ``fastload``: info, explain, bench, exit codes, progress, and its output on a terminal."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from children import RunChild
from image_folders import make_clean_folder

import fastload
from fastload._display import _progress
from fastload._display._table import Table
from fastload._loader._loader import DataLoader
from fastload.cli import _common, main
from fastload.cli._common import EXIT_CODES

SCRIPT = """
import torch.utils.data
import fastload

class Broken:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        raise OSError("the disk is gone")

class Unequal(Broken):
    count = 0
    def __getitem__(self, index):
        Unequal.count += 1
        return Unequal.count

numbers = list(range(10))
theirs = torch.utils.data.DataLoader(numbers, batch_size=4, num_workers=1, shuffle=True)
mine = fastload.DataLoader(numbers, batch_sampler=[[0, 1], [2]], rng="sample", seed=1, device="cuda")

class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(numbers)

stream = torch.utils.data.DataLoader(Stream(), batch_size=4)
empty = torch.utils.data.DataLoader([])
broken = fastload.DataLoader(Broken())
unequal = fastload.DataLoader(Unequal())
long = torch.utils.data.DataLoader(range(10**7), batch_size=4)

def failing():
    raise LookupError("no data\\nhere")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes train.py, which tests name as train.py:name; each test loads it anew."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("train", None)


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"fastload {fastload.__version__}\n"


@pytest.mark.parametrize(
    "command", ["", "info", "explain", "bench", "doctor", "verify", "index", "cache", "cache build", "cache info"]
)
def test_help_has_the_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    assert EXIT_CODES.strip() in capsys.readouterr().out


def test_info_names_build_versions_decoder_gpu_and_cache(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"fastload {fastload.__version__}"
    assert main(["info", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [line.split("  ")[1] for line in lines[1:]] == list(values)
    assert values["kernels"].startswith(fastload.build_info().active_kernel_table)
    assert values["GPU module"].startswith(fastload.build_info().cuda_module_reason)
    assert {"Python", "torch", "torchvision", "NumPy", "JPEG decoder", "GPU", "cache folder", "cache of images"} <= set(
        values
    )


def test_info_says_what_is_wrong_with_a_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch("fastload._native.build_info", side_effect=ValueError("FASTLOAD_SIMD is 'x'")):
        assert main(["info"]) == 2
    assert capsys.readouterr().err == "fastload info: error: ValueError: FASTLOAD_SIMD is 'x'\n"


def test_explain_takes_loaders_of_either_kind(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "train.py:theirs"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("not native: samples are loaded in Python, by one process: your Python runs for each ")
    assert main(["explain", "train.py:mine", "--json"]) == 0
    explanation = json.loads(capsys.readouterr().out)
    assert explanation["verdict"] == "not native: samples are loaded in Python, in the calling thread"
    assert explanation["rows"][0]["is_native"] is False


@pytest.mark.parametrize("name", ["theirs", "mine", "stream"])
def test_bench_compares_then_measures_both(name: str, script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", f"train.py:{name}", "--seconds", "0.1", "--compare", "2", "--json", "r.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fastload bench: <fastload.DataLoader: ")
    assert re.fullmatch(r"  compared      [38] samples: 0 differences", lines[1])
    assert lines[3].split() == ["torch", "fastload"]
    (rate,) = [line for line in lines if line.startswith("  samples/s")]
    assert re.search(r"  [\d,.]+ times as many$", rate)
    written = json.loads(Path("r.json").read_text())
    assert written["compared"]["is_equal"] is True
    assert [len(written[kind]) for kind in ("torch", "fastload")] == [2, 2]
    assert all(turn["samples_per_second"] > 0 for kind in ("torch", "fastload") for turn in written[kind])


@pytest.mark.parametrize(("name", "is_noted"), [("theirs", True), ("long", False)])
def test_bench_notes_epochs_that_are_too_short(
    name: str, is_noted: bool, script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", f"train.py:{name}", "--seconds", "0.1", "--compare", "1"]) == 0
    noted = re.search("note: torch( and fastload)? spent most of the time starting epochs", capsys.readouterr().out)
    assert (noted is not None) is is_noted


def test_bench_of_a_folder_takes_the_usual_training_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_clean_folder(tmp_path / "train", 6)
    arguments = ("--seconds", "0.1", "--batch-size", "4", "--workers", "0", "--compare", "1")
    assert main(["bench", str(tmp_path / "train"), *arguments]) == 0
    output = capsys.readouterr().out
    assert "fastload is   native: " in output
    assert "compared      4 samples: 0 differences" in output


def test_bench_measures_nothing_where_the_batches_differ(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "train.py:unequal"]) == 1
    assert capsys.readouterr().out.endswith("\n  nothing was measured, because the batches differ\n")


def test_doctor_shows_the_report_and_writes_what_is_asked_for(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--seconds", "1", "--step-time", "0.5", "--json", "found.json"]
    assert main(["doctor", "train.py:theirs", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fastload doctor: The training step limits: it takes 500 ms")
    topics = [line.split()[0] for line in lines[1:] if not line.startswith("   ")]
    assert topics[:5] == ["loader", "machine", "data", "training", "now"]
    assert set(topics[5:]) <= {"also"}  # about other programs on the machine
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["cause"], found["step_seconds"]) == ("training step", 0.5)


def test_bench_without_torchvision_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.dict(sys.modules, {"torchvision": None, "torchvision.datasets": None}):
        assert main(["bench", str(tmp_path)]) == 2
    assert "pip install torchvision, or name a loader of yours as script.py:name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("bench", "absent"), 2, "'absent' is neither a folder nor of the form script.py:name or package.module:name"),
        (("bench", "."), 2, "FileNotFoundError: Couldn't find any class folder in ."),
        (("bench", ".", "--workers", "-1"), 2, "--batch-size must be positive and --workers must not be negative"),
        (("bench", "train.py:mine", "--seconds", "0"), 2, "--seconds must be a positive number, got 0"),
        (("bench", "train.py:mine", "--workers", "2"), 2, "--batch-size and --workers are for a folder's loader: "),
        (("bench", "train.py:mine", "--compare", "0"), 2, "ValueError: batches must be None or a positive int, got 0"),
        (("bench", "train.py:broken"), 3, "torch's loader: OSError: the disk is gone"),
        (("bench", "train.py:empty"), 3, "torch's loader: ValueError: the loader gives no batch, so there is nothing"),
        (("check", "absent"), 2, "FileNotFoundError: [Errno 2] No such file or directory: 'absent'"),
        (("check", ".", "--workers", "-1"), 2, "--workers must not be negative, got -1"),
        (("index", "absent"), 2, "FileNotFoundError: [Errno 2] No such file or directory: 'absent'"),
        (("index", "."), 2, "FileNotFoundError: Couldn't find any class folder in ."),
        (("doctor", "train.py:mine", "--seconds", "0"), 2, "--seconds must be a positive number, got 0"),
        (("doctor", "train.py:mine", "--step-time", "-1"), 2, "--step-time must be a positive number, got -1"),
        (("doctor", "train.py:theirs", "--train-step", "train.py:numbers"), 2, "train.py:numbers is a list, not a f"),
        (("doctor", "train.py:broken"), 3, "OSError: the disk is gone"),
        (("doctor", "train.py:empty"), 3, "ValueError: the loader gives no batch, so there is nothing to measure"),
        (("verify", "missing.module:old", "train.py:mine"), 2, "importing missing.module: ModuleNotFoundError: No mod"),
        (("verify", "train.py:theirs", "train.py:failing"), 2, "train.py:failing(): LookupError: no data here"),
        (("explain", "train.py:none"), 2, "train.py has no 'none'; its loaders: theirs, mine, stream, empty, broken"),
        (("explain", "train.py:numbers"), 2, "train.py:numbers is a list, not a DataLoader or a function that returns"),
    ],
)
def test_an_error_has_its_exit_code_and_one_line(
    script: Any, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    assert main(arguments) == exit_code
    errors = capsys.readouterr().err
    assert errors.startswith(f"fastload {arguments[0]}: error: {message}")
    assert errors.count("\n") == 1


def test_a_loader_whose_start_fails_exits_with_3(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(DataLoader, "_get_iterator", side_effect=MemoryError("no room")):
        assert main(["verify", "train.py:theirs", "train.py:broken"]) == 3
    assert capsys.readouterr().err == "fastload verify: error: MemoryError: no room\n"


def test_an_interrupt_exits_with_130(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(DataLoader, "explain", side_effect=KeyboardInterrupt):
        assert main(["explain", "train.py:mine"]) == 130
    assert capsys.readouterr().err == "fastload explain: interrupted\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _wait_for_text(stream: io.StringIO) -> str:
    end = time.monotonic() + 30
    while not stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    return stream.getvalue()


def test_progress_is_a_plain_line_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "QUIET_SECONDS", 0.0)
    stream = io.StringIO()
    with mock.patch("sys.stderr", stream), _progress.Progress("comparing", "batches") as progress:
        progress.advance(1200, 5000)
        text = _wait_for_text(stream)
    assert re.match(r"fastload: comparing: (1,200 of 5,000|0) batches, ", text)


def test_quick_work_shows_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with _progress.Progress("comparing", "batches") as progress:
        progress.advance(1, 2)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_and_colours_from_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich", reason="in tests/requirements.txt")
    monkeypatch.setattr(_progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = _Terminal()
    with mock.patch("sys.stderr", stream), _progress.Progress("measuring [x]", "%") as progress:
        progress.advance(0.5, 1.0)
        _wait_for_text(stream)
    assert "measuring" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()
    shown = _Terminal()
    with mock.patch("sys.stdout", shown):
        _common.say("native: [all] of it\n  a row", "green")
        _common.show(Table("a [title]", [("first", "[1]")], head=("name", "value"), right=(1,)))
    assert "\x1b[32mnative: [all] of it\x1b[0m" in shown.getvalue()
    assert "  a row" in shown.getvalue()
    assert "a [title]" in shown.getvalue()
    assert "[1]" in shown.getvalue()


def test_without_rich_a_terminal_gets_plain_lines() -> None:
    shown = _Terminal()
    with mock.patch("sys.stdout", shown), mock.patch("importlib.util.find_spec", return_value=None):
        _common.say("native", "green")
        _common.show(Table("title", [("a", "b")]))
    assert shown.getvalue() == "native\ntitle\n  a  b\n"


def test_a_closed_pipe_is_no_error(run_child: RunChild) -> None:
    child = run_child(
        """
        import os, sys
        from fastload.cli import main

        read, write = os.pipe()
        os.dup2(write, 1)
        os.close(read)
        exit_code = main(["info"])
        print(exit_code, file=sys.stderr)
        """,
        warm=True,
    )
    assert child.stderr == "0\n"
