"""The benchmark of a GPU: figures of given timings, whole runs on the host, and its messages without a GPU."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_cuda import FakeDevice
from image_folders import make_clean_folder

pytest.importorskip("tabulate", reason="benchmarks/requirements.txt is not installed")

from benchmarks import _gpu_report, _gpu_training, gpu
from benchmarks._gpu_turns import Copies, Turn, gigabytes_per_second, take_turn
from fastload._delivery._batch_memory import StagedMemory

ROOT = Path(__file__).resolve().parents[2]


class HostMachine:
    """The processor instead of a GPU, and copies to a fake GPU."""

    device = "cpu"

    def __init__(self) -> None:
        self._fake = FakeDevice()

    def mark(self) -> float:
        return time.perf_counter()

    def milliseconds(self, begin: float, end: float) -> float:
        return 1000 * (end - begin)

    def wait(self) -> None:
        self._fake.gpu.synchronize(self._fake.copy_stream)

    def staging_device(self) -> FakeDevice:
        return self._fake

    def describe(self) -> dict[str, Any]:
        return {"gpu": "none"}


class ScriptedClock:
    """Shows the milliseconds that a test says have passed on the device."""

    def __init__(self) -> None:
        self.now = 0.0

    def mark(self) -> float:
        return self.now

    def milliseconds(self, begin: float, end: float) -> float:
        return end - begin

    def wait(self) -> None:
        self.now += 1000  # nothing measured may come after it


def turns(*speeds: float) -> list[Turn]:
    """Returns rounds of so many images a second, in which the device waited a tenth and the host a fifth."""
    return [Turn(1000, 1e6 / speed, 1e5 / speed, 2e5 / speed) for speed in speeds]


def findings(**changed: Any) -> _gpu_training.GpuFindings:
    values = {
        "compared_images": 1024,
        "batch_bytes": 38_535_168,
        "copies": {"plain": [50.0, 40.0, 60.0], "staged": [49.0, 39.6, 30.0]},
        "alone": {"torch": turns(2500, 2500, 2500), "fastload": turns(9000, 8000, 8500)},
        "training": {
            "resnet18": {
                "resident": turns(5000, 4000, 5000),
                "torch": turns(2500, 2000, 2500),
                "fastload": turns(4950, 3960, 4000),
            }
        },
    }
    return _gpu_training.GpuFindings(**{**values, **changed})


# ---- figures of given timings ----------------------------------------------------------------------------------------


def test_a_turn_times_the_steps_behind_the_warm_ones_and_tells_waits_from_work() -> None:
    clock = ScriptedClock()

    def batches() -> Iterator[Any]:
        for number in itertools.count():
            clock.now += 500 if number < 3 else 3
            yield torch.zeros(8, 3), torch.zeros(8)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        clock.now += 7

    turn = take_turn(clock, batches(), step, warm_steps=3, steps=5)
    assert (turn.images, turn.milliseconds, turn.device_wait_ms) == (40, 50.0, 15.0)
    assert (turn.images_per_second, turn.device_wait_share) == (800.0, 0.3)
    assert 0 < turn.host_wait_ms < 1000


def test_what_the_host_spends_in_getting_a_batch_is_its_wait_and_a_step_is_not() -> None:
    def batches() -> Iterator[Any]:
        while True:
            time.sleep(0.02)
            yield torch.zeros(1), torch.zeros(1)

    turn = take_turn(HostMachine(), batches(), lambda *_: time.sleep(0.03), warm_steps=1, steps=4)
    assert turn.milliseconds >= 200
    assert 80 <= turn.host_wait_ms <= turn.milliseconds - 120


def test_idle_is_what_is_missing_to_the_resident_batch_of_the_same_round() -> None:
    idle = _gpu_report.idle_shares(turns(4950, 4000, 5100), turns(5000, 5000, 5000))
    assert idle == pytest.approx([0.01, 0.2, 0.0])


def test_kinds_of_copies_take_turns_and_the_first_round_is_not_timed() -> None:
    class Scripted:
        batch_bytes = 10**9

        def __init__(self) -> None:
            self.asked: list[str] = []

        def milliseconds(self, kind: str) -> float:
            self.asked.append(kind)
            return {"plain": 100.0, "staged": 125.0}[kind] * (10 if len(self.asked) <= 2 else 1)

    copies = Scripted()
    found = gigabytes_per_second(copies, num_batches=5, rounds=3)  # type: ignore[arg-type]
    assert found == {"plain": [50.0] * 3, "staged": [40.0] * 3}
    assert copies.asked == ["plain", "staged"] * 4


def test_the_record_has_medians_of_rounds_and_every_round() -> None:
    record = _gpu_report.make_record(findings(), {"settings": {"workers": 16}})
    assert record["settings"] == {"workers": 16}
    assert record["copies"]["share_of_plain"] == 0.98
    ours = record["training"]["resnet18"]["fastload"]
    assert ours["images_per_second"] == {"median": 4000, "min": 3960, "max": 4950}
    assert ours["idle_share"]["median"] == pytest.approx(0.01)
    assert ours["ratio_to_torch"] == pytest.approx(1.98)
    assert (ours["device_wait_share"]["median"], ours["host_wait_share"]["median"]) == pytest.approx((0.1, 0.2))
    assert len(ours["rounds"]) == 3
    assert json.loads(json.dumps(record)) == record


def test_the_tables_show_every_loader_and_the_goals_beside_the_figures() -> None:
    text = _gpu_report.format_tables(_gpu_report.make_record(findings(), {}))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "1024 images of both loaders compared: equal, byte for byte"
    assert "staged 38.5 39.60 (30.00 to 49.00)" in lines
    assert "no model fastload 8500 (8000 to 9000)" in lines
    assert "resnet18 torch 2500 (2000 to 2500) 1.00x 50.0 % 10.0 % 20.0 %" in lines
    assert "resnet18 fastload 4000 (3960 to 4950) 1.98x 1.0 % 10.0 % 20.0 %" in lines
    assert lines[-3:] == [
        "copies: 98.0 % of the plain copy (goal: 95% or more): met",
        "resnet18, idle: 1.0 %; the host can supply it: 8500 images/s alone, the model 5000 "
        "(goal: less than 2% where the host can supply): met",
        "resnet18, speed: 1.98x torch's loader (goal: 1.00x or more): met",
    ]


def test_a_goal_that_is_missed_or_does_not_apply_says_so() -> None:
    slow = {"resident": turns(5000), "torch": turns(4900), "fastload": turns(4800)}
    copies = {"plain": [50.0], "staged": [40.0]}
    for supply, verdict in ((9000, "MISSED"), (4800, "does not apply")):
        alone = {"torch": turns(5000), "fastload": turns(supply)}
        found = findings(alone=alone, copies=copies, training={"resnet50": slow})
        goals = _gpu_report.goals(_gpu_report.make_record(found, {}))
        assert [line.rpartition(": ")[2] for line in goals] == ["MISSED", verdict, "MISSED"]
    assert "the host cannot supply it: 4800 images/s alone, the model 5000" in goals[1]


# ---- runs without a GPU ----------------------------------------------------------------------------------------------


def test_staged_copies_are_the_loaders_own_and_their_slots_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = HostMachine()
    copies = Copies(machine, machine.staging_device(), batch_size=2, num_batches=3)
    assert copies.batch_bytes == 2 * (3 * 224 * 224 + 8)
    copies.milliseconds("staged")
    slab = copies._memory._slab
    assert slab is not None
    slab.random_(0, 256)
    arrived: list[bytes] = []
    deliver = StagedMemory.deliver

    def deliver_and_keep(memory: StagedMemory, placed: Any, number: int) -> Any:
        images, labels = deliver(memory, placed, number)
        arrived.append(images[0].permute(0, 2, 3, 1).numpy().tobytes())
        return images, labels

    monkeypatch.setattr(StagedMemory, "deliver", deliver_and_keep)
    for _ in range(3):  # with as many slots as batches, the next round hangs unless they come back
        copies.milliseconds("staged")
        copies.milliseconds("plain")
    sent = slab.view(3, -1)[:, : 2 * 3 * 224 * 224].contiguous()
    assert sorted(arrived) == sorted(slot.numpy().tobytes() for slot in sent for _ in range(3))


def test_the_table_of_the_page_is_that_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--page", str(ROOT / "benchmarks" / "results" / "h200-first-epoch.json")]) == 0
    assert capsys.readouterr().out in (ROOT / "docs" / "device.md").read_text()


def tiny_model(name: str, num_classes: int) -> torch.nn.Module:
    assert (name, num_classes) == ("tiny", 3)
    pooled = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
    return torch.nn.Sequential(pooled, torch.nn.Linear(48, num_classes))


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the arguments of a run in seconds."""
    monkeypatch.setattr(_gpu_training, "make_model", tiny_model)
    data = make_clean_folder(tmp_path / "data", 6)
    sizes = ["--batch-size", "2", "--workers", "1", "--seconds", "0.01", "--rounds", "2", "--models", "tiny"]
    return ["--data", str(data), "--json", str(tmp_path / "gpu.json"), *sizes]


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_a_whole_run_compares_times_and_writes_its_record(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_cached: bool,
) -> None:
    caches: set[str | None] = set()
    open_loader = _gpu_training.open_loader

    def opened(loader_class: Any, *others: Any, **options: Any) -> Any:
        caches.update({options["cache"]} if "cache" in options else ())
        return open_loader(loader_class, *others, **options)

    monkeypatch.setattr(_gpu_training, "open_loader", opened)
    assert gpu.main(arguments if is_cached else [*arguments, "--no-cache"], HostMachine()) == 0
    shown = capsys.readouterr().out
    record = json.loads((tmp_path / "gpu.json").read_text())
    assert "8 images of both loaders compared: equal, byte for byte" in shown
    assert shown.rstrip().endswith("written: " + str(tmp_path / "gpu.json"))
    assert record["data"] == "own folder data"
    assert record["settings"]["rounds"] == 2
    assert {record["settings"]["cache"]} == caches == {"auto" if is_cached else None}
    assert {name: len(found["rounds"]) for name, found in record["training"]["tiny"].items()} == {
        "torch": 2,
        "fastload": 2,
        "resident": 2,
    }
    steps = {found["images"] for name in record["training"]["tiny"].values() for found in name["rounds"]}
    assert len(steps) == 1
    assert list(record["alone"]) == ["torch", "fastload"]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_loaders_whose_batches_differ_are_not_timed(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    open_all = _gpu_training._open

    def one_bit_off(*of_loaders: Any) -> Any:
        sources = dict(open_all(*of_loaders))
        ours = sources["fastload"]._loader
        flipped = [(images.view(torch.int32).bitwise_xor(1).view(torch.float32), labels) for images, labels in ours]
        return {**sources, "fastload": _gpu_training.Source(flipped, tuple)}

    monkeypatch.setattr(_gpu_training, "_open", one_bit_off)
    assert gpu.main(arguments, HostMachine()) == 2
    assert "differ from those that torch's DataLoader gives" in capsys.readouterr().err
    assert not (tmp_path / "gpu.json").exists()


def run_make(goal: str, python: str, *settings: str) -> subprocess.CompletedProcess[str]:
    # Without the variables that the make which runs the tests passes on.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", goal, f"PYTHON={python}", *settings]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
class TestMakeWhereThereIsAGpu:
    TESTS = "tests/device tests/loader tests/examples/test_cuda_op_in_dataset.py tests/oracle/test_device_decode.py"

    @pytest.fixture
    def python(self, tmp_path: Path) -> str:
        """Writes an interpreter that finds a GPU, does nothing, and fails if its arguments end in FAIL."""
        script = tmp_path / "python"
        script.write_text('#!/bin/sh\necho "ran $*"\ncase "$*" in *FAIL) exit 5 ;; esac\n')
        script.chmod(0o755)
        return str(script)

    def test_it_builds_runs_the_tests_and_runs_those_of_order_again(self, python: str) -> None:
        result = run_make("test-gpu", python, "ARGS=-k a,b")
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines() == [
            "ran -m benchmarks._gpu_machine",
            "ran setup.py --quiet build_ext --inplace",
            f"ran -m pytest -m gpu {self.TESTS} -k a,b",
            "ran -m pytest -m gpu tests/device/test_on_gpu.py tests/loader/test_device_order.py -k a,b",
        ]

    def test_a_failure_ends_it(self, python: str) -> None:
        result = run_make("test-gpu", python, "ARGS=FAIL")
        assert result.returncode != 0
        assert result.stdout.splitlines()[-1] == f"ran -m pytest -m gpu {self.TESTS} FAIL"

    @pytest.mark.parametrize("theirs", [None, "/their/modules"])
    def test_what_the_tests_start_finds_the_package_that_is_not_installed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str | None
    ) -> None:
        script = tmp_path / "python"
        script.write_text('#!/bin/sh\ncase "$*" in *pytest*) echo "$PYTHONPATH" ;; esac\n')
        script.chmod(0o755)
        monkeypatch.delenv("PYTHONPATH", raising=False)
        if theirs is not None:
            monkeypatch.setenv("PYTHONPATH", theirs)
        result = run_make("test-gpu", str(script))
        assert result.stdout.splitlines() == [os.pathsep.join(filter(None, [str(ROOT), theirs]))] * 2

    def test_the_benchmark_gets_the_users_folder(self, python: str) -> None:
        result = run_make("bench-gpu", python, "DATA=my images", "ARGS=--quick")
        assert result.stdout.splitlines()[-1] == "ran -m benchmarks.gpu --data my images --quick"


