"""torch's DataLoader and fastload's in turn, every run in its own process, their batches compared."""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._machine import describe_machine
from benchmarks._process_tree import cpu_seconds, own_pss_bytes, process_tree, unmapped_shared_bytes, wait_until_at_rest

LOADERS = ("torch", "fastload")
ALL_LOADERS = (*LOADERS, "threads", "processes")

Figures = dict[str, Any]
Rounds = dict[str, list[Figures]]

_PACKAGES = {"torch": "torch", "numpy": "numpy", "PIL": "pillow"}


class BatchesDiffer(Exception):
    """The loaders did not give the same batches: no figure is worth showing."""


# ---- in the program that is called -----------------------------------------------------------------------------------


def run_rounds(name: str, commands: Mapping[str, Sequence[str]], num_rounds: int) -> Rounds:
    """Runs one data set, the loaders taking turns, and returns its figures.

    Args:
        name: the name of the data set.
        commands: loader -> module and arguments of the child that prints the result of `measure`.
        num_rounds: rounds per loader.

    Raises:
        BatchesDiffer: as soon as two runs' batches do.
    """
    rounds: Rounds = {loader: [] for loader in commands}
    for _ in range(num_rounds):
        for loader, command in commands.items():
            rounds[loader].append(run_child(command))
        check_batches({name: rounds})
    return rounds


@contextlib.contextmanager
def pinned_to(cores: Sequence[int]) -> Iterator[None]:
    """Pins this thread, and processes that it starts, to these cores inside the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def check_batches(found: Mapping[str, Rounds]) -> None:
    """Raises BatchesDiffer if the loaders did not give the same batches."""
    for name, rounds in found.items():
        if len({one["sha256"] for figures in rounds.values() for one in figures}) != 1:
            raise BatchesDiffer(f"{name}: the batches differ: no figure is worth showing")


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """Returns the median of each figure that is a number."""
    names = [name for name, value in rounds[0].items() if isinstance(value, (int, float))]
    return {name: median(one[name] for one in rounds) for name in names}


def median_ratio(rounds: Rounds, loader: str, name: str) -> float:
    """Returns how many times torch's figure the loader's is: the median of the single rounds' ratios.

    Other work on the machine slows both loaders of a round.
    """
    pairs = zip(rounds[loader], rounds["torch"], strict=True)
    return float(median(mine[name] / other[name] for mine, other in pairs))


def form_of(rounds: Rounds) -> str:
    """Returns the form of the workers that fastload chose, by the number of the program's processes."""
    return "processes" if rounds["fastload"][0]["processes"] > 1 else "threads"


def new_loader(name: str, *arguments: Any, **keywords: Any) -> Any:
    """Returns a loader: torch's, fastload's as it is by default, or fastload's with the form of workers that is named.

    Args:
        name: one of ALL_LOADERS.
        arguments: the loader's arguments, with `keywords`.
    """
    import torch.utils.data

    import fastload

    if name == "torch":
        return torch.utils.data.DataLoader(*arguments, **keywords)
    if name != "fastload":
        keywords["workers"] = name
    return fastload.DataLoader(*arguments, **keywords)


def add_loaders(parser: argparse.ArgumentParser) -> None:
    """Adds the option that names the loaders beside torch's."""
    text = "fastload with the workers that it chooses, with threads, with processes (default: %(default)s)"
    parser.add_argument("--loaders", nargs="+", choices=ALL_LOADERS[1:], default=["fastload"], help=text)


