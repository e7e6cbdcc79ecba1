"""`python -m benchmarks`: compares the results of the contenders, then their speed, on a folder of images.

Exit status: 0 when all went well, 1 when a contender failed, 2 when a contender broke its promise of equal bytes.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _report, contenders
from benchmarks._children import ContenderFailed, ProcessSpawner
from benchmarks._compare import ResultsDiffer
from benchmarks._harness import Plan, run
from benchmarks._machine import describe_machine
from benchmarks._pillow_simd import ensure_pillow_simd
from benchmarks._protocol import MODES, LoaderSettings
from benchmarks._sample_set import ensure_sample_set

SIMD = "torch_pillow_simd"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder with one folder of images per class (default: a sample set made here)")
    add(
        "--out", type=Path, default=Path("benchmarks/results"), help="folder for the JSON record (default: %(default)s)"
    )
    add("--name", default="latest", help="name of the record without .json (default: %(default)s)")
    add("--images", type=_positive, help="images per round (default: 512; 64 with --quick)")
    add("--repeats", type=_positive, help="timed rounds per contender (default: 5; 1 with --quick)")
    add("--batch-size", type=_positive, default=64, help="default: %(default)s")
    add("--workers", type=_not_negative, nargs="+", default=[1], help="numbers of workers to time (default: 1)")
    add("--memory-workers", type=_not_negative, nargs="*", help="numbers of workers to weigh (default: 1 8)")
    add("--cores", type=_not_negative, nargs="+", help="cores to pin to (default: the first, as many as workers)")
    add("--modes", nargs="+", choices=MODES, default=list(MODES), help="default: all")
    add("--contenders", nargs="+", choices=contenders.NAMES, default=list(contenders.NAMES), help="default: all")
    add("--cache", type=Path, default=Path("build"), help="folder for what is made once (default: %(default)s)")
    add("--quick", action="store_true", help="a short run that shows that everything works, not how fast it is")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    data, data_line = _find_data(options)
    plan = _make_plan(options, data)
    environment: dict[str, Any] = {
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks", *arguments]),
        "machine": describe_machine(),
        "data": data_line,
    }
    unavailable, front_paths = _prepare_pillow_simd(plan, options.cache)
    try:
        found = run(plan, ProcessSpawner(front_paths), log=_log, unavailable=unavailable)
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


def _find_data(options: argparse.Namespace) -> tuple[Path, str]:
    if options.data is not None:
        if not options.data.is_dir():
            sys.exit(f"error: --data {options.data}: no such folder; expected one folder of images per class in it")
        return options.data.resolve(), f"own folder {options.data.name}"
    _log("sample set: looking for it, and making it when it is not there (about 15 s)")
    made = ensure_sample_set(options.cache / "sample-images")
    _log(f"sample set: {made.mix}")
    return made.root.resolve(), f"sample set: {made.mix}"


def _make_plan(options: argparse.Namespace, data: Path) -> Plan:
    chosen = [name for name in contenders.NAMES if name in options.contenders or name == contenders.REFERENCE]
    usable = os.sched_getaffinity(0)
    if options.cores is not None and not set(options.cores) <= usable:
        sys.exit(f"error: --cores {options.cores}: usable here are {sorted(usable)}")
    settings = LoaderSettings(
        data=str(data),
        mode="eval",
        batch_size=options.batch_size,
        workers=1,
        image_count=options.images or (64 if options.quick else 512),
        cache=str(options.cache.resolve()),
    )
    memory_workers = [] if options.quick else [1, 8]
    return Plan(
        contenders=chosen,
        settings=settings,
        modes=options.modes,
        workers=options.workers,
        cores=options.cores,
        repeats=options.repeats or (1 if options.quick else 5),
        memory_workers=memory_workers if options.memory_workers is None else options.memory_workers,
    )


def _prepare_pillow_simd(plan: Plan, cache: Path) -> tuple[dict[str, str], dict[str, Path]]:
    """Why pillow-simd cannot be had, if so, and where it is, if it can."""
    if SIMD not in plan.contenders:
        return {}, {}
    folder, reason = ensure_pillow_simd(cache)
    return ({SIMD: reason}, {}) if reason is not None else ({}, {SIMD: folder})


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
