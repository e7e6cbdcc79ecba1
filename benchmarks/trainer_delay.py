"""The cost of a loader for the training thread: torch's worker process and fastload's worker.

    python -m benchmarks.trainer_delay                            # every data set, two cores: about 5 minutes
    python -m benchmarks.trainer_delay --kinds python --rounds 9 --loaders fastload threads
    python -m benchmarks.trainer_delay --page mine.json           # the table of docs/environments.md

Linux. fastload chooses thread or process, unless --loaders names them. `python -m benchmarks --rows trainer_delay` is
the same. A step is next() and 1,000 launches of a small operation, as a training loop's Python queues kernels; each
launch releases the GIL and takes it again. Batches are small, so that a worker is about as fast as such a loop and has
work beside it. Every run has its own process, with one worker, and the loaders take turns. The batches of a first epoch
are compared; if they differ the run ends with exit status 2 and no figure. Then the steps of an epoch are timed. The
launches of a step are to take at most 1.05 times as long beside fastload as beside torch; the last line says whether
they do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

from benchmarks._machine import describe_machine
from benchmarks._process_tree import process_tree
from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
from benchmarks._turns import (
    ALL_LOADERS,
    BatchesDiffer,
    Figures,
    Rounds,
    add_batch,
    add_loaders,
    add_options,
    form_of,
    make_record,
    median_ratio,
    medians,
    new_loader,
    pinned_to,
    run_rounds,
    write_record,
)

_MOST_DELAY = 1.05
NUM_LAUNCHES = 1000
_FIGURES = ("step_ms", "step_ms_p90", "launches_ms", "launches_ms_p90")


class Kind(NamedTuple):
    """A data set, and the size of its epoch.

    Attributes:
        what: description for the table.
        pattern: a pattern of `benchmarks._user_datasets`; None: the tokenizer of `benchmarks._python_datasets`.
    """

    what: str
    pattern: str | None
    num_samples: int
    batch_size: int


KINDS = {
    "native": Kind("`ImageFolder`, training: native", "preset-train", 320, 4),
    "own": Kind("own list of files, training", "list-train", 320, 4),
    "arrays": Kind("CIFAR's array, `Image.fromarray`", "arrays", 4096, 16),
    "python": Kind("a tokenizer in Python", None, 2048, 8),
}


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
        with pinned_to(options.cores or sorted(os.sched_getaffinity(0))[:2]):
            found = {name: _run_kind(name, options) for name in options.kinds}
    except BatchesDiffer as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(format_page(found))
    print(format_goal(found))
    if options.json is not None:
        names = ("kinds", "loaders", "cores", "rounds", "samples", "batch_size")
        settings = {name: getattr(options, name) for name in names}
        record = make_record(found, machine, settings, {"torchvision": "torchvision"})
        write_record(options.json, record)
    return 0


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trainer_delay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    add_loaders(parser)
    add_options(parser, ALL_LOADERS, rounds=5, page="docs/environments.md")
    return parser.parse_args(arguments)


def _run_kind(name: str, options: argparse.Namespace) -> Rounds:
    kind = KINDS[name]
    num_samples = options.samples or kind.num_samples
    with tempfile.TemporaryDirectory() as folder:
        _write_files(kind, options.data, Path(folder), num_samples)
        command = ["benchmarks.trainer_delay", "--kinds", name, "--samples", str(num_samples)]
        command += ["--batch-size", str(options.batch_size or kind.batch_size)]
        command += ["--data", str(options.data), "--made", folder]
        found = run_rounds(
            name, {loader: [*command, "--child", loader] for loader in ("torch", *options.loaders)}, options.rounds
        )
    print(f"{name}: equal", flush=True)
    return found


def format_page(found: Mapping[str, Rounds]) -> str:
    """Returns a line for each data set and loader: medians of the rounds and of their ratios to torch."""
    lines = []
    for name, rounds in found.items():
        for loader in rounds:
            figures = medians(rounds[loader])
            cells = [_with_ratio(figures[figure], rounds, loader, figure) for figure in _FIGURES]
            what = KINDS[name].what if loader == "torch" else ""
            shown = f"{loader}: {form_of(rounds)}" if loader == "fastload" else loader
            lines.append((what, shown, *cells, f"{figures['samples_per_second']:.0f}"))
    headers = ("data set", "loader", "step ms", "90%", "launches ms", "90%", "samples/s")
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


def format_goal(found: Mapping[str, Rounds]) -> str:
    """Returns one line on the launches beside fastload's loader as it is by default."""
    ratios = {
        name: median_ratio(rounds, "fastload", "launches_ms") for name, rounds in found.items() if "fastload" in rounds
    }
    late = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > _MOST_DELAY]
    return f"launches beside fastload, at most {_MOST_DELAY} times torch's: {', '.join(late) or 'met by all'}"


def _with_ratio(value: float, rounds: Rounds, loader: str, figure: str) -> str:
    text = f"{value:.1f}"
    return text if loader == "torch" else f"{text} ({median_ratio(rounds, loader, figure):.2f}x)"


# ---- in a child ------------------------------------------------------------------------------------------------------


def _measure(options: argparse.Namespace) -> Figures:
    (name,) = options.kinds
    dataset = make_dataset(name, options.data, options.made, options.samples)
    return measure_steps(dataset, options.child, options.batch_size)


def make_dataset(name: str, data: Path, made: Path, num_samples: int) -> Any:
    """Returns the data set of a kind, from the files that `_write_files` wrote to `made`."""
    from benchmarks import _python_datasets
    from benchmarks._user_datasets import PATTERNS, Files

    pattern = KINDS[name].pattern
    if pattern is None:
        return _python_datasets.Tokens(num_samples)
    return PATTERNS[pattern].make(Files(data, made, num_samples))


def _write_files(kind: Kind, data: Path, made: Path, num_samples: int) -> None:
    from benchmarks._user_datasets import PATTERNS, Files

    write = None if kind.pattern is None else PATTERNS[kind.pattern].write
    if write is not None:
        write(Files(data, made, num_samples))


def measure_steps(dataset: Any, name: str, batch_size: int) -> Figures:
    """Runs an epoch with a checksum of its batches, then one with a trainer's launches in each step.

    Args:
        name: the loader's name, one of ALL_LOADERS.
    """
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(1)
    loader = new_loader(name, dataset, batch_size, shuffle=True, num_workers=1, persistent_workers=True)
    digest = hashlib.sha256()
    for batch in loader:
        add_batch(digest, batch)
    small, steps, launches = torch.zeros(64), [], []
    batches = iter(loader)
    epoch_begin = begin = time.perf_counter()
    while next(batches, None) is not None:
        first_launch = time.perf_counter()
        for _ in range(NUM_LAUNCHES):
            small.add_(1)
        end = time.perf_counter()
        steps.append(end - begin)
        launches.append(end - first_launch)
        begin = end
    return {
        "step_ms": _quantile_ms(steps, 0.5),
        "step_ms_p90": _quantile_ms(steps, 0.9),
        "launches_ms": _quantile_ms(launches, 0.5),
        "launches_ms_p90": _quantile_ms(launches, 0.9),
        "samples_per_second": len(dataset) / (begin - epoch_begin),
        "processes": len(process_tree(os.getpid())),
        "sha256": digest.hexdigest(),
    }


def _quantile_ms(seconds: Sequence[float], share: float) -> float:
    return 1000 * sorted(seconds)[int(share * (len(seconds) - 1))]


if __name__ == "__main__":
    sys.exit(main())
