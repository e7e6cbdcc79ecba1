"""The arguments about bad samples: refused values, and the text of explain()."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_folders import make_bad_folder
from recipes import training
from torch.utils.data import IterableDataset, TensorDataset

import fastload

DATASET = TensorDataset(torch.arange(10))
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"on_error": "ignore"}, ValueError, "on_error must be 'raise', 'replace' or 'skip', got 'ignore'"),
    ({"on_error": "skip", "substitutes": "all"}, ValueError, "substitutes needs on_error='replace'"),
    ({"on_error": "replace", "substitutes": "most"}, ValueError, "'all' or a sequence of indices, got 'most'"),
    ({"on_error": "replace", "substitutes": []}, ValueError, "substitutes is empty"),
    ({"on_error": "replace", "retries": -1}, ValueError, "retries must be an int from 0 to 100, got -1"),
    ({"on_error": "replace", "retries": 1.5}, ValueError, "retries must be an int"),
    ({"on_error": "skip", "max_errors": 5}, ValueError, "max_errors is a share of the samples, from 0.0 to 1.0, got 5"),
    ({"on_error": "skip", "max_errors": float("nan")}, ValueError, "max_errors"),
    ({"on_error": "skip", "ledger": 3}, TypeError, "ledger must be None or the path of a file, got 3"),
    ({"retries": 2}, ValueError, "retries=2 needs on_error='replace' or 'skip'"),
    ({"ledger": "bad.jsonl"}, ValueError, "ledger='bad.jsonl' needs on_error"),
    ({"max_errors": 0.5}, ValueError, "max_errors=0.5 needs on_error"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), REFUSED)
def test_what_makes_no_sense_is_refused_by_name(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        fastload.DataLoader(DATASET, **arguments)
    assert text in str(raised.value)


class _Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(4))


@pytest.mark.parametrize(
    ("dataset", "arguments", "text"),
    [
        (_Stream(), {"on_error": "replace"}, "on_error='replace' needs a data set with __getitem__"),
        (DATASET, {"on_error": "skip", "batch_size": None}, "batch_size=None makes none; use 'replace'"),
    ],
)
def test_what_cannot_be_replaced_or_left_out_is_refused(dataset: Any, arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        iter(fastload.DataLoader(dataset, **arguments))


def test_explain_says_who_makes_the_samples(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path, 4, [])
    folder.transform = training(32)
    explanation = fastload.DataLoader(folder, on_error="skip", num_workers=1).explain()
    assert explanation.is_native
    assert "errors     on_error='skip', batches may be short: native" in explanation
    folder.target_transform = str
    explanation = fastload.DataLoader(folder, on_error="replace", num_workers=1).explain()
    assert explanation.startswith("partly native")
    assert "errors     on_error='replace': bad samples are found one by one" in explanation


def test_a_copy_of_a_loader_has_its_arguments_and_counts_anew() -> None:
    loader = fastload.DataLoader(DATASET, on_error="replace", substitutes="all", max_errors=0.5, ledger=Path("a.jsonl"))
    copy = pickle.loads(pickle.dumps(loader))
    for name in ("on_error", "substitutes", "retries", "max_errors", "ledger"):
        assert getattr(copy, name) == getattr(loader, name)
    assert [len(batch[0]) for batch in copy] == [1] * 10
