"""``fastload cache build``: the records it keeps and passes over, its messages, interrupts and errors."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cache_commands import HOUR_NS, NUM_FILES, OPTIONS, each_kind, files_of, flip, grouped, loader
from flat_values import flat
from image_folders import make_mixed_folder, save_jpeg

import fastload
from fastload import _native
from fastload._decode_cache import _build, _folder, _report
from fastload._decode_cache._build import FileRun
from fastload._display._progress import Progress


@each_kind
def test_a_loader_finds_every_record_in_its_first_epoch(folder: Path, run: Any, what: str) -> None:
    exit_code, rows, text = run("build", "images", "--path", "store", *OPTIONS[what])
    assert exit_code == 0
    assert text.startswith("fastload cache build: 12 of 12 files known\n")
    assert rows["kept"].startswith("12  in ")
    assert rows["store"].endswith(f" of at most 4.29 GB, in {folder / 'store'}")
    cached = loader(folder / "store", what)
    plain = fastload.DataLoader(cached.dataset, batch_size=4, num_workers=1, cache=None)
    assert flat(list(cached)) == flat(list(plain))
    stats = cached.stats()
    assert (stats.cache_hits, stats.cache_misses, stats.cache_mismatches) == (NUM_FILES, 0, 0)
    assert stats.cache_coefficient_hits == (NUM_FILES if what == "coefficients" else 0)


@pytest.mark.parametrize("name", ["cropped", "views"])
def test_pixels_are_built_and_verified_for_a_loader(folder: Path, run: Any, name: str) -> None:
    options = ["--what", "pixels", "--max-bytes", "1G"]
    exit_code, rows, text = run("build", f"train.py:{name}", "--path", "store", *options)
    assert exit_code == 0
    assert text.startswith("fastload cache build: 12 of 12 files known\n")
    assert rows["kept"].startswith("12  in ")
    rows = run("build", f"train.py:{name}", "--path", "store", *options)[1]
    assert (rows["known before"], rows["kept"].split()[0]) == ("12", "0")
    theirs = getattr(sys.modules["train"], name)
    cache = fastload.Cache("store", "1G", what="pixels")
    mine, plain = (
        fastload.DataLoader(theirs.dataset, batch_size=4, num_workers=2, rng="sample", seed=1, cache=setting)
        for setting in (cache, None)
    )
    assert flat(list(mine)) == flat(list(plain))
    assert mine.stats().cache_pixel_hits == NUM_FILES
    exit_code, _, text = run("verify", "store", "--against", f"train.py:{name}")
    assert (exit_code, grouped(text)["pixels", "compared"]) == (0, "12  files with a record")
    assert grouped(run("verify", "store", "--against", "images")[2])["pixels", "compared"].startswith("0  their loader")
    (data,) = files_of(folder / "store", what="pixels")
    flip(data, data.stat().st_size // 2)
    assert grouped(run("verify", "store", "--against", f"train.py:{name}")[2])["pixels", "damaged"].startswith("1  ")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("images", "pixels are the images after the first steps of a transform: name a loader, script.py:name or "),
        ("train.py:random", "no pixels of this loader are worth keeping: this transform's RandomCrop draws before the"),
        ("train.py:listed", "no pixels of this loader are worth keeping: this transform's native part does not change"),
        ("train.py:part", "no pixels of this loader are worth keeping: this transform does not change the size of"),
    ],
)
def test_pixels_are_refused_where_none_are_worth_keeping(folder: Path, run: Any, target: str, why: str) -> None:
    exit_code, _, text = run("build", target, "--path", "store", "--what", "pixels", "--max-bytes", "1G")
    assert (exit_code, text.startswith(f"fastload cache: error: {why}")) == (2, True), text


@each_kind
def test_what_is_known_is_passed_over(folder: Path, run: Any, what: str) -> None:
    assert run("build", "images", *OPTIONS[what])[0] == 0
    store = folder / "cache" / "decode"
    before = [file.read_bytes() for file in files_of(store, what=what)]
    save_jpeg(folder / "images" / "deep" / "er" / "new.JPG", 99, 200, 150)
    exit_code, rows, _ = run("build", "images", "--workers", "3", *OPTIONS[what])
    assert (exit_code, rows["known before"]) == (0, "12")
    assert rows["kept"].startswith("1  in ")
    assert any(file.read_bytes().startswith(before[0]) for file in files_of(store, what=what))


@pytest.mark.parametrize(
    ("what", "without", "kept"),
    [
        ("index", "9  progressive, with restart markers, of fewer than four rows ", "7  in "),
        ("coefficients", "6  damaged, no JPEG, or one that Pillow decodes", "10  in "),
    ],
)
def test_files_without_a_record_and_files_that_cannot_be_read_are_told_apart(
    folder: Path, run: Any, what: str, without: str, kept: str
) -> None:
    make_mixed_folder(folder / "mixed")
    gone, pipe = folder / "mixed" / "gone.jpg", folder / "mixed" / "pipe.jpg"
    gone.symlink_to("nowhere.jpg")
    os.mkfifo(pipe)
    exit_code, rows, _ = run("build", "mixed", "--path", "store", *OPTIONS[what])
    assert exit_code == 1
    assert rows[f"without {what}"].startswith(without)
    assert rows["kept"].startswith(kept)
    assert rows["unreadable"] == (
        "2  mixed/gone.jpg: No such file or directory; mixed/pipe.jpg: it is not a regular file"
    )


def test_a_folder_is_gone_through_once_whatever_links_lead_back(folder: Path, run: Any) -> None:
    (folder / "images" / "again").symlink_to(folder / "images")
    assert run("build", "images", "--path", "store")[2].startswith("fastload cache build: 12 of 12 files known\n")


@each_kind
def test_of_a_loader_the_files_that_it_reads_are_taken(folder: Path, run: Any, what: str) -> None:
    exit_code, _, text = run("build", "train.py:part", "--path", "store", *OPTIONS[what])
    assert exit_code == 0
    assert text.startswith("fastload cache build: 2 of 2 files known\n")
    reports = json.loads(run("info", "store", "--json")[2])
    assert reports["kinds"][what]["records"] == reports["records"] == 2
    known = loader(folder / "store", what)
    iterator = iter(known)
    sources = [report.source for _ in iterator for report in iterator.batch_report()]
    assert known.stats().cache_hits == 2
    assert sources.count("coefficients") == (2 if what == "coefficients" else 0)


@each_kind
def test_where_there_is_no_room_it_ends_and_says_so(folder: Path, run: Any, what: str) -> None:
    (folder / "store" / "v1").mkdir(mode=0o700, parents=True)
    (folder / "store" / "v1" / "other").write_bytes(bytes(1 << 20))
    exit_code, rows, text = run("build", "images", "--path", "store", *OPTIONS[what], "--max-bytes", "1MiB")
    assert exit_code == 1
    assert text.startswith("fastload cache build: 0 of 12 files known\n")
    assert rows["no room"] == (
        "12  its max_bytes are used up; give a larger --max-bytes than 1.05 MB, or free space on the disk"
    )


def test_a_writer_that_is_behind_is_waited_for(folder: Path) -> None:
    store = mock.Mock(**{"why_nothing_is_kept.return_value": None})
    builder = mock.Mock(**{"build.side_effect": ["not kept", "kept"]})
    assert _build.index_action(builder, store)(b"a.jpg") == "kept"
    store.native.flush.assert_called_once()


def test_a_record_that_is_found_wrong_is_made_anew_and_told(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    builds = {b"images/class0/0000.JPEG": iter(["different", "kept"])}

    builder = mock.Mock(**{"build.side_effect": lambda path: next(builds.get(path, iter(["known"])))})
    with mock.patch.object(_native, "make_index_builder", return_value=builder):
        exit_code, rows, _ = run("build", "images", "--path", "store")
    assert (exit_code, rows["made anew"]) == (0, "1  their records were wrong: images/class0/0000.JPEG")


@pytest.mark.parametrize("seconds", [0, 50])
def test_files_that_were_just_changed_have_a_row_and_their_turn_later(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", seconds * 10**9)
    exit_code, rows, text = run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    assert exit_code == 1
    assert text.startswith("fastload cache build: 0 of 12 files known\n")
    assert rows["too new"] == (
        "12  changed in the last minute, or nobody knows when; the same command a minute later takes them: "
        "images/class0/0000.JPEG, images/class0/0003.JPEG, images/class0/0006.JPEG"
    )
    monkeypatch.setattr(_build, "CLOCK_AHEAD_NS", HOUR_NS)
    exit_code, rows, _ = run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    assert (exit_code, rows["kept"].split()[0], "too new" in rows) == (0, "12", False)


def test_a_file_that_changes_has_a_new_record(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    time.sleep(1.1)  # versions of a file that are kept lie a minute apart, unless the clock is ahead
    save_jpeg(folder / "images" / "class0" / "0003.JPEG", 99, 200, 150)
    exit_code, rows, _ = run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    assert (exit_code, rows["known before"], rows["kept"].split()[0]) == (0, "11", "1")
    exit_code, _, text = run("verify", "store", "--against", "images")
    assert (exit_code, grouped(text)["coefficients", "compared"]) == (0, "12  files with a record")


def test_a_record_in_the_place_of_a_damaged_one_does_not_pass_for_kept(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    (file,) = files_of(folder / "store", what="coefficients")
    flip(file, 200)
    exit_code, rows, text = run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    assert (exit_code, rows["known before"], rows["kept"].split()[0]) == (1, "11", "0")
    assert text.startswith("fastload cache build: 11 of 12 files known\n")
    assert rows["not kept"].startswith("1  too large, or instead of damaged records: ")
    run("clear", "store", "--stale")
    assert run("build", "images", "--path", "store", *OPTIONS["coefficients"])[0] == 0


@each_kind
def test_an_interrupt_publishes_what_is_there_and_the_command_goes_on_later(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    has_ended = threading.Event()
    monkeypatch.setattr(FileRun, "end", mock.create_autospec(FileRun.end, side_effect=_ending(has_ended)))
    files = iter(range(NUM_FILES))

    def interrupting(taken: FileRun, action: Any, place: int) -> None:
        def build(path: bytes) -> Any:
            if next(files) == 5:
                os.kill(os.getpid(), signal.SIGINT)
                assert has_ended.wait(60)
            return action(path)

        take(taken, build, place)

    take = FileRun._take
    with mock.patch.object(FileRun, "_take", interrupting):
        exit_code, rows, text = run("build", "images", "--path", "store", "--workers", "1", *OPTIONS[what])
    assert exit_code == 130
    assert "interrupted: what is there is published, and the same command goes on with the rest" in text
    assert (rows["kept"].split()[0], rows["not done"]) == ("6", "6")
    exit_code, rows, _ = run("build", "images", "--path", "store", *OPTIONS[what])
    assert (exit_code, rows["known before"], rows["kept"].split()[0]) == (0, "6", "6")


def _ending(has_ended: threading.Event) -> Callable[[FileRun], None]:
    end = FileRun.end

    def ending(run: FileRun) -> None:
        end(run)
        has_ended.set()

    return ending


def test_an_error_in_a_thread_ends_all_of_them_and_comes_out(folder: Path) -> None:
    run = FileRun([b"a"] * 1000, [mock.Mock(side_effect=MemoryError("no room")), lambda path: "kept"])
    with pytest.raises(MemoryError, match="no room"):
        run.run(lambda done, total: None)


def test_the_first_files_of_an_outcome_are_named_whatever_thread_had_them() -> None:
    names = [f"{number:04}".encode() for number in range(200)]
    run = FileRun(names, [lambda path: "unread" if int(path) % 7 == 3 else "kept"] * 4)
    run.run(lambda done, total: None)
    assert run.named("unread") == [b"0003", b"0010", b"0017"]
    assert dict(run.counts) == {"unread": 29, "kept": 171}


def test_a_file_that_comes_late_is_named_where_it_stands_first() -> None:
    names = [f"{number:04}".encode() for number in range(64)]
    run = FileRun(names, [])
    for place in (48, 2, 16, 1, 0, 3):
        run._take(lambda path: "unread", place)
    assert run.named("unread") == names[:3]


def test_nothing_is_read_for_nothing_behind_what_must_end() -> None:
    run = FileRun([b"a"] * 1000, [lambda path: "not kept"], must_end=lambda: True)
    run.run(lambda done, total: None)
    assert run.counts.total() < 100


def test_progress_has_the_rate_and_the_time_left() -> None:
    progress = Progress("building indexes", "files", has_rate=True)
    progress._begin -= 100
    progress.advance(1000, 4000)
    assert re.fullmatch(
        r"fastload: building indexes: 1,000 of 4,000 files, 100 s, 10 files/s, 300 s left", progress._line()
    )


def test_a_build_writes_where_loaders_only_read(folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_folder, _report):
        monkeypatch.setattr(module, "file_system_of", lambda fd: "nfs4")
    assert run("build", "images", "--path", "store")[1]["kept"].startswith("12  in ")
    assert run("info", "store")[1]["file system"] == (
        'nfs4  of other machines: only "fastload cache build" writes, and only indexes'
    )


@pytest.mark.parametrize("file_system", ["nfs4", "fuse.sshfs"])
def test_no_coefficients_are_kept_on_other_machines(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch, file_system: str
) -> None:
    monkeypatch.setattr(_folder, "file_system_of", lambda fd: file_system)
    exit_code, _, text = run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    where = f"it is on {file_system}, and must be on a disk of this machine"
    assert (exit_code, text) == (
        2,
        f"fastload cache: error: the store in {folder / 'store'} cannot be used: {where}\n",
    )
    assert list((folder / "store").iterdir()) == []
