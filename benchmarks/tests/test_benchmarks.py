"""The benchmark: it compares before it times, takes turns fairly, and reports what it measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("tabulate", reason="benchmarks/requirements.txt is not installed")

from benchmarks import __main__ as command
from benchmarks import _children, _compare, _harness, _process_tree, _report, contenders
from benchmarks._protocol import Batch, Hello, LoaderSettings, Memory, Round, SampleReport
from benchmarks._rows import DEFAULT_ROWS, ROW_KINDS, Row
from benchmarks._sample_set import ensure_sample_set
from benchmarks._torchvision import load_torchvision
from benchmarks.contenders._base import select_samples
from benchmarks.contenders._torch_common import pil_transform

IMAGE_COUNT = 24


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_sample_set(tmp_path_factory.mktemp("benchmarks") / "images", IMAGE_COUNT).root


@pytest.fixture
def settings(data: Path) -> LoaderSettings:
    return LoaderSettings(data=str(data), mode="eval", batch_size=8, workers=1, image_count=IMAGE_COUNT)


def evaluation_batches(count: int = 3, size: int = 8) -> list[Batch]:
    generator = np.random.default_rng(0)
    return [
        Batch(generator.random((size, 3, 4, 4), dtype=np.float32), np.arange(size, dtype=np.int64))
        for _ in range(count)
    ]


class FakeChild:
    """Answers the harness's commands from given batches and figures, and notes them in `journal`."""

    def __init__(self, name: str, batches: dict[str, list[Batch]], journal: list[str], hello: Hello) -> None:
        self._name, self._batches, self._journal, self._hello = name, batches, journal, hello
        self._epoch: Iterator[Batch] = iter([])
        self._mode = ""

    def call(self, command: str, *arguments: Any) -> Any:
        self._journal.append(f"{self._name} {command}")
        return getattr(self, command)(*arguments)

    def close(self) -> None:
        self._journal.append(f"{self._name} ended")

    def hello(self) -> Hello:
        return self._hello

    def open(self, settings: LoaderSettings) -> dict[str, Any]:
        self._mode = settings.mode
        return {"num_workers": settings.workers}

    def start(self) -> None:
        self._epoch = iter(self._batches[self._mode])

    def next(self) -> Batch | None:
        return next(self._epoch, None)

    def epoch(self) -> Round:
        return Round(IMAGE_COUNT, wall_seconds=2.0, cpu_seconds=1.2, first_batch_seconds=0.25)

    def first_batch(self) -> float:
        return 0.5

    def memory(self, settings: LoaderSettings) -> Memory:
        return Memory(100 << 20, pss_bytes=300 << 20, unmapped_shared_bytes=50 << 20, process_count=2)

    def stats(self) -> dict[str, Any]:
        return {"stage_seconds": {"decode": 2.0 * self._journal.count(f"{self._name} stats")}}


class FakeSpawner:
    """Makes fake children; `batches` maps a contender to its epochs by mode."""

    def __init__(self, batches: dict[str, dict[str, list[Batch]]], promising: Sequence[str] = ()) -> None:
        self.journal: list[str] = []
        self.started: list[str] = []
        self._batches, self._promising = batches, promising

    def __call__(self, name: str, cores: Sequence[int]) -> FakeChild:
        self.started.append(name)
        hello = Hello(None, name in self._promising, {"python": "3.11"}, {"build_info": "scalar"})
        return FakeChild(name, self._batches.get(name, {}), self.journal, hello)


def make_plan(
    settings: LoaderSettings, contenders: Sequence[str], modes: Sequence[str] = ("eval",), **changes: Any
) -> _harness.Plan:
    rows = [Row(mode, replace(settings, mode=mode), repeats=3, measures_first_batch=True) for mode in modes]
    return replace(_harness.Plan(contenders, rows, cores=(0,), memory_workers=(1, 8)), **changes)


