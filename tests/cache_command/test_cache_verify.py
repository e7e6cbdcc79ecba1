"""``fastload cache verify``: the faults that it finds in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

from cache_commands import OPTIONS, each_kind, files_of, flip, grouped
from wrong_records import make_wrong

from fastload import _native


@each_kind
def test_verify_reads_every_record(folder: Path, run: Any, what: str) -> None:
    run("build", "images", "--path", "store", *OPTIONS[what])
    exit_code, _, text = run("verify", "store")
    assert exit_code == 0
    assert grouped(text) == {(what, "records"): "12  in 1 file", (what, "damaged"): "0"}
    assert text.startswith(f"fastload cache verify: no fault in {folder / 'store'}\n")
    (file,) = files_of(folder / "store", what=what)
    flip(file, file.stat().st_size - 20)
    exit_code, _, text = run("verify", "store")
    assert (exit_code, grouped(text)[what, "damaged"]) == (1, f"1  {file.stem}")
    assert text.startswith("fastload cache verify: 1 fault in ")


def test_verify_takes_each_kind_of_records_by_itself(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    run("build", "train.py:part", "--path", "store", *OPTIONS["coefficients"])
    exit_code, _, text = run("verify", "store", "--against", "images")
    rows = grouped(text)
    assert exit_code == 0
    assert {what: rows[what, "compared"].split()[0] for what in OPTIONS} == {"index": "12", "coefficients": "2"}
    assert rows["coefficients", "without record"] == "10"
    (file,) = files_of(folder / "store", what="coefficients")
    flip(file, file.stat().st_size - 20)
    exit_code, _, text = run("verify", "store", "--against", "images")
    rows = grouped(text)
    assert exit_code == 1
    assert (rows["index", "damaged"], rows["index", "different"]) == ("0", "0")
    assert rows["coefficients", "damaged"] == f"1  {file.stem}"


def test_verify_counts_what_differs_of_each_kind(folder: Path, run: Any) -> None:
    for options in OPTIONS.values():
        run("build", "images", "--path", "store", *options)

    make = _native.make_file_record_builder

    def make_wrong_builder(**arguments: Any) -> Any:
        compare = make(**arguments).compare
        return mock.Mock(compare=lambda path: "different" if path.endswith(b"0003.JPEG") else compare(path))

    with mock.patch.object(_native, "make_file_record_builder", make_wrong_builder):
        exit_code, _, text = run("verify", "store", "--against", "images")
    rows = grouped(text)
    assert (exit_code, rows["index", "different"]) == (1, "0")
    assert rows["coefficients", "compared"] == "12  files with a record"
    assert rows["coefficients", "different"] == "1  images/class0/0003.JPEG"
    assert text.startswith("fastload cache verify: 1 fault in ")


def test_verify_makes_each_record_anew_and_compares(folder: Path, run: Any) -> None:
    run("build", "train.py:part", "--path", "store")
    exit_code, _, text = run("verify", "store", "--against", "images")
    rows = grouped(text)
    assert exit_code == 0
    assert rows["index", "compared"] == "2  files with a record"
    assert (rows["index", "different"], rows["index", "without record"]) == ("0", "10")
    make_wrong(folder / "store", folder / "images" / "class0" / "0003.JPEG")
    assert run("verify", "store")[0] == 0  # its checks hold
    exit_code, _, text = run("verify", "store", "--against", "images")
    assert (exit_code, grouped(text)["index", "different"]) == (1, "1  images/class0/0003.JPEG")
    assert f'"fastload cache clear {folder / "store"}"' in text