def add_options(parser: argparse.ArgumentParser, children: Sequence[str], rounds: int, page: str) -> None:
    """Adds the options for data sets of images, whichever figures are taken of them.

    Args:
        children: the names of what is measured, each in a child.
        rounds: default number of rounds per loader.
        page: the page that shows the table.
    """
    add = parser.add_argument
    add("--cores", type=int, nargs="+", help="cores to pin to (default: the first)")
    add("--rounds", type=int, default=rounds, help="rounds of each loader; medians are shown (default: %(default)s)")
    add("--samples", type=int, help="samples in an epoch (default: each data set's own)")
    add("--batch-size", type=int, help="default: each data set's own")
    add("--data", type=Path, help="folder with one folder of images per class (default: a sample set made here)")
    add("--json", type=Path, help="write the figures to this file")
    add("--page", type=Path, metavar="JSON", help=f"only print the table of {page}, from such a file")
    add("--made", type=Path, help=argparse.SUPPRESS)
    add("--child", choices=children, help=argparse.SUPPRESS)


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def make_record(
    found: Mapping[str, Rounds],
    machine: Mapping[str, Any],
    settings: Mapping[str, Any],
    packages: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Returns the record for a JSON file.

    Args:
        machine: the result of `describe_machine` at the start.
        packages: key in the record -> distribution, for versions beside torch, NumPy and Pillow.
    """
    distributions = {**_PACKAGES, **(packages or {})}
    versions = {"python": sys.version.split()[0]}
    versions |= {name: metadata.version(distribution) for name, distribution in distributions.items()}
    at_the_end = describe_machine()["load_average_1_minute"]
    return {
        "machine": {**machine, "load_average_1_minute_at_the_end": at_the_end},
        "versions": versions,
        "settings": dict(settings),
        "rounds": dict(found),
    }


def run_child(command: Sequence[str]) -> Figures:
    # NumPy's matrix products run in one thread, so that both loaders have the processors for their workers.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    whole = [sys.executable, "-W", "ignore", "-m", *command]
    result = subprocess.run(whole, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    figures: Figures = json.loads(result.stdout)
    return figures


# ---- in a child ------------------------------------------------------------------------------------------------------


def measure(dataset: Any, loader: str, batch_size: int, workers: int, num_loaders: int = 1) -> Figures:
    """Runs a first epoch, with a checksum of its batches; a timed one; one that is left waiting.

    Args:
        loader: one of ALL_LOADERS.
        num_loaders: loaders over the data set, each with its workers, whose batches the program puts together.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    def num_samples_of(batch: Any) -> int:
        return sum(len(tree_leaves(part)[0]) for part in batch)

    torch.manual_seed(1)
    gc.collect()
    pid = os.getpid()
    idle_bytes = own_pss_bytes(pid)
    begin = time.perf_counter()
    loaders = [
        new_loader(
            loader,
            dataset,
            batch_size,
            shuffle=not isinstance(dataset, torch.utils.data.IterableDataset),
            num_workers=workers,
            persistent_workers=True,
        )
        for _ in range(num_loaders)
    ]
    batches = zip(*loaders, strict=True)
    batch: Any = next(batches)
    first_batch_seconds = time.perf_counter() - begin
    digest = hashlib.sha256()
    while batch is not None:
        add_batch(digest, batch)
        batch = next(batches, None)
    cpu_begin, begin = cpu_seconds(pid), time.perf_counter()
    num_samples = sum(num_samples_of(batch) for batch in zip(*loaders, strict=True))
    seconds, used = time.perf_counter() - begin, cpu_seconds(pid) - cpu_begin
    batch = next(zip(*loaders, strict=True))  # held, as a training step does
    wait_until_at_rest(pid)
    return {
        "workers": workers,
        "samples_per_second": num_samples / seconds,
        "cpu_ms_per_sample": 1000 * used / num_samples,
        "first_batch_seconds": first_batch_seconds,
        "added_mib": (own_pss_bytes(pid) + unmapped_shared_bytes(pid) - idle_bytes) / 2**20,
        "processes": len(process_tree(pid)),
        "sha256": digest.hexdigest(),
        **_counts(loaders),
    }


def add_batch(digest: Any, batch: Any) -> None:
    """Adds the tensors of `batch`, with their types and shapes, to a sum of `hashlib`."""
    from torch.utils._pytree import tree_leaves

    for tensor in tree_leaves(batch):
        digest.update(f"{type(tensor).__name__} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())


def _counts(loaders: Sequence[Any]) -> dict[str, float]:
    """Returns fastload's counts: images decoded, natively or not, and how often the GIL was held."""
    every = [loader.stats() for loader in loaders if hasattr(loader, "stats")]
    if not every or not hasattr(every[0], "images_opened"):
        return {}
    return {
        "images_decoded": sum(one.images_opened + one.samples_native + one.samples_fallback for one in every),
        "images_decoded_natively": sum(one.images_native + one.samples_native for one in every),
        "gil_held_share": every[0].gil_held_share,
    }
