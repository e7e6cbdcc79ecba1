"""Data sets written in Python: torch's DataLoader with N worker processes against fastload's with N threads.

    python -m benchmarks.python_path                              # all kinds
    python -m benchmarks.python_path --kinds sleeping --rounds 9
    python -m benchmarks.python_path --old ../old/checkout        # and an older fastload, built in place

Linux. Every run has its own process; the loaders take turns, and their batches are compared before a figure is shown.
All keep their workers (persistent_workers=True), so an epoch's speed contains no start-up; the time to the first batch
does. Memory is the proportional set size of all processes while every prefetched batch is waiting, with /dev/shm and
without files, above the process before it had a loader.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks._machine import describe_machine
from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
from benchmarks._turns import (
    LOADERS,
    BatchesDiffer,
    Figures,
    Rounds,
    make_record,
    measure,
    median_ratio,
    medians,
    write_record,
)
from benchmarks._turns import run_rounds as run_rounds_of

OLD = "old fastload"


@dataclass(frozen=True)
class Kind:
    """A data set of `benchmarks._python_datasets`, and the size of its epoch.

    Attributes:
        what: description for the table.
        workers: number of workers, if the command line names none.
        num_samples: samples in an epoch.
    """

    what: str
    workers: int
    num_samples: int


KINDS = {
    "sleeping": Kind("waits 5 ms a sample", 8, 4096),
    "numpy": Kind("log-mel spectrograms of 4 s of audio", 2, 1024),
    "pil": Kind("Pillow decodes and resizes", 2, 1024),
    **{
        f"mixed-{share}": Kind(f"{share} % of 1 ms in a loop of Python, the rest in zlib", 2, 2048)
        for share in (25, 50, 75)
    },
    "tokens": Kind("a tokenizer in Python", 2, 4096),
}
# If threads are slower than this, the advice is to keep processes.
_WORTH_THREADS = 0.95


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    if options.child is not None:
        print(json.dumps(_measure(options)))
        return
    if options.data is None:
        ensure_sample_set(DEFAULT_FOLDER)
        options.data = DEFAULT_FOLDER
    machine = describe_machine()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        options.clips = Path(folder) / "clips.npy"
        _make_clips(options)
        for name in options.kinds:
            try:
                found[name] = run_rounds(name, options)
            except BatchesDiffer as error:
                raise SystemExit(str(error)) from None
    print(format_table(found))
    if options.json is not None:
        settings = {name: getattr(options, name) for name in ("kinds", "workers", "rounds", "samples", "batch_size")}
        record = make_record(found, machine, settings)
        write_record(options.json, record)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.python_path",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--workers", type=int, help="processes or threads (default: 8 that sleep, 2 that compute)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each loader; medians are shown")
    parser.add_argument("--samples", type=int, help="samples in an epoch (default: each kind's own)")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--data", type=Path, help="folder of JPEG files (default: the sample set of ImageNet's kind)")
    parser.add_argument("--old", type=Path, help="folder of another fastload that takes turns with this one")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--clips", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", choices=(*LOADERS, OLD), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run_rounds(name: str, options: argparse.Namespace) -> Rounds:
    """Returns the figures of one kind, the loaders taking turns."""
    loaders = LOADERS if options.old is None else ("torch", OLD, "fastload")
    return run_rounds_of(name, {loader: _child_command(name, loader, options) for loader in loaders}, options.rounds)


def format_table(found: Mapping[str, Rounds]) -> str:
    """Returns a line for each kind and loader: medians, and for fastload the ratios to torch and the advice."""
    lines = []
    for name, rounds in found.items():
        theirs = medians(rounds["torch"])
        for loader in rounds:
            figures, is_ours = medians(rounds[loader]), loader != "torch"
            ratio = median_ratio(rounds, loader, "samples_per_second")
            lines.append(
                (
                    f"{name}: {KINDS[name].what}" if not is_ours else "",
                    f"{loader}, {rounds[loader][0]['workers']} {'threads' if is_ours else 'workers'}",
                    f"{figures['samples_per_second']:.0f}" + (f" ({ratio:.2f}x)" if is_ours else ""),
                    f"{figures['cpu_ms_per_sample']:.2f}",
                    _with_factor("{:.3f}", theirs, figures, "first_batch_seconds", "sooner", is_ours),
                    _with_factor("{:.1f}", theirs, figures, "added_mib", "less", is_ours),
                    f"{figures['processes']:.0f}",
                    f"{figures['gil_held_share']:.0%}" if "gil_held_share" in figures else "",
                    advice(ratio) if loader == "fastload" else "",
                )
            )
    headers = (
        "data set",
        "loader",
        "samples/s",
        "CPU ms/sample",
        "first batch s",
        "added MiB",
        "processes",
        "GIL held",
        "advice",
    )
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


def advice(ratio: float) -> str:
    """Returns the advice for a data set that threads load `ratio` times as fast as processes do."""
    if ratio >= _WORTH_THREADS:
        return "threads"
    return f"processes: torch's DataLoader is {1 / ratio:.1f}x as fast; or compute in code that releases the GIL"


def _with_factor(form: str, theirs: Figures, ours: Figures, name: str, word: str, is_ours: bool) -> str:
    text = form.format(ours[name])
    return f"{text} ({theirs[name] / ours[name]:.1f}x {word})" if is_ours and ours[name] > 0 else text


def _child_command(name: str, loader: str, options: argparse.Namespace) -> list[str]:
    kind = KINDS[name]
    command = ["benchmarks.python_path", "--child", loader, "--kinds", name]
    command += [
        "--workers",
        str(options.workers or kind.workers),
        "--samples",
        str(options.samples or kind.num_samples),
    ]
    command += ["--batch-size", str(options.batch_size), "--data", str(options.data), "--clips", str(options.clips)]
    return command + (["--old", str(options.old)] if loader == OLD else [])


def _make_clips(options: argparse.Namespace) -> None:
    from benchmarks._python_datasets import Spectrograms

    Spectrograms.make_file(options.clips)


# ---- in a child ------------------------------------------------------------------------------------------------------


def _measure(options: argparse.Namespace) -> Figures:
    if options.child == OLD:
        sys.path.insert(0, str(options.old.resolve()))
    import fastload

    if options.child == OLD and not Path(fastload.__file__).is_relative_to(options.old.resolve()):
        raise SystemExit(f"--old {options.old}: fastload was imported from {fastload.__file__}")
    loader = {OLD: "fastload", "fastload": "threads"}.get(options.child, options.child)
    return measure(_make_dataset(options), loader, options.batch_size, options.workers)


def _make_dataset(options: argparse.Namespace) -> Any:
    from benchmarks import _python_datasets

    (name,) = options.kinds
    if name == "numpy":
        return _python_datasets.Spectrograms(options.clips, options.samples)
    if name == "pil":
        return _python_datasets.Photographs(options.data, options.samples)
    if name.startswith("mixed-"):
        return _python_datasets.Mixed(options.samples, int(name.removeprefix("mixed-")))
    return {"sleeping": _python_datasets.Sleeping, "tokens": _python_datasets.Tokens}[name](options.samples)


if __name__ == "__main__":
    main()