def run_canned(settings: LoaderSettings) -> tuple[_harness.Plan, _harness.Measurements, FakeSpawner]:
    spawn = FakeSpawner({name: {"eval": evaluation_batches()} for name in ("torch_pil", "dali")})
    plan = make_plan(settings, ("torch_pil", "dali", "ffcv"))
    return plan, _harness.run(plan, spawn, log=lambda line: None, unavailable={"ffcv": "no module ffcv"}), spawn


def test_rounds_are_interleaved_after_one_warm_up_each(settings: LoaderSettings) -> None:
    _, _, spawn = run_canned(settings)
    epochs = [line for line in spawn.journal if line.endswith(" epoch")]
    assert epochs == ["torch_pil epoch", "dali epoch"] * 4


def test_comparison_comes_before_any_timing(settings: LoaderSettings) -> None:
    _, _, spawn = run_canned(settings)
    last_compared = max(i for i, line in enumerate(spawn.journal) if line.endswith(" next"))
    first_timed = min(i for i, line in enumerate(spawn.journal) if line.endswith(" epoch"))
    assert last_compared < first_timed


def test_one_differing_bit_from_a_promising_contender_stops_before_timing(settings: LoaderSettings) -> None:
    other = evaluation_batches()
    other[1].images[5, 2, 3, 1] = np.nextafter(other[1].images[5, 2, 3, 1], np.float32(2))
    batches = {"torch_pil": {"eval": evaluation_batches()}, "fastload_loader": {"eval": other}}
    spawn = FakeSpawner(batches, promising=["fastload_loader"])
    with pytest.raises(
        _compare.ResultsDiffer, match=r"batch 1: 1 of 384 values .* sample 5, channel 2, row 3, column 1"
    ):
        _harness.run(make_plan(settings, ("torch_pil", "fastload_loader")), spawn, log=lambda line: None)
    assert not [line for line in spawn.journal if line.endswith(" epoch")]
    assert spawn.journal.count("fastload_loader ended") == 1


def test_negative_zero_is_a_difference(settings: LoaderSettings) -> None:
    wanted, got = evaluation_batches(), evaluation_batches()
    wanted[0].images[0, 0, 0, 0] = 0.0
    got[0].images[0, 0, 0, 0] = -0.0
    candidate = FakeChild("c", {"eval": got}, [], Hello(None))
    with pytest.raises(_compare.ResultsDiffer):
        _compare.compare_batches("eval", "c", candidate, wanted, settings, must_be_equal=True)


@pytest.mark.parametrize("count", [2, 4])
def test_an_epoch_of_other_length_is_a_difference_without_a_promise(settings: LoaderSettings, count: int) -> None:
    candidate = FakeChild("c", {"eval": evaluation_batches(count)}, [], Hello(None))
    with pytest.raises(_compare.ResultsDiffer, match=r"images in an epoch, expected 24|more than the 24 images"):
        _compare.compare_batches("eval", "c", candidate, evaluation_batches(3), settings, must_be_equal=False)


def test_contender_without_promise_is_measured_with_its_difference(settings: LoaderSettings) -> None:
    other = evaluation_batches()
    other[2].images[0, 0, 0, 0] += 0.5
    batches = {"eval": evaluation_batches(), "train": evaluation_batches()}
    spawn = FakeSpawner({"torch_pil": batches, "dali": {**batches, "eval": other}})
    plan = make_plan(settings, ("torch_pil", "dali"), modes=("eval", "train"))
    found = _harness.run(plan, spawn, log=lambda line: None)
    evaluation, training = found.comparisons
    levels = 0.5 * 0.229 * 255  # the red channel's deviation is 0.229
    count = 24 * 3 * 4 * 4
    assert (evaluation.row, evaluation.is_equal) == ("eval", False)
    assert evaluation.max_abs_levels == pytest.approx(levels)
    assert evaluation.mean_abs_levels == pytest.approx(levels / count)
    assert evaluation.psnr_db == pytest.approx(10 * np.log10(255**2 * count / levels**2), rel=1e-5)
    assert (training.row, training.is_equal) == ("train", None)
    assert "not compared" in training.method
    assert [(timing.row, timing.contender) for timing in found.timings] == [
        ("eval", "torch_pil"),
        ("eval", "dali"),
        ("train", "torch_pil"),
        ("train", "dali"),
    ]


