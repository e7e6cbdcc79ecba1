"""examples/own_dataset.py: its own class gives torch's batches, and native code decodes every file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from flat_values import flat
from PIL import Image

import fastload


@pytest.fixture
def table(image_folder: Path, tmp_path: Path) -> Path:
    """Writes a table of the 24 images."""
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["file", "label"])
        for image in sorted(image_folder.rglob("*.JPEG")):
            writer.writerow([image, image.parent.name])
    return path


@pytest.mark.smoke
def test_every_file_is_decoded_natively(run_example: Any, table: Path) -> None:
    lines = run_example("own_dataset.py", table, "--batch-size=16", "--workers=2").stdout.splitlines()
    assert [line.partition(", labels")[0] for line in lines[:-1]] == [
        "batch 0: (16, 3, 224, 224)",
        "batch 1: (8, 3, 224, 224)",
    ]
    assert lines[-1] == "files opened: 24, decoded natively: 24"


def test_what_pillow_decodes_is_told_with_its_reason(run_example: Any, table: Path, tmp_path: Path) -> None:
    Image.new("CMYK", (300, 300)).save(tmp_path / "print.jpg")
    with table.open("a") as lines:
        lines.write("print.jpg,class0\n")
    output = run_example("own_dataset.py", table, "--workers=1").stdout
    assert "files opened: 25, decoded natively: 24\nby Pillow, " in output
    assert output.endswith(": 1\n")


def test_its_batches_are_those_of_torchs_loader(load_example: Any, table: Path) -> None:
    example = load_example("own_dataset.py")
    epochs = []
    for kind in (torch.utils.data.DataLoader, fastload.DataLoader):
        torch.manual_seed(4)
        loader = kind(example.LabelledFiles(table, example.TRAINING), 8, shuffle=True, num_workers=2)
        epochs.append([[flat(batch) for batch in loader] for _ in range(2)])
    assert epochs[0] == epochs[1]
    assert len(epochs[0][0]) == 3
    assert epochs[0][0] != epochs[0][1]
