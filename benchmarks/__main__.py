"""`python -m benchmarks`: compares the results of the contenders, then their speed, on a folder of images.

Exit status: 0 on success, 1 if a contender failed, 2 if a contender broke its promise of equal bytes.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import _report, contenders
from benchmarks._children import ContenderFailed, ProcessSpawner
from benchmarks._compare import ResultsDiffer
from benchmarks._harness import Plan, run
from benchmarks._machine import describe_machine
from benchmarks._pillow_simd import ensure_pillow_simd
from benchmarks._protocol import LoaderSettings
from benchmarks._rows import (
    DEFAULT_ROWS,
    OWN_TABLES,
    ROW_KINDS,
    SECOND_EPOCH,
    TRAINER_DELAY,
    USER_DATASETS,
    Row,
    RowKind,
)
from benchmarks._sample_set import RECIPES, ensure_sample_set

SIMD = "torch_pillow_simd"
OWN_DATA_IMAGES = 512
PYTHON = "interpreters of contenders that have an environment of their own (benchmarks/README.md)"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--rows",
        nargs="+",
        choices=[*ROW_KINDS, *OWN_TABLES, "all"],
        default=list(DEFAULT_ROWS),
        help="default: %(default)s",
    )
    add("--contenders", nargs="+", choices=contenders.NAMES, default=list(contenders.NAMES), help="default: all")
    add("--python", type=_interpreter, nargs="+", action="extend", default=[], metavar="CONTENDER=PATH", help=PYTHON)
    add("--data", type=Path, help="folder with one folder of images per class (default: sample sets made here)")
    add(
        "--out", type=Path, default=Path("benchmarks/results"), help="folder for the JSON record (default: %(default)s)"
    )
    add("--name", default="latest", help="name of the record without .json (default: %(default)s)")
    add("--images", type=_positive, help="images per round (default: all of the sample set, 512 of --data)")
    add("--repeats", type=_positive, help="timed rounds per contender (default: 5 in train and eval, 3 elsewhere)")
    add("--batch-size", type=_positive, help="default: 64, 16 of large photographs")
    add("--workers", type=_not_negative, nargs="+", help="numbers of workers to time (default: each row's own)")
    add(
        "--memory-workers",
        type=_not_negative,
        nargs="*",
        help="numbers of workers to measure memory with (default: 1 8)",
    )
    add("--cores", type=_not_negative, nargs="+", help="cores to pin to (default: the first, as many as workers)")
    add("--cache", type=Path, default=Path("build"), help="folder for files that are made once (default: %(default)s)")
    add("--quick", action="store_true", help="a short run that shows that everything works, not how fast it is")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    status = 0 if set(options.rows) <= set(OWN_TABLES) else _compare_contenders(options, arguments)
    for name in OWN_TABLES:
        if name in options.rows and status == 0:
            status = _make_own_table(options, name)
    return status


def _compare_contenders(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    kinds = {name: kind for name, kind in ROW_KINDS.items() if name in options.rows or "all" in options.rows}
    data = {kind.sample_set: _find_data(options, kind.sample_set) for kind in kinds.values()}
    plan = _make_plan(options, kinds, {name: folder for name, (folder, _) in data.items()})
    environment: dict[str, Any] = {
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", *(_without_path(text) for text in arguments)]),
        "machine": describe_machine(),
        "data": {name: line for name, (_, line) in data.items()},
    }
    unavailable, front_paths = _prepare_pillow_simd(plan, options.cache)
    spawn = ProcessSpawner(front_paths, dict(options.python))
    try:
        found = run(plan, spawn, log=_log, unavailable=unavailable)
    except ResultsDiffer as error:
        print(f"error: the results differ, so nothing was timed.\n{error}", file=sys.stderr)
        return 2
    except ContenderFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    record = _report.make_record(plan, found, environment)
    path = options.out / f"{options.name}.json"
    _report.write_record(record, path)
    print(f"\n{_report.format_tables(record)}\n\nwritten: {path}; a chart of it: python -m benchmarks.chart {path}")
    return 1 if found.failed else 0


def _make_own_table(options: argparse.Namespace, row: str) -> int:
    """Makes a table of its own, for a row with no contenders but torch's loader and fastload's."""
    from benchmarks import second_epoch, trainer_delay, user_datasets  # they need torchvision, which is optional

    folder, _ = _find_data(options, "imagenet")
    rest = ["--data", str(folder), *(["--rounds", "1", "--samples", "32"] if options.quick else [])]
    given = {"rounds": options.repeats, "samples": options.images, "batch-size": options.batch_size}
    for name, value in given.items():
        rest += [] if value is None else [f"--{name}", str(value)]
    rest += [] if options.cores is None else ["--cores", *map(str, options.cores)]
    if row != USER_DATASETS:
        run_row = {TRAINER_DELAY: trainer_delay.main, SECOND_EPOCH: second_epoch.main}[row]
        return run_row([*rest, "--json", str(options.out / f"{options.name}-{row}.json")])
    status = 0
    for number in options.workers or (1,):
        path = options.out / f"{options.name}-{row}-{number}.json"
        status = status or user_datasets.main([*rest, "--workers", str(number), "--json", str(path)])
    return status


def _find_data(options: argparse.Namespace, sample_set: str) -> tuple[Path, str]:
    if options.data is not None:
        if not options.data.is_dir():
            sys.exit(f"error: --data {options.data}: no such folder; expected one folder of images per class in it")
        return options.data.resolve(), f"own folder {options.data.name}"
    _log(f"sample set {sample_set}: looking for it, and making it when it is not there (half a minute)")
    made = ensure_sample_set(options.cache / f"sample-{sample_set}", kind=sample_set)
    _log(f"sample set {sample_set}: {made.mix}")
    return made.root.resolve(), str(made.mix)


def _make_plan(options: argparse.Namespace, kinds: Mapping[str, RowKind], folders: Mapping[str, Path]) -> Plan:
    needed = {contenders.reference_of(kind.mode) for kind in kinds.values()}
    able = {name for kind in kinds.values() for name in contenders.contenders_of(kind.mode)}
    chosen = [name for name in contenders.NAMES if name in needed or (name in able and name in options.contenders)]
    usable = os.sched_getaffinity(0)
    if options.cores is not None and not set(options.cores) <= usable:
        sys.exit(f"error: --cores {options.cores}: usable here are {sorted(usable)}")
    memory_workers = [] if options.quick else [1, 8]
    return Plan(
        contenders=chosen,
        rows=[_make_row(options, name, kind, folders[kind.sample_set]) for name, kind in kinds.items()],
        cores=options.cores,
        memory_workers=memory_workers if options.memory_workers is None else options.memory_workers,
    )


def _make_row(options: argparse.Namespace, name: str, kind: RowKind, folder: Path) -> Row:
    image_count = OWN_DATA_IMAGES if options.data is not None else RECIPES[kind.sample_set].count
    is_decode = kind.mode == "decode"
    workers = kind.workers if options.workers is None or is_decode else tuple(options.workers)
    settings = LoaderSettings(
        data=str(folder),
        mode=kind.mode,
        batch_size=kind.batch_size if options.batch_size is None or is_decode else options.batch_size,
        workers=1,
        image_count=options.images or (min(64, image_count) if options.quick else image_count),
        cache=str(options.cache.resolve()),
        output=kind.output,
    )
    return Row(
        name=name,
        settings=settings,
        workers=(1,) if options.quick and options.workers is None else workers,
        repeats=options.repeats or (1 if options.quick else kind.repeats),
        measures_first_batch=kind.measures_first_batch,
    )


def _prepare_pillow_simd(plan: Plan, cache: Path) -> tuple[dict[str, str], dict[str, Path]]:
    """Returns the folder of pillow-simd, or the reason why it is not available."""
    if SIMD not in plan.contenders:
        return {}, {}
    folder, reason = ensure_pillow_simd(cache)
    return ({SIMD: reason}, {}) if reason is not None else ({}, {SIMD: folder})


def _interpreter(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if name not in contenders.NAMES:
        raise argparse.ArgumentTypeError(f"must begin with a contender's name and '=', got {text!r}")
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{path!r} is no file; expected the python of an environment with {name}")
    # Not resolved: the target of a virtual environment's link is an interpreter that does not know the environment.
    return name, Path(path).absolute()


def _without_path(argument: str) -> str:
    """Returns the argument as the record may keep it: only the last name of other people's folders."""
    head, equals, path = argument.rpartition("=")
    return f"{head}{equals}{Path(path).name}" if os.sep in path else argument


def _log(line: str) -> None:
    print(line, flush=True)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {value}")
    return value


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, got {value}")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
