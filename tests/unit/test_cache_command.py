"""``fastload cache``: stores made, shown, checked and removed; exit codes, interrupts, what others do to a store."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import recipes
from flat_values import flat
from image_folders import make_clean_folder, make_mixed_folder, save_jpeg
from torchvision.datasets import ImageFolder
from wrong_records import make_wrong

import fastload
from fastload import _native
from fastload._decode_cache import _clearing, _file_records, _folder, _report
from fastload._decode_cache._builders import FileRun
from fastload.cli import main
from fastload.cli._cache import _build, _estimate, _run

NUM_FILES = 12
HOUR_NS = 3600 * 10**9
# Kind of records -> what a build of them is told.
OPTIONS = {"index": [], "coefficients": ["--what", "coefficients", "--max-bytes", "4294967296"]}
each_kind = pytest.mark.parametrize("what", OPTIONS)
FORMAT_VERSION = 12  # offset of a byte of it in a file of records, where another version has another number

SCRIPT = """
import fastload
import torch
from torch.utils.data import Dataset, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

class Own(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return index

images = ImageFolder("images")
part = torch.utils.data.DataLoader(Subset(images, [3, 1, 3]))
small = transforms.Compose([transforms.Resize(40), transforms.RandomCrop(32), transforms.ToTensor()])
cropped = torch.utils.data.DataLoader(ImageFolder("images", small), batch_size=4)
random = torch.utils.data.DataLoader(ImageFolder("images", transforms.RandomCrop(32)), batch_size=4)
pair = fastload.transforms.MultiView([small, small])
views = torch.utils.data.DataLoader(ImageFolder("images", pair), batch_size=4)
listed = torch.utils.data.DataLoader(ImageFolder("images", pair), batch_size=4, collate_fn=list)
own = fastload.DataLoader(Own())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder: 12 JPEG files in `images`, train.py, and no store yet; files pass for an hour older."""
    monkeypatch.setattr(_file_records, "CLOCK_AHEAD_NS", HOUR_NS)
    make_clean_folder(tmp_path / "images", NUM_FILES)
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.setenv("FASTLOAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("train", None)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, str], str]]:
    """Runs a command and gives its exit code, the rows of its table by their names, and all that it wrote."""

    def run_command(*arguments: str) -> tuple[int, dict[str, str], str]:
        capsys.readouterr()
        exit_code = main(["cache", *arguments])
        captured = capsys.readouterr()
        cells = [re.split(r"  +", line.strip(), maxsplit=1) for line in captured.out.splitlines() if line[:1] == " "]
        return exit_code, {row[0]: row[1] for row in cells if len(row) == 2}, captured.out + captured.err

    return run_command


def grouped(text: str) -> dict[tuple[str, str], str]:
    """The rows of a table of groups, by the names of group and row."""
    rows, group = {}, ""
    for line in text.splitlines():
        if line.startswith("  "):
            cells = re.split(r"  +", line.strip())
            if line[2] != " ":
                group = cells.pop(0)
            if cells:  # or else it is a sentence
                rows[group, cells[0]] = "  ".join(cells[1:])
    return rows


def loader(store: Path, what: Any = "index", size: int = 48) -> fastload.DataLoader[Any]:
    images = ImageFolder("images", recipes.evaluation(size + 8, size))
    cache = fastload.Cache(store, 4 << 30, what=what, spot_checks=0)
    return fastload.DataLoader(images, batch_size=4, num_workers=1, cache=cache)


def files_of(store: Path, ending: str = ".dat", what: str = "index") -> list[Path]:
    return sorted((store / "v1").glob(f"{what}-*{ending}"))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


# build


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
    cache = fastload.Cache("store", "1G", what="pixels", spot_checks=0)
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
        ("images", "pixels are those behind the first steps of a transform: name a loader, script.py:name or "),
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
    assert before[0] in [file.read_bytes() for file in files_of(store, what=what)]


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
    assert _run.record_action(builder, store)(b"a.jpg") == "kept"
    store.native.flush.assert_called_once()


def test_a_record_that_is_found_wrong_is_made_anew_and_told(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    builds = {b"images/class0/0000.JPEG": iter(["different", "kept"])}

    class Builder(_native.IndexBuilder):
        def build(self, path: bytes) -> Any:
            return next(builds.get(path, iter(["known"])))

    with mock.patch.object(_native, "IndexBuilder", Builder):
        exit_code, rows, _ = run("build", "images", "--path", "store")
    assert (exit_code, rows["made anew"]) == (0, "1  their records were wrong: images/class0/0000.JPEG")


@pytest.mark.parametrize("seconds", [0, 50])
def test_files_that_were_just_changed_have_a_row_and_their_turn_later(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setattr(_file_records, "CLOCK_AHEAD_NS", seconds * 10**9)
    exit_code, rows, text = run("build", "images", "--path", "store", *OPTIONS["coefficients"])
    assert exit_code == 1
    assert text.startswith("fastload cache build: 0 of 12 files known\n")
    assert rows["too new"] == (
        "12  changed in the last minute, or nobody knows when; the same command a minute later takes them: "
        "images/class0/0000.JPEG, images/class0/0003.JPEG, images/class0/0006.JPEG"
    )
    monkeypatch.setattr(_file_records, "CLOCK_AHEAD_NS", HOUR_NS)
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
    assert rows["not kept"].startswith("1  too large, or in the place of damaged records: ")
    run("clear", "store", "--stale")
    assert run("build", "images", "--path", "store", *OPTIONS["coefficients"])[0] == 0


@each_kind
def test_an_interrupt_publishes_what_is_there_and_the_command_goes_on_later(
    folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    has_ended = threading.Event()
    monkeypatch.setattr(FileRun, "end", mock.create_autospec(FileRun.end, side_effect=_ending(has_ended)))
    original, files = _run.record_action, iter(range(NUM_FILES))

    def interrupting(builder: Any, store: Any) -> Any:
        action = original(builder, store)

        def build(path: bytes) -> Any:
            if next(files) == 5:
                os.kill(os.getpid(), signal.SIGINT)
                assert has_ended.wait(60)
            return action(path)

        return build

    with mock.patch.object(_build, "record_action", interrupting):
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
    for begin in (48, 16, 32, 0):
        run._take(lambda path: "unread", begin)
    assert run.named("unread") == names[:3]


def test_nothing_is_read_for_nothing_behind_what_must_end() -> None:
    run = FileRun([b"a"] * 1000, [lambda path: "not kept"], must_end=lambda: True)
    run.run(lambda done, total: None)
    assert run.counts.total() < 100


def test_progress_has_the_rate_and_the_time_left() -> None:
    progress = _run.RatedProgress("building indexes", "files")
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


# info


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


# verify


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

    class Builder(_native.CoefficientBuilder):
        def compare(self, path: bytes) -> Any:
            return "different" if path.endswith(b"0003.JPEG") else super().compare(path)

    with mock.patch.object(_native, "CoefficientBuilder", Builder):
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


# clear


def test_clear_removes_the_store_and_its_folders(folder: Path, run: Any) -> None:
    for options in OPTIONS.values():
        run("build", "images", "--path", "store", *options)
    exit_code, _, text = run("clear", "store")
    assert exit_code == 0
    size = r"\d\d\d kB"
    assert re.match(
        rf"fastload cache clear: 7 files removed from {folder / 'store'}, {size}\n", text
    )  # with key and locks
    assert text.count("folder removed: ") == 2
    assert not (folder / "store").exists()
    assert (folder / "images").exists()


def test_clear_leaves_what_is_not_a_stores(folder: Path, run: Any) -> None:
    for options in OPTIONS.values():
        run("build", "images", "--path", "store", *options)
    names = ["v1/notes.txt", "v1/index-0.dat", "v1/pictures-0123456789abcdef.dat", "v2"]
    others = [folder / "store" / name for name in names]
    for other in others:
        other.write_text("mine")
    text = run("clear", "store")[2]
    assert "left: notes.txt: it is no file of a store" in text
    assert all(other.read_text() == "mine" for other in others)
    assert files_of(folder / "store") == [others[1]]
    assert files_of(folder / "store", what="coefficients") == []
    assert (folder / "store" / "v1" / "key").exists()  # who has it open goes on
    for other in others[:3]:
        other.unlink()
    assert "folder removed: " in run("clear", "store")[2]
    assert [file.name for file in (folder / "store").iterdir()] == ["v2"]


def test_clear_follows_no_link(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    (file,) = files_of(folder / "store")
    target = folder / "target"
    file.rename(target)
    file.symlink_to(target)
    assert f"left: {file.name}: " in run("clear", "store")[2]
    assert target.exists()


@each_kind
@pytest.mark.parametrize("option", [[], ["--stale"]])
def test_a_file_that_a_living_process_writes_to_is_left_and_named(
    folder: Path, run: Any, option: list[str], what: str
) -> None:
    living = loader(folder / "store", what)
    list(living)
    for store in living._fastload.cache._stores():
        assert store.native.flush(60)
    (file,) = files_of(folder / "store", what=what)
    assert run("info", "store")[1]["writers"] == "1  processes that keep more"
    flip(file, file.stat().st_size - 20 if option else 0)  # of no use to anybody, but it is somebody's
    key = (folder / "store" / "v1" / "key").read_bytes()
    text = run("clear", "store", *option)[2]
    assert f"left: {file.name}: a process that is alive writes to it" in text
    assert file.exists()
    assert file.with_suffix(".dir").exists()
    assert (folder / "store" / "v1" / "key").read_bytes() == key
    living.close()


@each_kind
def test_stale_are_remains_and_files_with_damage_but_not_the_others(folder: Path, run: Any, what: str) -> None:
    run("build", "images", "--path", "store", *OPTIONS[what])
    (good,) = files_of(folder / "store", what=what)
    save_jpeg(folder / "more" / "1.jpg", 50, 200, 150)
    run("build", "more", "--path", "store", *OPTIONS[what])
    (damaged,) = set(files_of(folder / "store", what=what)) - {good}
    flip(damaged, damaged.stat().st_size - 20)
    remains = [good.with_name(f"{what}-{'0' * 15}{number}{end}") for number, end in enumerate((".dat", ".dir", ".tmp"))]
    for remain in remains:
        remain.write_bytes(b"of a writer that was killed")
    exit_code, _, text = run("clear", "store", "--stale")
    assert exit_code == 0
    assert text.startswith("fastload cache clear: 5 files removed from ")
    assert files_of(folder / "store", what=what) == [good]
    assert run("verify", "store", "--against", "images")[0] == 0


def test_a_folder_of_another_layout_is_no_store_and_stays(folder: Path, run: Any) -> None:
    later = folder / "store" / "v2" / "index-0123456789abcdef.dat"
    later.parent.mkdir(parents=True)
    later.write_bytes(b"of a later version")
    for command in ("info", "verify", "clear"):
        exit_code, _, text = run(command, "store")
        assert exit_code == 2
        assert text == (
            f'fastload cache: error: there is no store in {folder / "store"}: "fastload cache build" makes one, and so '
            "does a loader with cache=Cache(...)\n"
        )
    assert later.exists()


def test_who_waits_for_the_lock_of_a_store_that_is_removed_gets_that_of_the_next_one(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    fd = os.open(folder / "store" / "v1", os.O_RDONLY)
    is_first, flock = iter([True, False]), _folder.fcntl.flock

    def exchanging(lock: int, operation: int) -> None:
        flock(lock, operation)
        if next(is_first):
            (folder / "store" / "v1" / "lock").unlink()

    with mock.patch.object(_folder.fcntl, "flock", exchanging), _folder.locked(fd):
        assert next(is_first, None) is None
    os.close(fd)


def test_a_writer_that_begins_meanwhile_keeps_the_folder(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    unlink = _clearing._unlink

    def unlink_and_begin(fd: int, name: str, clearing: Any) -> None:
        unlink(fd, name, clearing)
        if name == "lock":
            (folder / "store" / "v1" / "lock").touch()

    with mock.patch.object(_clearing, "_unlink", unlink_and_begin):
        assert "folder removed" not in run("clear", "store")[2]
    assert (folder / "store" / "v1" / "lock").exists()


# errors


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
            "--max-bytes must be given with --what coefficients, which takes about 1.7 times the bytes of the images: "
            "`fastload cache info --estimate FOLDER --what coefficients` says how much that is\n",
        ),
        (["build", "images", "--max-bytes", "1000"], "--max-bytes must be at least 1 MiB (1.05 MB), got "),
        (["build", "images", "--path", "train.py"], "the store in {folder}/train.py cannot be used: it is a file"),
        (
            ["build", "train.py:own"],
            "which files train.py:own reads is not known: the data set is train.Own (native: torchvision.datasets.",
        ),
        (["info", "store"], "there is no store in {folder}/store: "),
        (["info", "store", "--estimate", "images"], "--estimate looks at no store: leave out store, or --estimate"),
        (
            ["info", "store", "--what", "coefficients"],
            "--what coefficients goes with --estimate: of a store all kinds ",
        ),
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
def test_a_folder_of_another_user_is_not_believed_unless_shared(folder: Path, run: Any) -> None:
    run("build", "images", "--path", "store")
    os.chown(folder / "store", 65534, -1)
    for command in (["info", "store"], ["verify", "store"], ["build", "images", "--path", "store"]):
        exit_code, _, text = run(*command)
        assert exit_code == 2
        assert "cannot be used: it belongs to " in text
        assert run(*command, "--shared")[0] == 0
