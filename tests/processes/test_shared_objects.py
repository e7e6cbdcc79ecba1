"""Workers that share a data set's objects: the product's C++ and Python files built alone for Python 3.12 and newer."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from fastload._iteration.processes import _start

FOLDER = Path(__file__).resolve().parent
CSRC = FOLDER.parents[1] / "csrc"
SOURCES = [
    *(CSRC / "python" / f"{name}.cpp" for name in ("immortal_objects", "large_containers", "sharable_types")),
    *(CSRC / "python" / "worker_forks.cpp", CSRC / "base" / "mapping.cpp", FOLDER / "shared_objects_module.cpp"),
]
DESCRIBE = "import sysconfig as s; print(s.get_path('include'), s.get_config_var('Py_GIL_DISABLED') or 0)"


def find_python(version: str) -> tuple[str, Path]:
    """Returns a Python of a version and the folder of its headers; skips the test if there is none with a GIL."""
    others = sorted(
        Path(sys.base_prefix).parent.glob(f"*{version}*/bin/python{version}")
    )  # where pyenv and uv have them
    for python in filter(None, [shutil.which(f"python{version}"), *map(str, others)]):
        described = subprocess.run([python, "-c", DESCRIBE], capture_output=True, text=True)
        headers, _, has_no_gil = described.stdout.strip().rpartition(" ")
        if has_no_gil == "0" and Path(headers, "Python.h").exists():
            return python, Path(headers)
    pytest.skip(f"there is no Python {version} with headers and a GIL")


@functools.cache
def build(version: str, parent: Path) -> tuple[str, Path]:
    """Returns a Python and the folder of the extension for it."""
    python, headers = find_python(version)
    folder = parent / version
    folder.mkdir()
    compiler = os.environ.get("CXX", "c++").split()
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", "-Wl,--wrap=fork,--wrap=_exit", f"-I{headers}", f"-I{CSRC}"]
    warned = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *flags, *warned, *SOURCES, "-o", folder / "shared_objects.so"], check=True)
    return python, folder


@pytest.fixture(params=["3.12", "3.13", "3.14"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Returns a function that runs one of sharing_programs.py and returns its output."""
    python, folder = build(request.param, tmp_path_factory.getbasetemp())

    def run_program(*arguments: str) -> str:
        command = [python, FOLDER / "sharing_programs.py", folder, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run_program


KINDS = ["pairs", "nested", "text", "dataclasses", "slots", "named tuples", "ordered", "sets", "deques", "elements"]


@pytest.mark.alone
@pytest.mark.parametrize(
    "kind", ["pairs", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*KINDS[1:], "coco"])]
)
def test_eight_workers_that_read_everything_take_two_data_sets(run, kind: str) -> None:
    assert json.loads(run("measure", kind, "shared"))["data sets"] < 2.2


@pytest.mark.alone
@pytest.mark.weekly
@pytest.mark.parametrize("kind", ["pairs", "nested"])
def test_workers_started_one_by_one_take_as_much_as_estimated(run, kind: str) -> None:
    found = json.loads(run("measure", kind, "plain"))
    assert found["data sets"] > 5
    assert found["estimated"] == pytest.approx((found["data sets"] - 1) / 8, rel=0.4)


SEEN = ["finalizers", "files", "weak references", "collect", "copy_all", "change", "describe_process"]


@pytest.mark.parametrize("name", SEEN)
def test_workers_see_the_same_as_workers_started_one_by_one(run, name: str) -> None:
    assert run("see", name, "shared") == run("see", name, "plain")


PROGRAMS = ["fail_at_every_fork", "kill_makers", "end_in_every_way", "count_by_the_old_abi", "start_in_three_threads"]
SLOW_PROGRAMS = ["keep_counts", "reap_everything", "interrupt_starts"]


@pytest.mark.parametrize("name", [*PROGRAMS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_PROGRAMS)])
def test_program_ends_without_a_complaint(run, name: str) -> None:
    run(name)


class Counted:
    """A data set whose methods count their calls."""

    calls = 0

    def __init__(self) -> None:
        self.samples = [(f"{i}.jpg", i + 1000) for i in range(300_000)]

    def __getattr__(self, name: str) -> int:
        Counted.calls += 1
        raise AttributeError(name)

    def __len__(self) -> int:
        return self.__getattr__("length")


def test_an_estimate_calls_nothing_and_takes_milliseconds() -> None:
    dataset = Counted()
    begin = time.perf_counter()
    estimated = _start.copied_mib((dataset, len, None))
    assert time.perf_counter() - begin < 0.2
    expected = 300_000 * (sys.getsizeof(dataset.samples[0]) + 16 + 60 + 32)
    assert estimated == pytest.approx(expected / 2**20, rel=0.2)
    assert Counted.calls == 0


def test_the_reason_for_copies_names_what_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    roots = (Counted(),)
    fork, spawn = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
    assert _start.why_not_shared(([1] * 1000,), 4, fork) is None
    assert _start.why_not_shared(roots, 0, fork) is None
    assert "a single worker" in str(_start.why_not_shared(roots, 1, fork))
    if sys.version_info < (3, 12):
        assert "only Python 3.12" in str(_start.why_not_shared(roots, 4, fork))
    monkeypatch.setattr(_start, "sharing_obstacle", lambda: None)
    assert _start.why_not_shared(roots, 4, fork) is None
    assert "not SpawnProcess" in str(_start.why_not_shared(roots, 4, spawn))
    monkeypatch.setattr(os, "fork", lambda: 0)
    assert "gevent" in str(_start.why_not_shared(roots, 4, fork))


def refuse(process: multiprocessing.Process) -> None:
    raise BlockingIOError


def test_all_started_processes_end_if_one_cannot_be_started() -> None:
    processes = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)) for _ in range(3)]
    processes[2]._Popen = refuse
    with pytest.raises(BlockingIOError):
        _start.start_workers(processes, ())
    assert [process.exitcode for process in processes[:2]] == [-9, -9]


def test_a_failure_to_share_is_told_once_and_workers_are_started_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_start, "sharing_obstacle", lambda: None)
    monkeypatch.setattr(_start, "fork_workers", lambda *_: "memory ran out")
    processes = [multiprocessing.get_context("fork").Process(target=int) for _ in range(2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _start.start_workers(processes, (Counted(),))
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    messages = [str(one.message) for one in caught if one.category is RuntimeWarning]
    assert len(messages) == 1
    assert "could not be shared (memory ran out)" in messages[0]
