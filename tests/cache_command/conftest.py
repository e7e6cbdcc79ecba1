"""A working folder without a store, and the command ``fastload cache`` run in it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cache_commands import HOUR_NS, NUM_FILES
from image_folders import make_clean_folder

from fastload._decode_cache import _build
from fastload.cli import main

SCRIPT = """
import fastload
import torch
from torch.utils.data import Dataset, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

class Own(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return index

images = ImageFolder("images")
part = torch.utils.data.DataLoader(Subset(images, [3, 1, 3]))
small = transforms.Compose([transforms.Resize(40), transforms.RandomCrop(32), transforms.ToTensor()])
cropped = torch.utils.data.DataLoader(ImageFolder("images", small), batch_size=4)
random = torch.utils.data.DataLoader(ImageFolder("images", transforms.RandomCrop(32)), batch_size=4)
pair = fastload.transforms.MultiView([small, small])
views = torch.utils.data.DataLoader(ImageFolder("images", pair), batch_size=4)
listed = torch.utils.data.DataLoader(ImageFolder("images", pair), batch_size=4, collate_fn=list)
own = fastload.DataLoader(Own())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Makes a working folder: 12 JPEG files in `images`, train.py, and no store yet; files pass for an hour older."""
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", HOUR_NS)
    make_clean_folder(tmp_path / "images", NUM_FILES)
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("train", None)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, str], str]]:
    """Runs a command and gives its exit code, the rows of its table by their names, and all that it wrote."""

    def run_command(*arguments: str) -> tuple[int, dict[str, str], str]:
        capsys.readouterr()
        exit_code = main(["cache", *arguments])
        captured = capsys.readouterr()
        cells = [re.split(r"  +", line.strip(), maxsplit=1) for line in captured.out.splitlines() if line[:1] == " "]
        return exit_code, {row[0]: row[1] for row in cells if len(row) == 2}, captured.out + captured.err

    return run_command
