"""``fastload verify``: exit codes, messages and files, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from children import RunChild
from PIL import Image

from fastload.cli import main

SCRIPT = """
import torchvision_shim
import torch.utils.data
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

def dataset(size):
    steps = [transforms.Resize(size), transforms.CenterCrop(32), transforms.ToTensor()]
    return ImageFolder({folder!r}, transforms.Compose(steps))

old = torch.utils.data.DataLoader(dataset(40), 4, num_workers=1)

def new():
    return fastload.DataLoader(dataset(40), 4, num_workers=1)

class factories:
    @staticmethod
    def larger():
        return fastload.DataLoader(dataset(41), 4)

if __name__ == "__main__":
    raise AssertionError("the script was run")
"""


@pytest.fixture
def command(folder: Path, tmp_path: Path, run_child: RunChild) -> Any:
    """Runs the command with arguments, in a folder with a script of loaders; returns the finished process."""
    (tmp_path / "loaders.py").write_text(SCRIPT.format(folder=str(folder)))

    def run(*arguments: str) -> Any:
        code = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'fastload', *{arguments!r}]))"
        return run_child(code, timeout=60, check=False)

    return run


def errors_of(child: Any) -> list[str]:
    """Returns the lines of standard error without the progress, which a slow machine shows."""
    return [line for line in child.stderr.splitlines() if not line.startswith("fastload: ")]


def test_equal_loaders_exit_with_0_and_write_no_image(command: Any, tmp_path: Path) -> None:
    child = command("verify", "loaders.py:old", "loaders.py:new", "--json", "r.json", "--image", "w.png")
    assert (child.returncode, errors_of(child)) == (0, [])
    assert child.stdout.startswith("fastload verify: 0 differences in 11 samples\n")
    assert json.loads((tmp_path / "r.json").read_text())["is_equal"] is True
    assert not (tmp_path / "w.png").exists()


def test_differing_loaders_exit_with_1_and_write_json_and_image(command: Any, tmp_path: Path) -> None:
    options = ("--batches", "2", "--seed", "5", "--json", "r.json", "--image", "w.png")
    child = command("verify", "loaders:old", "loaders:factories.larger", *options)
    assert (child.returncode, errors_of(child)) == (1, [])
    assert "Resize: size 40 against 41" in child.stdout
    assert "w.png: old, new and difference of the worst sample" in child.stdout
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["stages"], found["seed"], found["batches_limit"]) == ({"resize": 8}, 5, 2)
    assert Image.open(tmp_path / "w.png").size == (3 * 32 + 8, 32)


@pytest.mark.parametrize("arguments", [("verify",), ("verify", "a:b", "c:d", "--batches", "many")])
def test_wrong_options_exit_with_2_and_the_usage(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("usage: fastload")
