"""examples/waiting_samples.py: what its table says of workers and processes. Its times are the reader's."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import fastload


@pytest.mark.smoke
def test_the_table_has_both_loaders_and_fastload_stays_in_one_process(run_example: Any) -> None:
    words = ["--samples=96", "--milliseconds=1", "--batch-size=8", "--workers", 0, 3]
    head, *rows = run_example("waiting_samples.py", *words).stdout.splitlines()
    assert head.split() == ["loader", "workers", "processes", "samples", "seconds", "speed-up"]
    assert [row.split()[:4] for row in rows] == [
        ["torch", "0", "1", "96"],
        ["torch", "3", "4", "96"],
        ["fastload", "0", "1", "96"],
        ["fastload", "3", "1", "96"],
    ]
    assert all(re.search(r" \d+\.\d\d +\d+\.\dx$", row) for row in rows)
    # 96 ms of waiting at least, one after the other.
    assert all(float(rows[number].split()[4]) >= 0.09 for number in (0, 2))


def test_samples_are_those_of_torchs_loader(load_example: Any) -> None:
    dataset = load_example("waiting_samples.py").Waiting(20, 0.1)
    mine, theirs = (
        [indices.tolist() for indices, _ in kind(dataset, 3, num_workers=2)]
        for kind in (fastload.DataLoader, torch.utils.data.DataLoader)
    )
    assert mine == theirs
    assert [index for batch in mine for index in batch] == list(range(20))
