"""The causes that fastload.doctor finds in measurements, and the machine, files and thread pools that it sees."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fastload._tools.doctor._diagnosis import Evidence, Limits, find_cause, remarks
from fastload._tools.doctor._machine import Storage, examine_machine, examine_storage, find_pools, pools_of_one_thread
from fastload._tools.doctor._measure import Measured

READ_MOSTLY = {"read": 0.009, "decode": 0.001}
DECODE = {"read": 0.0001, "decode": 0.0099}
DATASET = {"dataset": 0.0099, "collate": 0.0001}
COLLATE = {"dataset": 0.0001, "collate": 0.0099}


def measured(rate: float, workers: int, stages: Mapping[str, float], **others: Any) -> Measured:
    """Makes measurements of batches of 10 samples, each of 10 ms of CPU time unless `others` differ."""
    values: dict[str, Any] = {
        **{"workers": "threads", "num_workers": workers, "samples_per_second": rate, "samples_per_batch": 10.0},
        **{"cpu_seconds": 0.01, "stage_seconds": stages, "gil_held_share": 0.0, "pool_share": 0.0},
        **{"busy_elsewhere": 0.0, "bytes_held": 0, "result": None},
    }
    return Measured(**{**values, **others})


def evidence(
    now: Measured,
    one: Measured | None = None,
    several: Measured | None = None,
    *,
    step: float | None = None,
    processors: float = 4,
    **others: Any,
) -> Evidence:
    one = now if one is None else one
    return Evidence(now, one, several, processors, step, **{"sampler_seconds": 0.0, "is_native": True, **others})


BUSY_GIL = measured(110, 2, DATASET, gil_held_share=0.9)
BUSY_COLLATE = measured(110, 2, COLLATE, gil_held_share=0.9)
PROCESSES = {"workers": "processes", "num_workers": 2}
# Name -> the evidence, and what is found: the cause, a part of the sentence, the arguments to change.
CASES: dict[str, tuple[Evidence, str, str, dict[str, Any] | None]] = {
    "a step that is longer than a batch takes": (
        evidence(measured(400, 4, DECODE), measured(100, 1, DECODE), step=0.1),
        *("training step", "it takes 100 ms, and the loader could give a batch every 25.0 ms", None),
    ),
    "one thread where there are four processors": (
        evidence(measured(100, 1, DECODE)),
        *("too few workers", "1 worker is too few: each keeps one processor busy, and 100 of about 400 possible"),
        {"num_workers": 4},
    ),
    "no thread": (
        evidence(measured(90, 0, DECODE), measured(100, 1, DECODE)),
        *("too few workers", "There is no worker: each keeps one", {"num_workers": 4}),
    ),
    "as many threads as the step needs": (
        evidence(measured(100, 1, DECODE), step=0.05),
        *("too few workers", "100 of about 200 possible", {"num_workers": 2}),
    ),
    "threads that wait for a disk": (
        evidence(measured(200, 2, READ_MOSTLY, cpu_seconds=0.001), measured(100, 1, READ_MOSTLY, cpu_seconds=0.001)),
        *("storage", "reading a file takes 9.00 ms, most of their time, and 200 of about 1,129 ", {"num_workers": 64}),
    ),
    "a data set that waits": (
        evidence(measured(100, 1, DATASET, cpu_seconds=0.001), several=measured(200, 2, DATASET, cpu_seconds=0.001)),
        *("data set waits", "a sample waits 9.90 ms for files or a network, and 100 of about 4,000 "),
        {"num_workers": 40},
    ),
    "two threads with one GIL": (
        evidence(BUSY_GIL, measured(100, 1, DATASET), BUSY_GIL),
        *("GIL", "held 90.0 % of the time, and the data set's own Python takes 99.0 %", PROCESSES),
    ),
    "one thread that more would not help": (
        *(evidence(measured(100, 1, DATASET), several=BUSY_GIL), "GIL", "The GIL limits", PROCESSES),
    ),
    "a collate_fn that holds the GIL": (
        evidence(BUSY_COLLATE, measured(100, 1, COLLATE), BUSY_GIL),
        *("GIL", "held 90.0 % of the time, and collate_fn takes 99.0 %", PROCESSES),
    ),
    "a collate_fn on processors that are all busy": (
        evidence(measured(390, 4, COLLATE), measured(100, 1, COLLATE)),
        *("processors", "all are busy, 99.0 % of the time with collate_fn", None),
    ),
    "a sampler that takes longer than a batch": (
        evidence(measured(100, 4, DECODE), measured(100, 1, DECODE), sampler_seconds=0.09),
        *("sampler", "the indices of a batch take 90.0 ms, and a batch comes every 100 ms", None),
    ),
    "thread pools": (
        evidence(measured(100, 4, DATASET, pool_share=0.6), measured(100, 1, DATASET), pools={"OpenCV": "one()"}),
        *("library threads", "the pools of OpenCV take 60.0 % of the CPU time, beside 4 worker threads", None),
    ),
    "fewer samples than all parts allow": (
        *(evidence(measured(250, 4, DECODE), measured(100, 1, DECODE)), "nothing", "250 of about 400 samples/s", None),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_named_with_the_change(name: str) -> None:
    given, cause, text, arguments = CASES[name]
    finding = find_cause(given)
    assert (finding.cause, finding.arguments) == (cause, arguments)
    assert text in finding.sentence
    assert finding.sentence.endswith(".")
    assert bool(finding.change) == (arguments is not None or cause in ("sampler", "library threads"))


def test_busy_processors_get_the_advice_of_explain() -> None:
    given = evidence(measured(390, 4, DECODE), measured(100, 1, DECODE), is_native=False)
    finding = find_cause(given)
    assert finding.sentence == "The processors limit: all are busy, 99.0 % of the time with decoding."
    assert (finding.cause, finding.arguments, finding.change) == ("processors", None, "see explain()")
    assert find_cause(replace(given, is_native=True)).change == ""
    assert find_cause(replace(given, advice=("one", "two"))).change == "one; two"


def test_workers_are_as_many_as_reach_the_next_limit() -> None:
    limits = Limits(of_one=100, of_processors=350, of_gil=float("inf"), of_step=float("inf"))
    assert limits.enough_workers(64) == 4
    assert limits.enough_workers(3) == 3
    assert replace(limits, of_step=120).enough_workers(64) == 2
    assert replace(limits, of_gil=90).enough_workers(64) == 1


def test_files_are_read_several_at_a_time() -> None:
    limits = Limits(of_one=85, of_processors=350, of_gil=float("inf"), of_step=float("inf"), waits_for_files=True)
    assert [limits.of_workers(number) for number in (1, 2, 3, 4, 8)] == [85, 130, 195, 260, 350]
    assert limits.enough_workers(64) == 6


def test_memory_and_other_programs_are_remarked_on() -> None:
    assert list(remarks(measured(100, 1, DECODE, bytes_held=10), 1000)) == []
    found = list(remarks(measured(100, 1, DECODE, bytes_held=500, busy_elsewhere=1.25), 1000))
    assert found == [
        "other programs use 1.2 of the processors",
        "batches in flight hold 500 bytes of 1.00 kB of free memory: prefetch_factor=1, or smaller batches",
    ]


def test_the_machine_is_what_its_control_group_leaves(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:  8000 kB\nMemFree: 1 kB\nMemAvailable:   6000 kB\n")
    machine = examine_machine(tmp_path)
    assert (machine.memory_bytes, machine.free_bytes) == (8192000, 6144000)
    assert machine.processors == machine.available
    (tmp_path / "sys" / "fs" / "cgroup").mkdir(parents=True)
    (tmp_path / "sys" / "fs" / "cgroup" / "memory.max").write_text("4096000\n")
    (tmp_path / "sys" / "fs" / "cgroup" / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/\n")
    machine = examine_machine(tmp_path)
    assert (machine.memory_bytes, machine.free_bytes, machine.processors) == (4096000, 4096000, 0.5)
    rows = list(machine.rows())
    assert rows[0][2:] == (f"{machine.available}, 0.5 of them by control groups", "")


@pytest.mark.parametrize("is_inside", [False, True])
def test_the_files_of_a_data_set_are_read(is_inside: bool, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(40)]
    for path in paths:
        Image.new("L", (50, 50)).save(path)
    dataset = types.SimpleNamespace(samples=[(str(path), 0) for path in paths])
    if is_inside:
        dataset = types.SimpleNamespace(dataset=dataset)
    mounts = tmp_path / "proc" / "self" / "mountinfo"
    mounts.parent.mkdir(parents=True)
    lines = (("/", "first"), (tmp_path, "second"), ("/nowhere", "third"))
    mounts.write_text("".join(f"1 1 0:99 / {place} rw - {kind} none rw\n" for place, kind in lines))
    storage = examine_storage(dataset, tmp_path)
    assert (storage.files, storage.file_system) == (32, "second")
    assert storage.mean_bytes == paths[0].stat().st_size
    assert storage.cached_seconds is not None or storage.uncached_seconds is not None
    assert 0 <= storage.cached_share <= 1
    assert [row[1] for row in storage.rows()][:2] == ["files", "page cache"]


@pytest.mark.parametrize("dataset", [[1, 2, 3], iter([1]), types.SimpleNamespace(samples=[("/no/such/file", 0)])])
def test_a_data_set_without_files_has_none(dataset: Any) -> None:
    assert examine_storage(dataset) == Storage()
    assert list(Storage().rows()) == [("data", "files", "none", "that its samples name")]


def test_pools_of_opencv_are_found_and_made_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [8]
    fake: Any = types.ModuleType("cv2")
    fake.getNumThreads = lambda: threads[-1]
    fake.setNumThreads = threads.append
    monkeypatch.setitem(sys.modules, "cv2", fake)
    assert find_pools()["OpenCV"] == "cv2.setNumThreads(1)"
    with pools_of_one_thread():
        assert threads == [8, 1]
        assert "OpenCV" not in find_pools()
    assert threads == [8, 1, 8]