@pytest.mark.parametrize(("output", "dtype"), [("uint8", np.uint8), ("bfloat16", np.uint16)])
def test_outputs_are_compared_in_levels_of_their_own(settings: LoaderSettings, output: str, dtype: Any) -> None:
    """One value a level brighter: 1 where a value is a level, one part in 128 of it where bfloat16 has 8 bits."""
    one = np.array(1.0, dtype=np.float32).view(np.uint32) >> 16
    value = 200 if output == "uint8" else int(one)
    wanted = [Batch(np.full((24, 3, 4, 4), value, dtype), np.arange(24, dtype=np.int64))]
    got = [Batch(wanted[0].images.copy(), wanted[0].labels)]
    got[0].images[3, 0, 1, 1] += 1
    candidate = FakeChild("c", {"eval": got}, [], Hello(None))
    found = _compare.compare_batches("eval", "c", candidate, wanted, replace(settings, output=output), False)
    step = 1.0 if output == "uint8" else 255 * 0.229 / 128
    assert found.max_abs_levels == pytest.approx(step, rel=1e-4)
    with pytest.raises(_compare.ResultsDiffer, match=f"{np.dtype(dtype)} .* expected float32"):
        _compare.compare_batches("eval", "c", candidate, wanted, settings, must_be_equal=False)


class Failing(FakeSpawner):
    """As FakeSpawner, except for dali's timed epochs in evaluation."""

    def __call__(self, name: str, cores: Sequence[int]) -> FakeChild:
        child = super().__call__(name, cores)
        if name == "dali":
            child.epoch = lambda: self.fail(child)  # type: ignore[method-assign]
        return child

    def fail(self, child: FakeChild) -> Round:
        if child._mode == "train":
            return FakeChild.epoch(child)
        raise _children.ContenderFailed("dali", "'epoch' raised RuntimeError: no memory")


def test_contender_that_fails_is_recorded_and_the_others_go_on(settings: LoaderSettings) -> None:
    spawn = Failing({name: {"eval": evaluation_batches()} for name in ("torch_pil", "dali")})
    found = _harness.run(make_plan(settings, ("torch_pil", "dali")), spawn, log=lambda line: None)
    assert found.failed == {"dali": {"eval": "dali: 'epoch' raised RuntimeError: no memory"}}
    assert [timing.contender for timing in found.timings] == ["torch_pil"]
    assert len(found.timings[0].rounds) == 3


def test_contender_that_failed_in_one_row_takes_part_in_the_next_where_all_have_fresh_processes(
    settings: LoaderSettings,
) -> None:
    batches = {"eval": evaluation_batches(), "train": evaluation_batches()}
    spawn = Failing(dict.fromkeys(("torch_pil", "dali"), batches))
    plan = make_plan(settings, ("torch_pil", "dali"), modes=("eval", "train"), memory_workers=())
    found = _harness.run(plan, spawn, log=lambda line: None)
    assert list(found.failed["dali"]) == ["eval"]
    assert [(timing.row, timing.contender) for timing in found.timings] == [
        ("eval", "torch_pil"),
        ("train", "torch_pil"),
        ("train", "dali"),
    ]
    assert spawn.started == ["torch_pil", "dali"] * 2


def test_numbers_of_workers_of_a_row_take_turns_in_the_same_rounds(settings: LoaderSettings) -> None:
    spawn = FakeSpawner({name: {"eval": evaluation_batches()} for name in ("torch_pil", "dali")})
    plan = make_plan(settings, ("torch_pil", "dali"))
    plan = replace(plan, rows=[replace(plan.rows[0], workers=(1, 2))], memory_workers=())
    found = _harness.run(plan, spawn, log=lambda line: None)
    assert [line for line in spawn.journal if line.endswith(" epoch")] == ["torch_pil epoch", "dali epoch"] * 8
    assert [(timing.workers, timing.contender) for timing in found.timings] == [
        (1, "torch_pil"),
        (1, "dali"),
        (2, "torch_pil"),
        (2, "dali"),
    ]


