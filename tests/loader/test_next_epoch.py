"""Epochs of persistent iterators: the first batches of the next one are under way when one ends, where that is safe."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import recipes
import torch
from image_folders import make_clean_folder
from torchvision.datasets import ImageFolder

import fastload


def make_loader(folder: Path, transform: Any, **arguments: Any) -> fastload.DataLoader:
    return fastload.DataLoader(
        ImageFolder(str(folder), transform),
        **{"batch_size": 2, "num_workers": 2, "persistent_workers": True} | arguments,
    )


def test_evaluation_begins_its_next_epoch_when_one_ends(clean_folder: Path) -> None:
    loader = make_loader(clean_folder, recipes.evaluation(48))
    expected = recipes.bytes_of(torch.utils.data.DataLoader(loader.dataset, batch_size=2))
    for epoch in range(3):
        assert recipes.bytes_of(loader) == expected
        stats = loader.stats()
        assert stats.batches_delivered == (epoch + 1) * len(expected)
        assert stats.batches_in_flight == 4  # prefetch_factor 2 for each thread


@pytest.mark.parametrize(
    ("transform", "arguments"),
    [
        (recipes.training(48), {}),
        (recipes.evaluation(48), {"shuffle": True}),
        (recipes.evaluation(48), {"persistent_workers": False}),
        (recipes.evaluation(48), {"persistent_workers": False, "num_workers": 0}),
    ],
)
def test_nothing_begins_that_draws_or_may_not_be_wanted(
    clean_folder: Path, transform: Any, arguments: dict[str, Any]
) -> None:
    loader = make_loader(clean_folder, transform, **arguments)
    iterator = iter(loader)
    for _ in iterator:
        pass
    assert loader.stats().batches_in_flight == 0


def test_an_epoch_that_was_begun_is_dropped_where_the_sampler_has_changed(clean_folder: Path) -> None:
    loader = make_loader(clean_folder, recipes.evaluation(48))
    first = recipes.bytes_of(loader)
    loader.batch_sampler.batch_size = 3
    assert (
        recipes.bytes_of(loader) == recipes.bytes_of(torch.utils.data.DataLoader(loader.dataset, batch_size=3)) != first
    )


def test_closing_drops_the_epoch_that_was_begun(clean_folder: Path) -> None:
    loader = make_loader(clean_folder, recipes.evaluation(48))
    first = recipes.bytes_of(loader)
    loader.close()
    assert recipes.bytes_of(loader) == first


class Once:
    """A trace that raises `error` once, before line `number` of the lines that _begin_early() leads to."""

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self.has_raised = False
        self._error = error
        self._left = number

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not is_inside(frame, "_begin_early"):
            return None
        if event == "line" and not self.has_raised:
            self._left -= 1
            if self._left < 0:
                self.has_raised = True
                raise self._error
        return self


def is_inside(frame: FrameType | None, function: str) -> bool:
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None


@pytest.mark.parametrize("error", [KeyboardInterrupt, pytest.param(MemoryError, marks=pytest.mark.slow)])
def test_an_error_while_the_next_epoch_begins_changes_neither(tmp_path: Path, error: type[BaseException]) -> None:
    """The error may come at any line, and the user may go on with next() after it.

    There are several hundred lines, with three epochs for each, so an epoch is six small batches: two more than are
    under way.
    """
    loader = make_loader(make_clean_folder(tmp_path, 6), recipes.evaluation(16), batch_size=1)
    expected = recipes.bytes_of(loader)
    assert len(expected) == 6
    for number in range(1000):
        once = Once(number, error)
        iterator = iter(loader)
        found = recipes.bytes_of([next(iterator) for _ in range(5)])
        sys.settrace(once)
        try:
            while True:
                try:
                    found += recipes.bytes_of([next(iterator)])
                except error:
                    continue
                except StopIteration:
                    break
        finally:
            sys.settrace(None)
        assert found == expected, number
        assert recipes.bytes_of(loader) == expected, number
        if not once.has_raised:
            assert number > 20
            return