class TestARunThatCannotBe:
    OPTIONS = gpu.parse_arguments(["--workers", "16", "--batch-size", "256", "--prefetch-factor", "4"])

    def test_shared_memory_too_small_for_torchs_loader_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        free = 16 * 4 * 256 * (3 * 224 * 224 * 4 + 8)
        monkeypatch.setattr(gpu.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
        assert gpu.why_not_measured(self.OPTIONS) is None
        monkeypatch.setattr(gpu.shutil, "disk_usage", lambda path: SimpleNamespace(free=2**26))
        problem = gpu.why_not_measured(self.OPTIONS)
        assert problem.startswith("error: torch's loader holds up to 9.2 GiB of batches in /dev/shm, where 0.1 GiB are")
        assert "\n" not in problem

    def test_a_missing_package_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None)
        assert gpu.why_not_measured(self.OPTIONS).endswith("-m pip install tabulate")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
class TestWithoutAGpu:
    def test_the_benchmark_says_so_in_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert gpu.main([]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("no GPU is tested or measured: ")

    @pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
    @pytest.mark.parametrize("goal", ["test-gpu", "bench-gpu"])
    def test_make_says_so_in_one_line_and_builds_nothing(self, goal: str) -> None:
        result = run_make(goal, sys.executable)
        assert result.returncode == 0, result.stderr
        (line,) = result.stdout.splitlines()
        assert line.startswith("no GPU is tested or measured: ")
        assert result.stderr == ""

    @pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
    def test_an_interpreter_that_is_not_there_is_an_error_and_no_missing_gpu(self) -> None:
        result = run_make("test-gpu", "no-such-python")
        assert result.returncode != 0
        assert "no-such-python" in result.stderr