def training_batches(data: Path, count: int = IMAGE_COUNT, size: int = 8) -> list[Batch]:
    """Returns an epoch as a loader that reports its crops would give it, drawn and made by torchvision."""
    load_torchvision()
    from torchvision import transforms
    from torchvision.transforms import functional

    torch.manual_seed(1)
    folders = sorted(path for path in data.iterdir() if path.is_dir())
    samples = [(path, label) for label, folder in enumerate(folders) for path in sorted(folder.iterdir())][:count]
    order = torch.randperm(count).tolist()
    batches = []
    for start in range(0, count, size):
        chosen = order[start : start + size]
        images, reports = [], []
        for index in chosen:
            image = Image.open(samples[index][0]).convert("RGB")
            top, left, height, width = transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
            crop = ("crop", left, top, width, height, 0, 0, 0, 0)
            steps: list[tuple[Any, ...]] = [crop, ("resize", 224, 224, "bilinear")]
            image = functional.resized_crop(image, top, left, height, width, [224, 224])
            if torch.rand(1) < 0.5:
                image = functional.hflip(image)
                steps.append(("hflip",))
            pipeline = pil_transform("eval").transforms[2:]
            images.append(transforms.Compose(pipeline)(image).numpy())
            reports.append(SampleReport(index, str(samples[index][0]), "native", tuple(steps)))
        labels = np.array([samples[index][1] for index in chosen], dtype=np.int64)
        batches.append(Batch(np.stack(images), labels, reports))
    return batches


def compare_training(batches: list[Batch], settings: LoaderSettings) -> _compare.Comparison:
    child = FakeChild("c", {"train": batches}, [], Hello(None))
    return _compare.compare_training("train", "c", child, replace(settings, mode="train"))


def test_reported_crops_and_flips_are_replayed_to_the_same_bytes(data: Path, settings: LoaderSettings) -> None:
    comparison = compare_training(training_batches(data), settings)
    assert comparison.is_equal is True
    assert comparison.image_count == IMAGE_COUNT
    assert comparison.sources == {"native": IMAGE_COUNT}


def shifted_crop(report: SampleReport) -> SampleReport:
    (name, left, top, width, *further), *rest = report.steps
    return replace(report, steps=((name, left, top, width - 1, *further), *rest))


def without_crop(report: SampleReport) -> SampleReport:
    return replace(report, steps=report.steps[1:])


def of_other_index(report: SampleReport) -> SampleReport:
    return replace(report, index=report.index + 1)


@pytest.mark.parametrize("change", [shifted_crop, without_crop, of_other_index])
def test_report_that_is_not_what_was_done_is_a_difference(
    data: Path, settings: LoaderSettings, change: Callable[[SampleReport], SampleReport]
) -> None:
    batches = training_batches(data)
    reports = batches[1].reports
    assert reports is not None
    reports[3] = change(reports[3])
    with pytest.raises(_compare.ResultsDiffer):
        compare_training(batches, settings)


def test_pads_of_a_crop_larger_than_the_image_are_replayed(tmp_path: Path) -> None:
    load_torchvision()
    from torchvision.transforms import functional

    image = Image.effect_noise((20, 30), 50).convert("RGB")
    image.save(tmp_path / "small.png")
    steps = (("crop", 0, 3, 20, 24, 2, 0, 2, 0),)
    got = _compare.replay(SampleReport(0, str(tmp_path / "small.png"), "native", steps))
    padded = functional.pad(image.crop((0, 3, 20, 27)), [2, 0, 2, 0])
    assert np.array_equal(got, pil_transform("eval").transforms[3](functional.to_tensor(padded)).numpy())


