"""Descriptions of loaders and explanations: repr(), fields, dicts, tables."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import pytest
import torch
from torch.utils.data import IterableDataset, Subset, TensorDataset
from torchvision.datasets import ImageFolder

import fastload
from fastload._loader._current import CurrentLoader


class Untouchable:
    """A user's data set, whose own code repr() must not call."""

    def __len__(self) -> int:
        raise AssertionError("len() was called")

    def __getitem__(self, index: int) -> int:
        raise AssertionError("a sample was asked for")

    def __repr__(self) -> str:
        raise AssertionError("repr() was called")


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        raise AssertionError("it was iterated over")


class Batches:
    def __iter__(self) -> Any:
        return iter([[0, 1]])


THREAD = {"num_workers": 1, "workers": "threads"}


@pytest.mark.parametrize(
    ("dataset", "arguments", "expected"),
    [
        (list(range(1500)), {}, "list of 1,500 samples, batch_size=1, no workers"),
        ([7], {"batch_size": None}, "list of 1 sample, batch_size=None, no workers"),
        (TensorDataset(torch.zeros(5)), THREAD, "TensorDataset of 5 samples, batch_size=1, 1 thread"),
        (Subset(range(9), [1, 2]), {**THREAD, "num_workers": 2}, "Subset of 2 samples, batch_size=1, 2 threads"),
        (Subset(Untouchable(), None), {}, "Subset, batch_size=1, no workers"),
        (Untouchable(), {"batch_size": 8}, "Untouchable, batch_size=8, no workers"),
        (Stream(), {"num_workers": 2, "workers": "processes"}, "Stream, batch_size=1, 2 workers"),
        ([1, 2], {"batch_sampler": Batches()}, "list of 2 samples, batch_sampler=Batches, no workers"),
        ([1], {"rng": "sample", "seed": 3}, "list of 1 sample, batch_size=1, no workers, rng='sample', seed=3"),
        ([1], {"device": "cpu"}, "list of 1 sample, batch_size=1, no workers"),
        ([1], {"device": "cuda:1"}, "list of 1 sample, batch_size=1, no workers, device='cuda:1'"),
    ],
)
def test_repr_says_what_the_loader_is_in_a_line(dataset: Any, arguments: dict[str, Any], expected: str) -> None:
    loader = fastload.DataLoader(dataset, **arguments)
    with mock.patch.object(CurrentLoader, "plan", side_effect=AssertionError("a plan was made")):
        assert repr(loader) == f"<fastload.DataLoader: {expected}>"


def test_repr_of_an_image_folder_has_its_samples(images: ImageFolder) -> None:
    assert f"<fastload.DataLoader: ImageFolder of {len(images)} samples, " in repr(fastload.DataLoader(images))


def test_repr_never_raises() -> None:
    class Own(fastload.DataLoader[Any]):
        device = property(lambda self: 1 / 0)  # type: ignore[assignment]

    assert repr(Own([1, 2])).startswith("<test_repr_never_raises.<locals>.Own: list of 2 samples")
    unborn: Any = fastload.DataLoader.__new__(fastload.DataLoader)
    assert repr(unborn).startswith("<fastload._loader._loader.DataLoader object at ")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_an_explanation_has_the_fields_of_its_text(images: ImageFolder, duplicate: Any) -> None:
    loader = fastload.DataLoader(images, num_workers=1, collate_fn=list)
    explanation = duplicate(loader.explain())
    first, *lines = explanation.splitlines()
    assert explanation.verdict == first
    assert len(explanation.rows) == len(lines)
    for row, line in zip(explanation.rows, lines, strict=True):
        assert line.startswith(f"  {row.stage:<10} {row.what}")
        assert line.endswith(": native") == bool(row.is_native)
    (collate,) = [row for row in explanation.rows if row.stage == "collate"]
    assert collate == ("collate", "list", "only default_collate is native", False)
    assert [row.is_native for row in explanation.rows if row.stage == "to change"] == [None]
    assert json.loads(json.dumps(explanation.as_dict()))["rows"][0]["stage"] == "source"
    assert explanation.as_dict()["is_native"] is explanation.is_native is False


def test_a_native_loader_says_so_in_its_fields(images: ImageFolder) -> None:
    explanation = fastload.DataLoader(images).explain()
    assert explanation.is_native
    assert {row.is_native for row in explanation.rows} == {True}


def test_a_notebook_shows_an_explanation_as_a_table_with_every_cell_escaped() -> None:
    explanation = fastload.DataLoader([1], collate_fn=lambda samples: samples).explain()
    root = ElementTree.fromstring(explanation._repr_html_())
    assert root.findtext("caption") == explanation.verdict
    assert len(root.findall("tr")) == 1 + len(explanation.rows)
    assert "<lambda>" in "".join(root.itertext())
    cells = [[int(cell.get("colspan", 1)) for cell in row] for row in root.findall("tr")]
    assert {sum(row) for row in cells} == {3}, "a remark goes over the columns that it leaves empty"
    assert [1, 2] in cells
