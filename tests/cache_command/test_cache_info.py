"""What ``fastload cache info`` says of a store, and estimates of one that is not there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from cache_commands import each_kind, files_of, flip, grouped
from image_folders import save_jpeg
from wrong_records import make_wrong

import fastload
from fastload._decode_cache import _file_records
from fastload.cli._cache import _estimate

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
    assert re.fullmatch(r"12  records, .* in 2 files", run("info", "store", "--shared")[1]["index"])  # twice the same
    assert run("verify", "store")[0] == 1
    removed = run("clear", "store", "--stale")[2]
    assert removed.startswith(f"fastload cache clear: 4 files removed from {store}, ")
    assert files_of(store) == sorted(set(files_of(store)) - {foreign, damaged})
    assert len(files_of(store)) == 2


@each_kind
def test_an_estimate_is_by_a_real_loader_whose_batches_are_compared(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(_estimate, "_TURN_SECONDS", 0.02)
    monkeypatch.setattr(_estimate, "_NUM_FILES", 8)
    (folder / "images" / "broken.jpg").write_bytes(b"no image")
    arguments = ["info", "--estimate", "images", "--workers", "1", "--what", what]
    exit_code, _, text = run(*arguments, "--json")
    found = json.loads(text)
    assert exit_code == 0
    assert (found["num_files"], found["num_looked_at"], found["is_equal"]) == (13, 8, True)
    assert found["plain_rate"] > 0
    # Indexes are part of every store.
    assert list(found["kinds"]) == (["index"] if what == "index" else ["index", "coefficients"])
    for kind in found["kinds"].values():
        assert 7 <= kind["num_with_record"] <= 8
        assert kind["all_bytes"] == pytest.approx(kind["record_bytes"] * kind["num_with_record"] / 8 * 13)
        assert kind["rate"] > 0
    least, most = {"index": (0.01, 0.2), "coefficients": (1.2, 3)}[what]
    assert least < found["kinds"][what]["record_bytes"] / found["file_bytes"] < most
    exit_code, _, text = run(*arguments)
    rows = grouped(text)
    assert rows[what, "compared"] == "2 epochs  0 differences"
    assert re.fullmatch(r"[\d,]+  [\d.]+ times as fast", rows[what, "images/s"])
    assert not (folder / "cache").exists()


def test_files_that_are_too_new_are_told_in_an_estimate(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_estimate, "_TURN_SECONDS", 0.02)
    monkeypatch.setattr(_file_records, "CLOCK_AHEAD_NS", 0)
    exit_code, _, text = run("info", "--estimate", "images", "--workers", "1", "--what", "coefficients")
    assert exit_code == 0
    assert grouped(text)["coefficients", "too new"] == "12  changed in the last minute: ask again a minute later"
    assert ("index", "too new") not in grouped(text)


def test_an_estimate_without_room_says_so(folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_estimate, "_ROOM_BYTES", 1 << 20)
    monkeypatch.setattr(_estimate, "_ROOM_OF_FILES", 0)
    for seed in range(8):
        save_jpeg(folder / "images" / f"{seed}.jpg", seed, 500, 400, quality=95)
    exit_code, _, text = run("info", "--estimate", "images", "--workers", "1", "--what", "coefficients")
    assert exit_code == 2
    assert "there is no room for coefficients of 20 files in " in text


def test_an_estimate_measures_nothing_where_the_batches_differ(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = _estimate._build

    def build_wrong(files: Any, num_workers: int, cache: fastload.Cache, kind: Any) -> Any:
        built = build(files, num_workers, cache, kind)
        for path in files.paths:
            make_wrong(cache.path, Path(os.fsdecode(path)))
        return built

    monkeypatch.setattr(_estimate, "_build", build_wrong)
    exit_code, _, text = run("info", "--estimate", "images", "--workers", "1")
    assert exit_code == 1
    assert grouped(text)["index", "compared"] == "2 epochs  the batches differ"
    assert "nothing was measured, because the batches differ" in text
    assert "times as fast" not in text