def test_record_survives_json_and_names_every_contender(settings: LoaderSettings, tmp_path: Path) -> None:
    plan, found, _ = run_canned(settings)
    record = _report.make_record(plan, found, {"machine": {"cpu": "test"}, "data": {"imagenet": "canned"}})
    _report.write_record(record, tmp_path / "deep" / "latest.json")
    read = json.loads((tmp_path / "deep" / "latest.json").read_text())
    assert read["contenders"]["ffcv"]["unavailable"] == "no module ffcv"
    assert read["contenders"]["dali"]["unavailable"] is None
    summary = read["timings"][1]["summary"]
    assert summary["images_per_second"] == {"median": 12.0, "min": 12.0, "max": 12.0}
    assert summary["cpu_ms_per_image"]["median"] == pytest.approx(50.0)
    assert summary["ratio_to_reference"] == 1.0
    assert read["timings"][0]["stage_ms_per_image"]["decode"] == pytest.approx(1000 * 2.0 / (3 * IMAGE_COUNT))
    assert [(row["workers"], row["added_bytes"]) for row in read["memory"]][::2] == [(1, 250 << 20), (8, 250 << 20)]
    assert read["rows"]["eval"]["repeats"] == 3
    assert str(settings.data) not in json.dumps(read)


def test_tables_tell_figures_reasons_and_settings(settings: LoaderSettings) -> None:
    plan, found, _ = run_canned(settings)
    text = _report.format_tables(_report.make_record(plan, found, {"machine": {"cpu": "test"}, "data": {}}))
    for expected in (
        "not available: no module ffcv",
        "12.0 (12.0 to 12.0)",
        "eval, 1 workers, cores [0], 3 rounds: median (min to max)",
        "num_workers=1",
        "build_info scalar",
        "decode",
    ):
        assert expected in text


def test_summary_is_the_median_with_the_extremes() -> None:
    assert _report.summarise([3.0, 1.0, 10.0]) == {"median": 3.0, "min": 1.0, "max": 10.0}


def test_chart_is_a_png_of_the_record(settings: LoaderSettings, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="benchmarks/requirements.txt is not installed")
    from benchmarks import chart

    plan, found, _ = run_canned(settings)
    record = _report.make_record(plan, found, {"machine": {"cpu": "test"}})
    _report.write_record(record, tmp_path / "latest.json")
    assert chart.main([str(tmp_path / "latest.json")]) == 0
    with Image.open(tmp_path / "latest.png") as image:
        assert image.format == "PNG"
        assert image.width > 1000
        height = image.height
    assert chart.main([str(tmp_path / "latest.json"), "--brief", "-o", str(tmp_path / "brief.png")]) == 0
    with Image.open(tmp_path / "brief.png") as image:
        assert image.format == "PNG"
        assert image.height < height


def test_every_loader_has_a_label_in_charts() -> None:
    pytest.importorskip("matplotlib", reason="benchmarks/requirements.txt is not installed")
    from benchmarks import chart

    assert sorted(chart.LABELS) == sorted(contenders.LOADERS)


def test_samples_of_a_round_are_spread_over_the_data_or_repeat_it() -> None:
    samples = [(f"{i}.jpg", i) for i in range(10)]
    assert [label for _, label in select_samples(samples, 5)] == [0, 2, 4, 6, 8]
    assert [label for _, label in select_samples(samples, 12)] == [*range(10), 0, 1]
    with pytest.raises(ValueError, match="has no images"):
        select_samples([], 5)


def test_cpu_time_counts_descendants_that_live_and_that_ended() -> None:
    pid = os.getpid()
    before = _process_tree.cpu_seconds(pid)
    burn = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", burn]) as child:
        wait_for_cpu(child.pid, 0.3)
        assert child.pid in _process_tree.process_tree(pid)
        assert _process_tree.cpu_seconds(pid) - before >= 0.3
        assert _process_tree.pss_bytes(child.pid) > 1 << 20
        child.kill()
    # An ended child's time comes in clock ticks.
    assert _process_tree.cpu_seconds(pid) - before >= 0.28
    assert child.pid not in _process_tree.process_tree(pid)


