"""The command ``fastload`` with scripts that take arguments, and with mistyped targets."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from fastload.cli import main

TRAIN = """
import argparse
import sys
import fastload

parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--batch-size", type=int, default=1)
options = parser.parse_args()
name_of_the_script = sys.argv[0]
loader = fastload.DataLoader(list(options.data), options.batch_size)

def later():
    return fastload.DataLoader(list(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def _scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "parses.py").write_text(TRAIN)
    (tmp_path / "inside.py").write_text("import fastload\ndef main():\n    fastload.DataLoader([1])\n")
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("parses", None)
    sys.modules.pop("inside", None)


@pytest.mark.parametrize("name", ["loader", "later"])
def test_a_script_gets_the_arguments_after_two_dashes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = list(sys.argv)
    assert main(["explain", f"parses.py:{name}", "--", "abc", "--batch-size", "3"]) == 0
    assert "source     list" in capsys.readouterr().out
    assert sys.modules["parses"].name_of_the_script == "parses.py"
    assert sys.argv == before


def test_both_scripts_of_a_comparison_get_the_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inside.py").write_text(TRAIN)
    assert main(["verify", "parses.py:loader", "inside.py:loader", "--", "1234"]) == 0
    assert "0 differences in 4 samples" in capsys.readouterr().out


def test_a_script_that_misses_its_arguments_says_where_they_go(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "parses.py:loader"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("usage: parses.py [-h]")
    assert errors[-1] == (
        "fastload explain: error: importing parses.py: SystemExit: 2. Arguments of the script come last, after --: "
        "fastload ... -- --epochs 1"
    )


def test_a_command_without_a_script_takes_no_arguments_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["info", "--", "abc"])
    assert exit_.value.code == 2
    assert "arguments after -- are for a script, and info imports none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("explain", "inside.py:loader"),
            "inside.py has no 'loader'; it has no loader: if a function makes one, name a function without argum",
        ),
        (("explain", "absent.py:loader"), "no file absent.py in /"),
        (
            ("explain", "parses.py", "--", "abc"),
            "parses.py is a script: name the object in it, as parses.py:name; its ",
        ),
        (
            ("bench", "parses.py:", "--", "abc"),
            "parses.py is a script: name the object in it, as parses.py:name; its l",
        ),
        (("doctor", "photos"), "photos is a folder: name a loader over it, as script.py:name"),
        (
            ("doctor", "parses.py:loader", "--json", "absent/a.json"),
            "absent/a.json cannot be written: there is no folder",
        ),
        (
            ("bench", "parses.py:loader", "--json", "absent/a.json"),
            "absent/a.json cannot be written: there is no folder ",
        ),
        (
            ("verify", "a.py:a", "b.py:b", "--image", "absent/a.png"),
            "absent/a.png cannot be written: there is no folder ",
        ),
    ],
)
def test_a_mistyped_target_is_reported_before_any_work(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"fastload {arguments[0]}: error: {message}")
    assert errors.count("\n") == 1


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "say why training waits, and what to change" in capsys.readouterr().err


@pytest.mark.parametrize("context", [None, "StopIteration()"])
def test_an_error_of_a_worker_process_is_one_line_without_its_traceback(
    context: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = f"""\
        import torch.utils.data
        class Files(list):
            def __getitem__(self, index):
                error = OSError('the disk is gone')
                error.__context__ = {context}
                raise error
        loader = torch.utils.data.DataLoader(Files([1]), num_workers=1)
        """
    (tmp_path / "inside.py").write_text(textwrap.dedent(program))
    assert main(["bench", "inside.py:loader", "--seconds", "0.1"]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if not line.startswith("fastload: ")] == [  # without the progress of a slow start
        "fastload bench: error: torch's loader: OSError: Caught OSError in DataLoader worker process 0. "
        "OSError: the disk is gone"
    ]
