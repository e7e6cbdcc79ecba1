"""fastload.doctor(): its report on loaders with a known limit, and loaders that stay as they were."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
import torch.utils.data
from numbered import Made

import fastload
from fastload._loader._loader import DataLoader


def waits(index: int) -> int:
    """Takes 10 ms without a processor."""
    time.sleep(0.01)
    return index


def test_a_slow_trainer_is_told_and_nothing_is_tried() -> None:
    said: list[str] = []
    loader = fastload.DataLoader(list(range(100)), batch_size=4, num_workers=1)
    report = fastload.doctor(loader, step_seconds=0.05, seconds=0.3, progress=said.append)
    assert report.finding.cause == "training step"
    assert "it takes 50.0 ms" in report.finding.sentence
    assert (report.after, report.measured_gain) == (None, None)
    assert report.before.samples_per_second <= 4 / 0.05
    assert report.as_dict()["cause"] == "training step"
    json.dumps(report.as_dict())
    assert said[0] == "looking at the machine and the files"
    assert len(said) == len(set(said)) >= 3


def test_more_workers_are_proposed_and_tried_where_samples_wait() -> None:
    report = fastload.doctor(torch.utils.data.DataLoader(Made(waits, 400), batch_size=4, num_workers=1), seconds=0.6)
    assert report.finding.cause == "data set waits"
    assert report.finding.arguments == {"num_workers": report.after.num_workers}
    assert report.after.num_workers > 2
    assert report.measured_gain > 1.5
    text = str(report)
    assert report.finding.sentence[:60] in text
    assert "num_workers=" in text
    assert report._repr_html_().startswith("<table>")


def test_a_change_that_does_not_help_is_told_as_such() -> None:
    found = fastload.doctor(torch.utils.data.DataLoader(Made(waits, 400), batch_size=4, num_workers=1), seconds=0.6)
    advised = "it does not help here: keep the loader as it is"
    assert found.change_helps is True
    assert advised not in str(found)
    quiet = replace(found.before, busy_elsewhere=0.0)
    slower = replace(found, before=quiet, after=replace(quiet, samples_per_second=0.9 * quiet.samples_per_second))
    assert slower.as_dict()["change_helps"] is False
    assert str(slower).endswith(advised)
    busy = replace(slower, before=replace(quiet, busy_elsewhere=0.5))
    assert str(busy).endswith("or measure again while no other program runs")


def test_the_step_is_that_of_a_loader_in_use_or_of_a_function() -> None:
    loader = fastload.DataLoader(list(range(48)), batch_size=4)
    assert fastload.doctor(loader, seconds=0.05).step_seconds is None
    for _ in loader:
        time.sleep(0.02)
    report = fastload.doctor(loader, seconds=0.05)
    assert 0.02 <= report.step_seconds < 0.1
    assert report.step_source == "between the batches of this loader"
    seen: list[Any] = []

    def train_step(batch: Any) -> None:
        seen.append(batch)
        time.sleep(0.03)

    report = fastload.doctor(loader, train_step=train_step, seconds=0.05)
    assert 0.03 <= report.step_seconds < 0.1
    assert seen[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"loader": [1]}, TypeError, "loader must be a torch.utils.data.DataLoader, got list"),
        ({"seconds": 0}, ValueError, "seconds must be a positive number, got 0"),
        ({"step_seconds": -1}, ValueError, "step_seconds must not be negative, got -1"),
        ({"step_seconds": 1, "train_step": print}, ValueError, "pass step_seconds or train_step"),
        ({"loader": DataLoader([])}, ValueError, "the loader gives no batch"),
    ],
)
def test_invalid_arguments_of_doctor_are_named(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        fastload.doctor(**{"loader": DataLoader([1, 2]), **arguments})
