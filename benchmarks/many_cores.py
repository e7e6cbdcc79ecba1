"""torch's DataLoader and fastload's with many workers: simulated on two cores, or measured on as many as there are.

    python -m benchmarks.many_cores                          # simulated: about 6 minutes on two cores
    python -m benchmarks.many_cores --measure                # for 16 cores: at most 8 minutes, with a GPU or without
    python -m benchmarks.many_cores --measure --patterns list-train --workers 1 4 --no-training
    python -m benchmarks.many_cores --page mine.json         # only the tables of such a record

Linux. The batches of all loaders are compared first; if they differ the run ends with exit status 2 and no figure.

Simulated: a process costs CPU time in its worker and in the program's process, which is measured with one worker; many
workers load as many images as that allows on 16 cores. A thread also waits for the GIL, so threads run: their images
are small, and a pause, in which no core and no GIL is held, replaces the native work, which is what an image of the
usual size costs more than a small one. Caches, memory and clock speeds are not simulated.

Measured: torch, threads, processes and fastload as it chooses take turns with 1, 4 and 16 workers. With a GPU, torch
and fastload then take turns beside the training of a ResNet-50, with pin_memory and non_blocking copies. Rounds are
left out where the time is short.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks._gpu_machine import Gpu, why_no_gpu
from benchmarks._machine import describe_machine
from benchmarks._many_cores import (
    SIMULATED,
    measure_cost,
    measure_paused,
    measure_training,
    measure_turns,
    small_cost,
    write_small,
)
from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
from benchmarks._turns import (
    LOADERS,
    BatchesDiffer,
    Rounds,
    check_batches,
    form_of,
    make_record,
    median_ratio,
    medians,
    run_child,
    write_record,
)
from benchmarks._user_datasets import PATTERNS, Files

MEASURED = ("list-train", "functional", "two-crops", "timm", "albumentations", "mask", "preset-train")
TRAINED = ("list-train", "preset-train")
_MODEL = "resnet50"
_NUM_CORES = 16  # that are simulated
_COSTS = ("torch", "fastload", "threads")
_LEAST, _LEAST_OF_LIST = 1.3, 4.0  # times torch's images/s with the same workers
_TRAINING_SECONDS = 120.0  # that are kept for training, beside a GPU

Found = dict[str, Rounds]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.child is not None:
        print(json.dumps(_run(options)))
        return 0
    if options.page is not None:
        print(format_tables(json.loads(options.page.read_text())["rounds"]))
        return 0
    begin = time.monotonic()
    machine = describe_machine()
    if options.data is None:
        options.data = ensure_sample_set(DEFAULT_FOLDER).root
    try:
        found = _measured(options, begin + 60 * options.minutes) if options.measure else _simulated(options)
    except BatchesDiffer as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(format_tables(found))
    if options.json is not None:
        names = ("measure", "patterns", "workers", "rounds", "samples", "minutes")
        settings = {name: getattr(options, name) for name in names}
        write_record(options.json, make_record(found, machine, settings, {"torchvision": "torchvision"}))
    return 0


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_cores",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--measure", action="store_true", help="measure instead of simulating")
    add("--patterns", nargs="+", choices=MEASURED, help="default: all that are measured or simulated")
    add("--workers", type=int, nargs="+", default=[1, 4, 16], help="default: %(default)s")
    add("--rounds", type=int, default=3, help="rounds of each loader; medians are shown (default: %(default)s)")
    add("--samples", type=int, help="samples for each worker in an epoch (default: each pattern's own)")
    add("--minutes", type=float, default=8.0, help="time for a measurement (default: %(default)s)")
    add("--no-training", action="store_true", help="measure without a training, also where there is a GPU")
    add("--data", type=Path, help="folder with one folder of images per class (default: a sample set made here)")
    add("--json", type=Path, help="write the figures to this file")
    add("--page", type=Path, metavar="JSON", help="only print the tables, from such a file")
    add("--child", help=argparse.SUPPRESS)
    add("--made", type=Path, help=argparse.SUPPRESS)
    add("--seconds", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.patterns is None:
        options.patterns = list(MEASURED if options.measure else SIMULATED)
    if not options.measure and not set(options.patterns) <= set(SIMULATED):
        parser.error(f"--patterns: only {', '.join(SIMULATED)} are simulated; --measure measures the others")
    return options


# ---- in the program that is called -----------------------------------------------------------------------------------


def _simulated(options: argparse.Namespace) -> Found:
    """Returns, for each pattern, the rounds of each loader's cost, of small images, and of the paused threads."""
    found = {}
    for name in options.patterns:
        with tempfile.TemporaryDirectory() as folder:
            write_small(Files(options.data, Path(folder), 1))
            rounds: Rounds = {child: [] for child in (*_COSTS, "small")}
            for _ in range(options.rounds):
                for child in rounds:
                    rounds[child].append(_run_child(options, name, child, Path(folder)))
                check_batches({name: {loader: rounds[loader] for loader in _COSTS}})
            pause = max(0.0, _pause_seconds(rounds))
            for _ in range(options.rounds):
                paused = _run_child(options, name, "paused", Path(folder), seconds=pause)
                for number, figures in paused.items():
                    rounds.setdefault(f"threads, {number}", []).extend(figures)
        found[name] = rounds
        print(f"{name}: equal, a pause of {1000 * pause:.2f} ms", flush=True)
    return found


