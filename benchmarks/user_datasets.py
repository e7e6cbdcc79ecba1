"""Image data sets as users write them: torch's DataLoader against fastload's, on as many cores as workers.

    python -m benchmarks.user_datasets                            # every pattern, one worker on one core
    python -m benchmarks.user_datasets --patterns list-train dino --workers 2
    python -m benchmarks.user_datasets --loaders fastload threads
    python -m benchmarks.user_datasets --data train --json mine.json
    python -m benchmarks.user_datasets --page mine.json           # the table of docs/user-datasets.md

Linux. fastload chooses threads or processes, unless --loaders names them. `python -m benchmarks --rows user_datasets`
is the same. Every run has its own process, and the loaders take turns. The batches of a first epoch are compared; if
they differ the run ends with exit status 2, the pattern's name and no figure of it. Then an epoch is timed. A pattern
whose program fails is skipped, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

from benchmarks._machine import describe_machine
from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
from benchmarks._turns import (
    ALL_LOADERS,
    BatchesDiffer,
    Figures,
    Rounds,
    add_loaders,
    add_options,
    form_of,
    make_record,
    measure,
    median_ratio,
    medians,
    pinned_to,
    run_rounds,
    write_record,
)
from benchmarks._user_datasets import PATTERNS, Files


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.child is not None:
        print(json.dumps(_measure(options)))
        return 0
    if options.page is not None:
        print(format_page(json.loads(options.page.read_text())["rounds"]))
        return 0
    machine = describe_machine()
    if options.data is None:
        options.data = ensure_sample_set(DEFAULT_FOLDER).root
    try:
        found = run_patterns(options)
    except BatchesDiffer as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(format_table(found))
    if options.json is not None and found:
        names = ("patterns", "loaders", "workers", "cores", "rounds", "samples", "batch_size")
        settings = {name: getattr(options, name) for name in names}
        own = {package: package for name in found if (package := PATTERNS[name].package) is not None}
        record = make_record(found, machine, settings, {"torchvision": "torchvision", **own})
        write_record(options.json, record)
    is_whole = all(name in found or not PATTERNS[name].is_installed for name in options.patterns)
    return 0 if is_whole else 1


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.user_datasets",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--patterns", nargs="+", choices=PATTERNS, default=list(PATTERNS), help="default: all")
    help_of_workers = "processes or threads, each on a core (default: %(default)s)"
    parser.add_argument("--workers", type=int, default=1, help=help_of_workers)
    add_loaders(parser)
    add_options(parser, ALL_LOADERS, rounds=3, page="docs/user-datasets.md")
    return parser.parse_args(arguments)


def run_patterns(options: argparse.Namespace) -> dict[str, Rounds]:
    """Returns the figures of each installed pattern.

    Raises:
        BatchesDiffer: the loaders' batches do.
    """
    found = {}
    for name in options.patterns:
        pattern = PATTERNS[name]
        if not pattern.is_installed:
            print(f"{name}: skipped, {pattern.package} is not installed (benchmarks/requirements.txt)")
            continue
        num_cores = pattern.num_loaders * max(1, options.workers)
        with pinned_to(options.cores or sorted(os.sched_getaffinity(0))[:num_cores]):
            try:
                found[name] = _run_pattern(name, options)
            except subprocess.CalledProcessError:
                print(f"{name}: skipped, its program failed as shown above", flush=True)
                continue
        print(f"{name}: equal, {', '.join(_speed(found[name], loader) for loader in _ours(found[name]))}", flush=True)
    return found


def _run_pattern(name: str, options: argparse.Namespace) -> Rounds:
    pattern = PATTERNS[name]
    num_samples = options.samples or pattern.num_samples
    with tempfile.TemporaryDirectory() as folder:
        files = Files(options.data, Path(folder), num_samples)
        if pattern.write is not None:
            pattern.write(files)
        command = ["benchmarks.user_datasets", "--patterns", name, "--workers", str(options.workers)]
        command += ["--samples", str(num_samples), "--batch-size", str(options.batch_size or pattern.batch_size)]
        command += ["--data", str(files.root), "--made", str(files.made)]
        return run_rounds(
            name, {loader: [*command, "--child", loader] for loader in ("torch", *options.loaders)}, options.rounds
        )


def format_table(found: Mapping[str, Rounds]) -> str:
    """Returns a line for each pattern: medians, and the medians of the rounds' ratios."""
    lines = []
    for name, rounds in found.items():
        images = PATTERNS[name].images_per_sample
        speeds = (f"{images * medians(one)['samples_per_second']:.0f}" for one in rounds.values())
        lines.append((name, *speeds, *_cells(name, rounds)))
    loaders = next(iter(found.values()), ())
    headers = ("pattern", *(f"{loader} images/s" for loader in loaders), *_headers(found))
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


def format_page(found: Mapping[str, Rounds]) -> str:
    """Returns a table of docs/user-datasets.md. Everything in a record was equal: otherwise there would be none."""
    lines = [(PATTERNS[name].what, "yes", *_cells(name, rounds)) for name, rounds in found.items()]
    headers = ("data set", "equal", *_headers(found))
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


def _ours(rounds: Rounds) -> list[str]:
    """Returns the names of fastload's loaders."""
    return [loader for loader in rounds if loader != "torch"]


def _headers(found: Mapping[str, Rounds]) -> list[str]:
    """Returns the headers of _cells."""
    headers = ["decoded natively"]
    for loader in _ours(next(iter(found.values()), {})):
        where = "" if loader == "fastload" else f"{loader}: "
        headers += ["workers"] if loader == "fastload" else []
        headers += [f"{where}images/s, times torch's", f"{where}CPU time, torch's by ours"]
    return headers


def _cells(name: str, rounds: Rounds) -> list[str]:
    """Returns the share of the images that native code decodes and, for each of fastload's loaders, its ratios."""
    cells = [_native_share(name, rounds)]
    for loader in _ours(rounds):
        cells += [form_of(rounds)] if loader == "fastload" else []
        cells += [_speed(rounds, loader), f"{1 / median_ratio(rounds, loader, 'cpu_ms_per_sample'):.2f}x"]
    return cells


def _speed(rounds: Rounds, loader: str) -> str:
    return f"{median_ratio(rounds, loader, 'samples_per_second'):.2f}x"


def _native_share(name: str, rounds: Rounds) -> str:
    ours = rounds[_ours(rounds)[0]]
    decoded, natively = (sum(one[name] for one in ours) for name in ("images_decoded", "images_decoded_natively"))
    return f"{natively / decoded:.0%}" if decoded else PATTERNS[name].uncounted


# ---- in a child ------------------------------------------------------------------------------------------------------


def _measure(options: argparse.Namespace) -> Figures:
    (name,) = options.patterns
    pattern = PATTERNS[name]
    make = (pattern.make_for_torch or pattern.make) if options.child == "torch" else pattern.make
    dataset = make(Files(options.data, options.made, options.samples))
    return measure(dataset, options.child, options.batch_size, options.workers, pattern.num_loaders)


if __name__ == "__main__":
    sys.exit(main())