def test_memory_of_waiting_batches_is_counted_though_nobody_has_mapped_it(settings: LoaderSettings) -> None:
    longer = replace(settings, mode="train", workers=2, batch_size=4)
    cores = sorted(os.sched_getaffinity(0))
    batch_bytes = 4 * 3 * 224 * 224 * 4
    for _ in range(3):  # On a machine with other work a worker may look idle before it has begun.
        with process_pool(cores) as children:
            figures = children.get("torch_pil", 1).call("memory", longer)
        assert figures.process_count == 3
        if figures.unmapped_shared_bytes >= 3 * batch_bytes:
            break
    # The consumer holds and maps one batch; torch maps none of the four ahead before it is requested.
    assert 3 * batch_bytes <= figures.unmapped_shared_bytes <= 6 * batch_bytes


def test_time_until_at_rest_covers_work_that_goes_on_without_the_caller() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", burn]) as child:
        began = time.perf_counter()
        seconds = _process_tree.wait_until_at_rest(os.getpid()) - began
        used = _process_tree.cpu_seconds(child.pid)
        child.kill()
    assert used >= 0.5
    assert seconds >= 0.4


def test_waiting_for_rest_costs_the_waiter_little() -> None:
    began = time.thread_time()
    _process_tree.wait_until_at_rest(os.getpid(), quiet_seconds=0.5)
    # One look at all processes, then some fifty at the clocks of the relevant ones.
    assert time.thread_time() - began < 0.1


def process_pool(cores: Sequence[int]) -> _children.ChildPool:
    return _children.ChildPool(_children.ProcessSpawner(), lambda workers: cores)


def wait_for_cpu(pid: int, seconds: float) -> None:
    while _process_tree.cpu_seconds(pid) < seconds:
        assert pid in _process_tree.process_tree(pid)


def test_quick_run_finds_fastload_equal_in_both_modes_and_writes_the_record(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(data), "--out", str(tmp_path), "--quick", "--images", str(IMAGE_COUNT)]
    assert command.main([*arguments, "--batch-size", "8", "--contenders", "fastload_loader", "ffcv"]) == 0
    record = json.loads((tmp_path / "latest.json").read_text())
    assert [(c["row"], c["is_equal"], c["image_count"]) for c in record["comparisons"]] == [
        ("train", True, IMAGE_COUNT),
        ("eval", True, IMAGE_COUNT),
    ]
    assert {timing["contender"] for timing in record["timings"]} == {"torch_pil", "fastload_loader"}
    for timing in record["timings"]:
        assert timing["rounds"][0]["image_count"] == IMAGE_COUNT
        assert timing["summary"]["images_per_second"]["median"] > 1
        assert timing["summary"]["cpu_ms_per_image"]["median"] > (0.3 if timing["contender"] == "torch_pil" else 0)
        assert timing["options"]["num_workers"] == 1
    # Without the suffix of a CUDA build's version: packages may have it or not.
    version = record["contenders"]["torch_pil"]["versions"]["torch"]
    assert version.partition("+")[0] == torch.__version__.partition("+")[0]
    assert "ratio" in capfd.readouterr().out


def test_child_tells_what_its_contender_raised(settings: LoaderSettings) -> None:
    broken = replace(settings, data=settings.data + "/none")
    with (
        process_pool(sorted(os.sched_getaffinity(0))) as children,
        pytest.raises(_children.ContenderFailed, match="torch_pil: 'open' raised FileNotFoundError"),
    ):
        children.get("torch_pil", 1).call("open", broken)


