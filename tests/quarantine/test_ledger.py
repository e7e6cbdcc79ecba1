"""The ledger of bad samples, and the end of a run that has too many."""

from __future__ import annotations

import errno
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bad_folders import ListOfFiles, make_bad_folder
from numbered import Made
from recipes import evaluation
from torchvision import transforms

import fastload
from fastload._quarantine._quarantine import Ledger

BAD = [(1, "missing"), (2, "HTML"), (6, "truncated")]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_own", [False, True])
def test_every_bad_sample_is_noted_once_an_epoch(is_own: bool, num_workers: int, tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path / "images", 9, BAD)
    folder.transform = evaluation(72, 64)
    dataset: Any = ListOfFiles(folder, folder.transform) if is_own else folder
    ledger = tmp_path / "bad.jsonl"
    loader = fastload.DataLoader(
        dataset,
        3,
        on_error="replace",
        num_workers=num_workers,
        max_errors=1,
        ledger=ledger,
        persistent_workers=num_workers > 0,
    )
    for _ in range(2):
        assert len(list(loader)) == 3
    lines = _lines(ledger)
    found = [(line["epoch"], line["step"], line["position"], line["index"]) for line in lines]
    bad = {index for index, _ in BAD}
    of_samples = [place for place in found if 3 * place[1] + place[2] == place[3]]  # without tried substitutes
    assert of_samples == [(epoch, index // 3, index % 3, index) for epoch in range(2) for index, _ in BAD]
    for line in lines:
        assert line["index"] in bad
        assert line["substitute"] not in bad
        assert line["rank"] == 0
        assert line["path"] == folder.samples[line["index"]][0] or (is_own and line["path"] is None)
    missing = next(line for line in lines if line["index"] == 1)
    assert missing["errno"] == errno.ENOENT
    assert missing["stage"] == ("dataset" if is_own else "open")
    assert "No such file" in missing["text"]


@pytest.mark.parametrize("number", [np.int64, torch.tensor])
@pytest.mark.parametrize("is_own", [False, True])
def test_an_index_is_noted_as_a_number_whatever_the_sampler_gives(is_own: bool, number: Any, tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path / "images", 4, [(1, "HTML")])
    folder.transform = transforms.Compose([evaluation(72, 64), torch.clone])
    dataset: Any = ListOfFiles(folder, folder.transform) if is_own else folder
    ledger = tmp_path / "bad.jsonl"
    indices = [number(index) for index in range(4)]
    loader = fastload.DataLoader(dataset, 2, sampler=indices, on_error="skip", max_errors=1, ledger=ledger)
    assert [len(labels) for _, labels in loader] == [1, 2]
    assert [line["index"] for line in _lines(ledger)] == [1]


def test_a_batch_is_noted_when_it_is_handed_out(tmp_path: Path) -> None:
    folder = make_bad_folder(tmp_path / "images", 8, [(0, "HTML"), (4, "HTML")])
    folder.transform = evaluation(72, 64)
    ledger = tmp_path / "bad.jsonl"
    iterator = iter(fastload.DataLoader(folder, 2, on_error="skip", num_workers=2, max_errors=1, ledger=ledger))
    counts = []
    for _ in range(4):
        next(iterator)
        counts.append(len(_lines(ledger)))
    assert counts == [1, 1, 2, 2]


def test_each_rank_has_a_file_of_its_own(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "bad.jsonl", 3, 8).path == str(tmp_path / "bad.rank0003.jsonl")
    assert Ledger(tmp_path / "bad.jsonl", 0, 1).path == str(tmp_path / "bad.jsonl")


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 1}\n{"index": 2, "pa')
    ledger = Ledger(path)
    ledger.append([{"index": 3}])
    ledger.append([{"index": 4}])
    assert path.read_text() == '{"index": 1}\n{"index": 2, "pa\n{"index": 3}\n{"index": 4}\n'


def test_a_ledger_that_cannot_be_written_is_told_once() -> None:
    ledger = Ledger("/dev/full")
    with pytest.warns(UserWarning, match="'/dev/full' cannot be written.*No space left.*continues"):
        ledger.append([{"index": 1}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger.append([{"index": 2}])


def _nine_in_ten(index: int) -> int:
    if index % 10 == 0:
        raise KeyError(index) if index % 20 else OSError(errno.EACCES, os.strerror(errno.EACCES))
    return index


@pytest.mark.parametrize(("on_error", "max_errors"), [("replace", 0.05), ("skip", 0.0)])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_too_many_bad_samples_end_the_run(on_error: str, max_errors: float, num_workers: int) -> None:
    loader = fastload.DataLoader(
        Made(_nine_in_ten, 5000), 50, on_error=on_error, max_errors=max_errors, num_workers=num_workers
    )
    iterator = iter(loader)
    for _ in range(21):  # 20 epochs have 100 bad samples, which do not yet end the run
        next(iterator)
    with pytest.raises(fastload.TooManyErrors, match=r"105 of 1,050 samples could not be loaded \(10.00%\)") as raised:
        next(iterator)
    assert {kind for kind, _ in raised.value.kinds} == {"dataset: KeyError", "dataset: EACCES"}
    with pytest.raises(fastload.TooManyErrors):
        next(iterator)
    with pytest.raises(fastload.TooManyErrors):
        next(iter(loader))


def test_as_many_as_are_allowed_end_no_run() -> None:
    loader = fastload.DataLoader(Made(_nine_in_ten, 5000), 50, on_error="replace", max_errors=0.1)
    assert sum(len(batch) for batch in loader) == 5000
    assert loader.stats().samples_replaced == 500
