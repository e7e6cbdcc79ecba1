"""``fastload cache info`` and ``verify``: what they say of a store, and the messages about wrong use."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cache_commands import OPTIONS, each_kind, files_of, flip, grouped
from wrong_records import make_wrong

import fastload
from fastload import _native

FORMAT_VERSION = 12  # offset of a byte of it in a file of records, where another version has another number


def test_info_counts_records_and_bytes_and_makes_nothing(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    before = sorted((file.name, file.stat().st_mtime_ns) for file in (folder / "store" / "v1").iterdir())
    exit_code, rows, _ = run("info", "store", "--max-bytes", "1GB")
    assert exit_code == 0
    assert re.fullmatch(r"12  records, \d\.\d\d kB in 1 file", rows["index"])
    assert "coefficients" not in rows
    assert rows["writers"] == "0  nobody keeps more now"
    used = json.loads(run("info", "store", "--json")[2])
    assert (used["records"], used["dead_bytes"], used["max_bytes"]) == (12, 40, 4 << 30)
    assert used["file_bytes"] == files_of(folder / "store")[0].stat().st_size
    assert used["used_bytes"] == sum(file.stat().st_blocks * 512 for file in (folder / "store" / "v1").iterdir())
    assert sorted((file.name, file.stat().st_mtime_ns) for file in (folder / "store" / "v1").iterdir()) == before


def test_info_of_the_default_folder_is_that_of_programs(folder: Path, run: Any) -> None:
    assert run("info")[0] == 2
    assert not (folder / "cache").exists()
    run("build", "images")
    _, _, text = run("info")
    assert text.startswith(f"fastload cache info: {fastload.Cache().path}\n")


def test_info_names_what_is_not_used_and_why(folder: Path, run: Any) -> None:
    store = folder / "store"
    for _ in range(4):
        run("build", "images", "--path", "store")
        for ending in (".dat", ".dir"):  # out of the way, so that the next one begins anew
            for file in files_of(store, ending):
                file.rename(file.parent.parent / file.name)
    for file in store.glob("index-*"):
        file.rename(store / "v1" / file.name)
    foreign, damaged, untrusted, _ = files_of(store)
    flip(foreign, FORMAT_VERSION)
    flip(damaged.with_suffix(".dir"), 100)
    untrusted.chmod(0o666)
    exit_code, rows, _ = run("info", "store")
    assert exit_code == 0
    assert rows["index"].startswith("12  ")
    assert rows["foreign"] == f"1  of another version of fastload, or another machine: {foreign.stem}"
    assert rows["damaged files"] == f"1  {damaged.stem}"
    assert rows["not believed"].endswith(untrusted.stem)
    untrusted.chmod(0o600)
    assert re.fullmatch(r"12  records, .* in 2 files", run("info", "store")[1]["index"])  # twice the same
    untrusted.chmod(0o666)
    assert run("verify", "store")[0] == 1
    removed = run("clear", "store", "--stale")[2]
    assert removed.startswith(f"fastload cache clear: 4 files removed from {store}, ")
    assert files_of(store) == sorted(set(files_of(store)) - {foreign, damaged})
    assert len(files_of(store)) == 2


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "absent"], "'absent' is neither a folder nor of the form script.py:name or package.module:name"),
        (["build", "cache"], "there is no image below cache"),
        (["build", "images", "--workers", "0"], "--workers must be auto or a positive number, got '0'"),
        (
            ["build", "images", "--max-bytes", "7 apples"],
            "--max-bytes must be a number of bytes above 0 or a size such as ",
        ),
        (
            ["build", "images", "--what", "coefficients"],
            "--max-bytes must be given with --what coefficients, which takes about 1.7 times the bytes of the images\n",
        ),
        (["build", "images", "--max-bytes", "1000"], "--max-bytes must be at least 1 MiB (1.05 MB), got "),
        (["build", "images", "--path", "train.py"], "the store in {folder}/train.py cannot be used: it is a file"),
        (
            ["build", "train.py:own"],
            "which files train.py:own reads is not known: the data set is train.Own (native: torchvision.datasets.",
        ),
        (["info", "store"], "there is no store in {folder}/store: "),
        (["verify", "train.py"], "the store in {folder}/train.py cannot be used: it is a file"),
        (["clear", "store", "--stale"], "there is no store in {folder}/store: "),
    ],
)
def test_wrong_use_is_one_line(folder: Path, run: Any, arguments: list[str], message: str) -> None:
    (folder / "cache").mkdir()
    exit_code, _, text = run(*arguments)
    assert exit_code == 2
    assert text.startswith(f"fastload cache: error: {message.format(folder=folder)}")
    assert text.count("\n") == 1


def test_a_data_set_of_ones_own_is_told_what_to_name(folder: Path, run: Any) -> None:
    assert run("build", "train.py:own")[2].endswith("Name the folder that they are in instead of the loader\n")


def test_a_store_whose_key_is_damaged_says_how_to_remove_it(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    (folder / "store" / "v1" / "key").write_bytes(b"short")
    exit_code, _, text = run("build", "images", "--path", "store")
    assert exit_code == 2
    assert text.endswith('its file v1/key is damaged: remove the store, by "fastload cache clear"\n')
    assert run("clear", "store")[0] == 0
    assert run("build", "images", "--path", "store")[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of others")
def test_a_folder_of_another_user_is_not_believed(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    os.chown(folder / "store", 65534, -1)
    for command in (["info", "store"], ["verify", "store"], ["build", "images", "--path", "store"]):
        exit_code, _, text = run(*command)
        assert exit_code == 2
        assert "cannot be used: it belongs to " in text
    assert run("clear", "store", "--stale")[0] == 2
    assert run("clear", "store")[0] == 0