def test_contender_runs_in_the_interpreter_that_is_given_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs without PYTHONPATH, which leads to packages of this interpreter."""
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\ntest -z "$PYTHONPATH" && touch "{tmp_path}/asked"\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    spawn = _children.ProcessSpawner(interpreters={"decode_pillow": script})
    with _children.ChildPool(spawn, lambda workers: sorted(os.sched_getaffinity(0))) as children:
        assert children.get("decode_pillow", 1).call("hello").unavailable is None
    assert (tmp_path / "asked").exists()


def test_forced_kernel_table_is_the_one_that_is_measured() -> None:
    fastload = pytest.importorskip("fastload", reason="fastload is not built")
    if "avx2" not in fastload.build_info().kernel_tables:
        pytest.skip("this processor has no AVX2")
    cores = sorted(os.sched_getaffinity(0))[:1]
    for name in contenders.DECODE_FASTLOADS:
        with process_pool(cores) as children:
            table = children.get(name, 1).call("hello").details["build_info"]
        forced = name.rpartition("_")[2]
        wanted = forced if forced in ("avx2", "scalar") else fastload.build_info().active_kernel_table
        assert f"active_kernel_table='{wanted}'" in table
    assert [contenders.load_contender(name).environment for name in contenders.FASTLOADS] == [
        {},
        {"FASTLOAD_SIMD": "avx2"},
        {"FASTLOAD_SIMD": "scalar"},
    ]


def test_kernel_table_that_the_processor_lacks_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    fastload = pytest.importorskip("fastload", reason="fastload is not built")

    def refuse() -> None:
        raise ValueError("FASTLOAD_SIMD must name a kernel table that this build and processor have")

    monkeypatch.setattr(fastload, "build_info", refuse)
    for name in ("fastload_avx2", "decode_fastload_avx2"):
        assert "must name a kernel table" in str(contenders.load_contender(name).unavailable_because())


@pytest.mark.parametrize("kept", ["coefficients", "pixels"])
def test_a_store_is_filled_with_files_that_are_old_enough_before_anything_is_compared(
    kept: str, settings: LoaderSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fastload", reason="fastload is not built")
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    # Nothing sleeps, so the build takes the files for an hour old.
    monkeypatch.setattr("fastload._decode_cache._build.CLOCK_AHEAD_NS", 3600 * 10**9)
    contender: Any = contenders.load_contender(f"fastload_{kept}")
    images = shutil.copytree(settings.data, tmp_path / "images", copy_function=shutil.copyfile)  # new ones
    settings = replace(settings, data=str(images), cache=str(tmp_path))
    loader: Any = contender.open(settings)
    assert loader.cache.what == kept
    assert loader.cache.path.is_relative_to(tmp_path)
    assert 0 < slept[0] <= 62
    assert loader.stats().samples == 0
    assert len(list(loader)) > 0
    stats = loader.stats()
    assert stats.cache_coefficient_hits + stats.cache_pixel_hits == IMAGE_COUNT
    contender.close(loader)

    loader = contender.open(settings)
    assert len(slept) == 1
    assert loader.stats().samples == 0
    contender.close(loader)


def test_pixels_are_not_kept_in_training() -> None:
    assert set(contenders.contenders_of("eval")) - set(contenders.contenders_of("train")) == {"fastload_pixels"}


@pytest.mark.parametrize(
    ("chosen", "measured"),
    [
        ("avx512", ["fastload_loader", "fastload_avx2", "fastload_scalar"]),
        ("avx2", ["fastload_loader", "fastload_scalar"]),
        ("scalar", ["fastload_loader", "fastload_avx2"]),
    ],
)
def test_kernels_are_measured_once_however_they_came_to_be_chosen(
    chosen: str, measured: list[str], settings: LoaderSettings
) -> None:
    class Tables(FakeSpawner):
        def __call__(self, name: str, cores: Sequence[int]) -> FakeChild:
            child = super().__call__(name, cores)
            table = {"fastload_avx2": "avx2", "fastload_scalar": "scalar"}.get(name, chosen)
            child.hello = lambda: Hello(None, False, {}, {"build_info": table})  # type: ignore[method-assign]
            return child

    names = ("torch_pil", "torch_pillow_simd", *contenders.FASTLOADS)
    spawn = Tables({name: {"eval": evaluation_batches()} for name in names})
    plan = make_plan(settings, names)
    found = _harness.run(plan, spawn, log=lambda line: None)
    assert [timing.contender for timing in found.timings] == ["torch_pil", "torch_pillow_simd", *measured]
    assert found.unavailable == {
        name: "fastload_loader runs the same kernels here" for name in contenders.FASTLOADS if name not in measured
    }
    for name, reason in found.unavailable.items():
        text = _report.format_tables(_report.make_record(plan, found, {}))
        assert f"{name} ended" in spawn.journal
        assert f"not available: {reason}" in text


def test_decoders_are_compared_with_pillow_and_timed(data: Path, tmp_path: Path) -> None:
    fastload = pytest.importorskip("fastload", reason="fastload is not built")
    if not hasattr(fastload, "decode_image"):
        pytest.skip("this fastload decodes no single images")
    arguments = ["--data", str(data), "--out", str(tmp_path), "--quick", "--rows", "decode", "--images", "8"]
    assert command.main([*arguments, "--contenders", "decode_fastload", "decode_simplejpeg", "torch_pil"]) == 0
    record = json.loads((tmp_path / "latest.json").read_text())
    compared = {found["contender"]: (found["is_equal"], found["image_count"]) for found in record["comparisons"]}
    assert compared["decode_fastload"] == (True, 8)
    assert "torch_pil" not in record["contenders"]
    assert record["contenders"]["decode_simplejpeg"]["failed"] == {}
    assert {"decode_pillow", "decode_fastload"} <= {timing["contender"] for timing in record["timings"]}


def test_rows_cover_both_modes_on_every_set_and_output() -> None:
    made = {(kind.mode, kind.sample_set, kind.output) for kind in ROW_KINDS.values()}
    for mode in ("train", "eval"):
        assert {(mode, "imagenet", output) for output in ("float32", "uint8", "bfloat16")} <= made
        assert {(mode, kind, "float32") for kind in ("photos", "progressive")} <= made
    assert {("decode", kind, "uint8") for kind in ("imagenet", "photos", "progressive")} <= made
    assert set(DEFAULT_ROWS) <= set(ROW_KINDS)
    assert ROW_KINDS["train"].workers == ROW_KINDS["eval"].workers == (1, 2)


def test_report_names_the_faster_of_the_peers_and_the_gain_of_the_second_worker(settings: LoaderSettings) -> None:
    class Speeds(FakeSpawner):
        """Seconds of an epoch with one worker; with two, half of it."""

        seconds: ClassVar[dict[str, float]] = {"torch_pil": 8.0, "dali": 4.0, "ffcv": 6.0, "fastload_loader": 2.0}

        def __call__(self, name: str, cores: Sequence[int]) -> FakeChild:
            child = super().__call__(name, cores)
            wall = self.seconds[name] / len(cores)
            child.epoch = lambda: Round(IMAGE_COUNT, wall, 1.2, 0.1)  # type: ignore[method-assign]
            return child

    names = ("torch_pil", "dali", "ffcv", "fastload_loader")
    plan = make_plan(settings, names)
    row = replace(plan.rows[0], workers=(1, 2))
    monitored = replace(plan, rows=[row], cores=None, memory_workers=())
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    spawn = Speeds({name: {"eval": evaluation_batches()} for name in names})
    found = _harness.run(monitored, spawn, log=lambda line: None)
    record = _report.make_record(monitored, found, {})
    one, two = record["against"]
    assert one["ratios"] == {"torch_pil": 4.0, "dali": 2.0, "ffcv": 3.0}
    assert one["ratio_to_one_worker"] is None
    assert two["ratio_to_one_worker"] == 2.0
    assert "2.00 / 1.00 dali" in _report.format_tables(record)


def test_record_keeps_no_folder_of_the_user(tmp_path: Path) -> None:
    assert command._without_path("dali=/somewhere/dali/bin/python") == "dali=python"
    assert command._without_path("/somewhere/photos") == "photos"
    assert command._without_path("train-uint8") == "train-uint8"


def test_unusable_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="no such folder"):
        command.main(["--data", str(tmp_path / "none")])
    with pytest.raises(SystemExit):
        command.main(["--repeats", "0"])
    assert "must be 1 or more, got 0" in capsys.readouterr().err
    for wrong, message in (("nobody=python", "contender's name"), ("dali=/nowhere/python", "is no file")):
        with pytest.raises(SystemExit):
            command.main(["--python", wrong])
        assert message in capsys.readouterr().err
