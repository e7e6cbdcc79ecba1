"""``fastload cache info``: the description of a store."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from cache_commands import files_of, flip

import fastload

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