def _pause_seconds(rounds: Rounds) -> float:
    usual, small = (medians(rounds[name])["cpu_ms_per_sample"] for name in ("threads", "small"))
    return (usual - small) / 1000


def _measured(options: argparse.Namespace, deadline: float) -> Found:
    """Returns the rounds by pattern and workers, and by pattern beside a training, as far as the time suffices."""
    trains = not options.no_training and why_no_gpu() is None
    installed = [name for name in options.patterns if PATTERNS[name].is_installed]
    for name in sorted(set(options.patterns) - set(installed)):
        print(f"{name}: skipped, {PATTERNS[name].package} is not installed (benchmarks/requirements.txt)")
    trained = [name for name in installed if name in TRAINED] if trains else []
    steps = [(name, number) for name in installed for number in options.workers]
    found = {}
    for done, (name, number) in enumerate(steps):
        left = deadline - time.monotonic() - (_TRAINING_SECONDS if trained else 0)
        if left <= 0:
            print(f"{name}, {number} workers: left out, there is no time")
            continue
        with tempfile.TemporaryDirectory() as folder:
            seconds = left / (len(steps) - done)
            rounds = _run_child(options, name, "turns", Path(folder), workers=number, seconds=seconds)
        check_batches({name: rounds})
        found[f"{name}, {number}"] = rounds
        print(f"{name}, {number} workers: equal, {_ratio(rounds, 'fastload')}", flush=True)
    for done, name in enumerate(trained):
        seconds = (deadline - time.monotonic()) / (len(trained) - done)
        with tempfile.TemporaryDirectory() as folder:
            rounds = _run_child(options, name, "training", Path(folder), workers=max(options.workers), seconds=seconds)
        found[f"{name}, {_MODEL}"] = rounds
        print(f"{name} beside {_MODEL}: {_ratio(rounds, 'fastload')}", flush=True)
    return found


def _run_child(
    options: argparse.Namespace,
    name: str,
    child: str,
    made: Path,
    *,
    workers: int | None = None,
    seconds: float = 0.0,
) -> Any:
    command = ["benchmarks.many_cores", "--measure", "--patterns", name, "--child", child, "--made", str(made)]
    command += ["--data", str(options.data), "--rounds", str(options.rounds), "--seconds", str(seconds)]
    command += ["--workers", *map(str, options.workers if workers is None else [workers])]
    return run_child(command + ([] if options.samples is None else ["--samples", str(options.samples)]))


# ---- in a child ------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> Any:
    (name,) = options.patterns
    pattern = PATTERNS[name]
    num_samples = options.samples or pattern.num_samples
    files = Files(options.data, options.made, num_samples)
    if options.child == "small":
        return small_cost(name, files)
    if options.child == "paused":
        return measure_paused(name, files, options.workers, options.seconds)
    if options.child in _COSTS:
        return measure_cost(name, options.child, files)

    def make(count: int) -> Any:
        some = Files(options.data, options.made, count)
        if pattern.write is not None:
            pattern.write(some)
        return pattern.make(some)

    (workers,) = options.workers
    if options.child == "training":
        seconds = min(5.0, options.seconds / 20)
        return measure_training(make, Gpu(), _MODEL, LOADERS, workers, min(2, options.rounds), seconds)
    loaders = ("torch", "threads", "processes", "fastload")
    return measure_turns(lambda: make(num_samples * workers), loaders, workers, options.rounds, options.seconds)


