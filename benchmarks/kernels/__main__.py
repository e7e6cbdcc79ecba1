"""`python -m benchmarks.kernels`: the time of each kernel in each kernel table that this processor runs.

Builds a C++ program, which first compares every table's bytes with the scalar ones and then times them in turns, pinned
to one core. Exit status: 0 on success, 1 if bytes differ or the program could not be built.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks._machine import describe_machine
from benchmarks._report import summarise, write_record

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "kernel_benchmark"

Measurement = dict[str, Any]


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--output", type=Path, help="file for the JSON record (default: none is written)")
    add("--rounds", type=_positive, default=21, help="measurements of each kernel and table (default: %(default)s)")
    add("--microseconds", type=_positive, default=1000, help="minimum length of a measurement (default: %(default)s)")
    add("--core", type=int, default=max(os.sched_getaffinity(0)), help="core to pin to (default: %(default)s)")
    add("--filter", default="", help="only kernels whose name contains this")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    if options.core not in os.sched_getaffinity(0):
        sys.exit(f"error: --core {options.core}: usable here are {sorted(os.sched_getaffinity(0))}")
    try:
        measurements = measure(build(), options)
    except subprocess.CalledProcessError as error:
        print(f"error: {shlex.join(map(str, error.cmd))} ended with status {error.returncode}", file=sys.stderr)
        return 1
    measurements = [{**row, "summary": summarise(row["nanoseconds"])} for row in measurements]
    record = {
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks.kernels", *arguments]),
        "machine": describe_machine(),
        "measurements": measurements,
    }
    print(format_table(measurements))
    if options.output is not None:
        write_record(record, options.output)
    return 0


def build() -> Path:
    """Builds the program from this tree, as the C++ tests are built, and returns its path."""
    builder = [sys.executable, str(ROOT / "tests" / "cpp" / "build.py"), "plain", PROGRAM]
    folder = subprocess.run(builder, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    return Path(folder) / PROGRAM


def measure(program: Path, options: argparse.Namespace) -> list[Measurement]:
    """Returns the program's output: kernel, unit, table and the nanoseconds of all rounds."""
    command = [str(program), str(options.rounds), str(options.microseconds), options.filter]
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {options.core})
    try:
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    finally:
        os.sched_setaffinity(0, usable)
    return [json.loads(line) for line in lines]


def format_table(measurements: Sequence[Measurement]) -> str:
    """Returns a row per kernel, a column per table: median nanoseconds per unit."""
    tables = list(dict.fromkeys(row["table"] for row in measurements))
    medians: dict[tuple[str, str], dict[str, float]] = {}
    for row in measurements:
        medians.setdefault((row["kernel"], row["unit"]), {})[row["table"]] = row["summary"]["median"]
    rows = [
        (kernel, f"ns/{unit}", *(f"{of_kernel[table]:.4g}" for table in tables))
        for (kernel, unit), of_kernel in medians.items()
    ]
    return str(tabulate(rows, headers=("kernel", "median", *tables), disable_numparse=True))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, got {value}")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
