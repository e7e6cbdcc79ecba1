"""Messages of ``fastload cache`` about wrong use and about stores that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


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