# ---- tables ----------------------------------------------------------------------------------------------------------


def format_tables(found: Mapping[str, Rounds]) -> str:
    """Returns the tables of a record and a line on what is asked."""
    if not any("," in name for name in found):
        return f"{_table_of_simulated(found)}\n\nsimulated on {_NUM_CORES} cores; {_goal(_simulated_ratios(found))}"
    training = {name: rounds for name, rounds in found.items() if name.endswith(_MODEL)}
    alone = {name: rounds for name, rounds in found.items() if name not in training}
    ratios = {name: median_ratio(rounds, "fastload", "samples_per_second") for name, rounds in alone.items()}
    tables = [_table_of_measured(alone), *([_table_of_training(training)] if training else [])]
    return "\n\n".join([*tables, _goal(ratios)])


def images_per_second(rounds: Rounds, loader: str, workers: int) -> float:
    """Returns how many images as many worker processes load on the simulated cores, by the cost of one."""
    figures = medians(rounds[loader])
    own, total = figures["own_ms_per_sample"] / 1000, figures["cpu_ms_per_sample"] / 1000
    return min(workers / (total - own), 1 / own, _NUM_CORES / total)


def _numbers(rounds: Rounds) -> list[int]:
    """Returns the simulated numbers of workers."""
    return [int(name.split(", ")[1]) for name in rounds if name.startswith("threads, ")]


def _simulated_ratios(found: Mapping[str, Rounds]) -> dict[str, float]:
    return {
        f"{name}, {number}": images_per_second(rounds, "fastload", number) / images_per_second(rounds, "torch", number)
        for name, rounds in found.items()
        for number in _numbers(rounds)
    }


def _table_of_simulated(found: Mapping[str, Rounds]) -> str:
    lines = []
    for name, rounds in found.items():
        for number in _numbers(rounds):
            theirs, ours = (images_per_second(rounds, loader, number) for loader in LOADERS)
            threads = medians(rounds[f"threads, {number}"])["samples_per_second"]
            cells = [f"{speed:.0f} ({speed / theirs:.2f}x)" for speed in (threads, ours)]
            lines.append((name, str(number), f"{theirs:.0f}", *cells))
    return _table(lines, ("pattern", "workers", "torch images/s", "threads", "fastload (processes)"))


def _table_of_measured(found: Mapping[str, Rounds]) -> str:
    lines = []
    for key, rounds in found.items():
        cells = [f"{medians(rounds[loader])['samples_per_second']:.0f}" for loader in rounds]
        ratios = ["" if loader == "torch" else f" ({_ratio(rounds, loader)})" for loader in rounds]
        lines.append((*key.split(", "), *map("".join, zip(cells, ratios, strict=True)), form_of(rounds)))
    loaders = next(iter(found.values()), ())
    return _table(lines, ("pattern", "workers", *(f"{loader} images/s" for loader in loaders), "it chooses"))


def _table_of_training(found: Mapping[str, Rounds]) -> str:
    lines = []
    for key, rounds in found.items():
        for loader, turns in rounds.items():
            figures = medians(turns)
            speed = f"{figures['samples_per_second']:.0f}"
            waits = (f"{figures[name]:.0%}" for name in ("device_wait_share", "host_wait_share"))
            ratio = "" if loader == "torch" else f" ({_ratio(rounds, loader)})"
            lines.append((key, loader, speed + ratio, f"{figures['model_alone']:.0f}", *waits))
    headers = ("beside a model", "loader", "images/s", "model alone", "GPU waits for batch", "host waits in next()")
    return _table(lines, headers)


def _goal(ratios: Mapping[str, float]) -> str:
    """Returns a line on the goals and the runs that miss them."""

    def least(name: str) -> float:
        return _LEAST_OF_LIST if name.startswith("list-train") else _LEAST

    missed = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio < least(name)]
    goal = f"fastload at least {_LEAST} times torch's images/s, an own list of files {_LEAST_OF_LIST:.0f} times"
    return f"{goal}: {', '.join(missed) or 'met by all'}"


def _ratio(rounds: Rounds, loader: str) -> str:
    return f"{median_ratio(rounds, loader, 'samples_per_second'):.2f}x"


def _table(lines: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


if __name__ == "__main__":
    sys.exit(main())
