"""``fastload replay``: the sample that it makes, and its exit codes."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from image_folders import make_clean_folder
from PIL import Image

from fastload.cli import main

SCRIPT = """
import torchvision_shim
from recipes import training
from torchvision.datasets import ImageFolder
import fastload
import torch

dataset = ImageFolder({root!r}, training(32))
seeded = fastload.DataLoader(dataset, 4, rng="sample", seed=3, num_workers=1)
views = fastload.DataLoader(
    ImageFolder({root!r}, fastload.MultiView([training(32), training(24)])), 4, rng="sample", seed=3
)
drawn = fastload.DataLoader(dataset, 4, shuffle=True, num_workers=1)
sampler = fastload.ShardedSampler(dataset, num_replicas=1, rank=0, weights=[0, 0, 1, 0, 0, 0])
weighted = fastload.DataLoader(dataset, 4, sampler=sampler, rng="sample", seed=3)
torchs = torch.utils.data.DataLoader(dataset, 4)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_clean_folder(tmp_path / "images", 6)
    path = tmp_path / f"{tmp_path.name}.py"  # a module of its own for each test
    path.write_text(SCRIPT.format(root=str(root)))
    monkeypatch.chdir(tmp_path)
    return path


def test_it_says_what_was_done_and_writes_the_picture(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", f"{script.name}:seeded", "4", "--epoch", "2", "--image", "out.png"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"sample 4 of epoch 2: {script.parent / 'images'}")
    assert lines[1].startswith("  image ")
    assert lines[1].endswith("decoded by native code")
    assert lines[2].startswith("  steps crop(left=")
    pixels = np.asarray(Image.open("out.png"))
    assert pixels.shape == (32, 32, 3)
    assert (pixels.min(), pixels.max()) == (0, 255)
    main(["replay", f"{script.name}:seeded", "4", "--epoch", "1", "--image", "other.png"])
    assert not np.array_equal(np.asarray(Image.open("other.png")), pixels), "each epoch has a crop of its own"


def test_a_step_says_which_draw_is_meant(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weighted = runpy.run_path(str(script))["weighted"]
    iterator = iter(weighted)
    reports = [iterator.batch_report()[0] for _ in iterator]
    assert [report.index for report in reports] == [2, 2]
    for step, report in enumerate(reports):
        call = ["replay", f"{script}:weighted", "2", "--epoch", "0", "--step", str(step)]
        assert main(call) == 0
        assert ", ".join(map(str, report.steps)) in capsys.readouterr().out
    assert reports[0].steps != reports[1].steps
    assert main(["replay", f"{script}:weighted", "2", "--epoch", "0", "--step", "2"]) == 2
    assert "step must be an int in [0, 2)" in capsys.readouterr().err


def test_views_stand_side_by_side(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", f"{script}:views", "0", "--epoch", "0", "--image", "out.png"]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:]] == [["view", "1"], ["view", "2"]]
    assert Image.open("out.png").size == (32 + 4 + 24, 32)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["seeded", "6", "--epoch", "0"], "index must be an int in [0, 6), got 6"),
        (["seeded", "1", "--epoch", "-1"], "epoch must be an int"),
        (["drawn", "1", "--epoch", "0"], "rng='sample' and seed="),
        (["torchs", "1", "--epoch", "0"], "name a fastload.DataLoader"),
        (["seeded", "1", "--epoch", "0", "--image", "absent/out.png"], "there is no folder absent"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], text: str, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, *others = arguments
    assert main(["replay", f"{script.name}:{name}", *others]) == 2
    assert text in capsys.readouterr().err


def test_a_file_that_cannot_be_loaded_ends_it(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (script.parent / "images").rglob("*.JPEG"):
        path.write_bytes(b"no image")
    assert main(["replay", f"{script.name}:seeded", "1", "--epoch", "0"]) == 3
    assert "SampleError" in capsys.readouterr().err
