"""The time of later epochs with an index of each JPEG file from the first one: cache="auto" against cache=None.

    python -m benchmarks.second_epoch                              # every case, every vector kernel table
    python -m benchmarks.second_epoch --cases train eval --rounds 9
    python -m benchmarks.second_epoch --page mine.json             # the table of docs/second-epoch.md

Linux. `python -m benchmarks --rows second_epoch` is the same. Each case with each kernel table has its own process,
with one worker, on one core. There the batches of three epochs are compared first: both loaders' and, in the first
epoch, torch's. If they differ the run ends with exit status 2 and no figure. Then, in each round, the index is
discarded and five epochs are timed, each with both loaders in turn and with the same order and crops, so that a ratio
compares the same work. torch's loader has an epoch in each round, too. The user's own data set runs in a thread: a
worker process, as it is by default, would start in each epoch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal, NamedTuple

from tabulate import tabulate

from benchmarks._machine import describe_machine
from benchmarks._process_tree import cpu_seconds
from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
from benchmarks._turns import (
    BatchesDiffer,
    Figures,
    Rounds,
    add_batch,
    add_options,
    make_record,
    pinned_to,
    run_rounds,
    write_record,
)

KERNEL_TABLES = ("avx512", "avx2", "scalar")
_EPOCHS = 5  # per round; the third and later ones know almost everything they need
_NUM_COMPARED = 3
_NUM_LISTED = 1_280_000  # ImageNet's files
_SETTLING_SECONDS = 62  # younger files have no records but indexes
_MUCH = 16 << 30
_LEVEL_RECORDS = 256  # after so many records their allowed size is decided


class Case(NamedTuple):
    """Images, and the work on them.

    Attributes:
        what: description for the table.
        mode: "train" or "eval".
        is_own: whether the data set opens files with Pillow, instead of an `ImageFolder`.
        lists_many: whether the data set lists its files again and again, as many as ImageNet has, so that each is
            allowed a short index only. The sampler still draws each file once.
        is_on_disk: whether records are kept in a `fastload.Cache`, instead of the process's memory.
        kept: records that are built there before the first epoch; "index": none.
        room: largest size of the store, as a multiple of the files' bytes; None: as much as it needs.
        is_progressive: whether the files are progressive ones, made from the others.
    """

    what: str
    mode: str
    is_own: bool = False
    lists_many: bool = False
    is_on_disk: bool = False
    kept: Literal["index", "coefficients", "pixels"] = "index"
    room: float | None = None
    is_progressive: bool = False


CASES = {
    "train": Case("training", "train"),
    "eval": Case("evaluation", "eval"),
    "own": Case("own list of files opened with Pillow, training", "train", is_own=True),
    "train-disk": Case("training, indexes on disk", "train", is_on_disk=True),
    "train-coefficients": Case("training, coefficients", "train", is_on_disk=True, kept="coefficients"),
    "eval-coefficients": Case("evaluation, coefficients", "eval", is_on_disk=True, kept="coefficients"),
    "half-coefficients": Case(
        "training, coefficients of half of the files", "train", is_on_disk=True, kept="coefficients", room=0.91
    ),
    "eval-pixels": Case("evaluation, pixels", "eval", is_on_disk=True, kept="pixels"),
    "progressive": Case(
        *("training, progressive files, coefficients", "train"),
        is_on_disk=True,
        kept="coefficients",
        is_progressive=True,
    ),
    "train-many": Case("training, one of 1.28 million files", "train", lists_many=True),
    "eval-many": Case("evaluation, one of 1.28 million files", "eval", lists_many=True),
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if options.page is not None:
        print(format_page(json.loads(options.page.read_text())["rounds"]))
        return 0
    if options.child is not None:
        return _run_as_child(options)
    machine = describe_machine()
    if options.data is None:
        options.data = ensure_sample_set(DEFAULT_FOLDER).root
    try:
        with pinned_to(options.cores or sorted(os.sched_getaffinity(0))[:1]):
            found = {name: _run_case(name, options) for name in options.cases}
    except BatchesDiffer as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:  # it has printed the reason
        return int(error.returncode)
    print(format_page(found))
    if options.json is not None:
        names = ("cases", "kernels", "cores", "rounds", "samples", "batch_size")
        settings = {name: getattr(options, name) for name in names}
        write_record(options.json, make_record(found, machine, settings, {"torchvision": "torchvision"}))
    return 0


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.second_epoch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="default: all")
    help_of_kernels = "kernel tables (default: the vector ones of this processor)"
    parser.add_argument("--kernels", nargs="+", choices=KERNEL_TABLES, help=help_of_kernels)
    add_options(parser, KERNEL_TABLES, rounds=5, page="docs/second-epoch.md")
    options = parser.parse_args(arguments)
    options.kernels = options.kernels or _vector_tables()
    options.samples = options.samples or 512
    options.batch_size = options.batch_size or 64
    return options


def _vector_tables() -> list[str]:
    import fastload

    available = fastload.build_info().kernel_tables
    return [table for table in available if table != "scalar"] or list(available)


def _run_case(name: str, options: argparse.Namespace) -> Rounds:
    """Returns kernel table -> the one report of its child, which has all rounds."""
    command = ["benchmarks.second_epoch", "--cases", name, "--rounds", str(options.rounds)]
    command += ["--samples", str(options.samples), "--batch-size", str(options.batch_size)]
    command += ["--data", str(options.data)]
    found = run_rounds(name, {table: [*command, "--child", table] for table in options.kernels}, 1)
    print(f"{name}: equal", flush=True)
    return found


# ---- the table -------------------------------------------------------------------------------------------------------


def format_page(found: Mapping[str, Rounds]) -> str:
    """Returns a line for each case and kernel table: medians of the rounds and of their ratios."""
    lines = []
    for name, tables in found.items():
        for table, (report,) in tables.items():
            rounds = report["rounds"]
            what = CASES[name].what if table == next(iter(tables)) else ""
            plain = median(mean(one["cpu_ms"] for one in figures["plain"]) for figures in rounds)
            lines.append(
                (
                    *(what, table, f"{plain:.3f}"),
                    *(_cell(rounds, epochs) for epochs in ((0,), (1,), range(2, _EPOCHS))),
                    _against_torch(rounds),
                    _index_size(report),
                )
            )
    headers = (
        *("", "kernels", "CPU ms/image without", "first epoch", "second", "from the third on"),
        *("these and torch + PIL", "kept of a file"),
    )
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


def speed_up(rounds: Sequence[Figures], epochs: Sequence[int], clock: str) -> float:
    """Returns how many times as fast the loader with an index is in these epochs: the median of the rounds' ratios."""

    def total(figures: Figures, loader: str) -> float:
        return sum(float(figures[loader][epoch][clock]) for epoch in epochs)

    return float(median(total(figures, "plain") / total(figures, "indexed") for figures in rounds))


def _cell(rounds: Sequence[Figures], epochs: Sequence[int]) -> str:
    by_clock, by_cpu = (speed_up(rounds, epochs, clock) for clock in ("ms", "cpu_ms"))
    return f"{by_clock:.2f}x / {by_cpu:.2f}x"


def _index_size(report: Figures) -> str:
    """Returns the record size per file, and its share of the file. Some kinds of files have no records."""
    index = report["index"]
    if not index["records"]:
        return "none"
    record_bytes = index["record_bytes"] / index["records"]
    return f"{record_bytes:.0f} B, {record_bytes * report['files'] / report['file_bytes']:.2%}"


def _against_torch(rounds: Sequence[Figures]) -> str:
    def times(clock: str) -> float:
        return float(
            median(figures["torch"][clock] / mean(one[clock] for one in figures["indexed"][2:]) for figures in rounds)
        )

    return f"{times('ms'):.1f}x / {times('cpu_ms'):.1f}x"


# ---- in a child ------------------------------------------------------------------------------------------------------


def _run_as_child(options: argparse.Namespace) -> int:
    os.environ["FASTLOAD_SIMD"] = options.child  # before fastload is imported
    (name,) = options.cases
    try:
        print(json.dumps(measure(CASES[name], options)))
    except BatchesDiffer as error:
        print(f"error: {name}, {options.child}: {error}", file=sys.stderr)
        return 2
    return 0


def measure(case: Case, options: argparse.Namespace) -> Figures:
    """Compares the loaders, then times them.

    Raises:
        BatchesDiffer: their batches do.
    """
    import torch.utils.data

    import fastload
    from fastload import _native

    dataset = _make_dataset(case, options)
    files = min(options.samples, len(dataset))

    def loader(loader_class: Any, **arguments: Any) -> Any:
        is_random = case.mode == "train"
        sampler = torch.utils.data.SubsetRandomSampler(range(files)) if is_random else range(files)
        return loader_class(dataset, options.batch_size, sampler=sampler, num_workers=1, **arguments)

    # Its process is forked before there is a thread.
    theirs = loader(torch.utils.data.DataLoader, persistent_workers=True)
    expected = _digest(theirs, epoch=0)
    plain = loader(fastload.DataLoader, workers="threads", cache=None)
    indexed = loader(fastload.DataLoader, workers="threads")
    file_bytes = sum(path.stat().st_size for path in _paths_of(dataset, files))
    max_bytes = _MUCH if case.room is None else max(1 << 20, round(case.room * file_bytes))
    with tempfile.TemporaryDirectory(prefix="fastload-second-epoch-") as scratch:

        def know_nothing() -> Any:
            """Returns the loader, whose next epoch is like the first: records are built, indexes are not."""
            _native.clear_index_memory()
            if case.is_on_disk:
                indexed.cache = fastload.Cache(tempfile.mkdtemp(dir=scratch), max_bytes, what=case.kept)
            if case.kept != "index":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # of the files for which there is no room
                    indexed.cache.fill(indexed, progress=False)
            return indexed

        if case.lists_many:
            _settle_level(know_nothing, files)
        _compare(plain, know_nothing(), expected)
        rounds = [_time_round(theirs, plain, know_nothing(), number) for number in range(options.rounds)]
        stats = indexed.stats()
        built_bytes = 0
        if case.kept != "index":
            built_bytes = sum(path.stat().st_size for path in indexed.cache.path.glob(f"v1/{case.kept}-*.dat"))
    index = {"records": stats.cache_records, "record_bytes": stats.cache_bytes_written + built_bytes}
    counters = ("cache_hits", "cache_coefficient_hits", "cache_pixel_hits", "cache_misses", "cache_mismatches")
    return {
        "sha256": expected,
        "kernels": fastload.build_info().active_kernel_table,
        "rounds": rounds,
        "index": index if case.is_on_disk else dict(_native.index_memory()),
        **{name: getattr(stats, name) for name in counters},
        "files": files,
        "file_bytes": file_bytes,
    }


def _make_dataset(case: Case, options: argparse.Namespace) -> Any:
    from benchmarks._protocol import LoaderSettings
    from benchmarks._python_datasets import jpeg_files
    from benchmarks._user_datasets import ListOfFiles, spread, train_transform
    from benchmarks.contenders._torch_common import image_folder, pil_transform

    if case.is_own:
        return ListOfFiles(spread(jpeg_files(options.data), options.samples), train_transform())
    folder = _progressive_copy(options.data) if case.is_progressive else options.data
    settings = LoaderSettings(str(folder), case.mode, options.batch_size, 1, options.samples)
    dataset = image_folder(settings, pil_transform(case.mode))
    if case.lists_many:
        dataset.samples = dataset.imgs = dataset.samples * -(-_NUM_LISTED // len(dataset.samples))
        dataset.targets = [label for _, label in dataset.samples]
    return dataset


def _progressive_copy(folder: Path) -> Path:
    """Returns a folder beside it, made once, with progressive files of about the same size, at least a minute old."""
    from PIL import Image

    copy = folder.with_name(folder.name + "-progressive")
    if copy.exists():
        return copy
    begun = copy.with_name(copy.name + ".begun")
    for path in sorted(folder.rglob("*.*")):
        if path.suffix.lower() in (".jpg", ".jpeg"):
            target = begun / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            with Image.open(path) as image:
                image.save(target, quality="keep", progressive=True)
    time.sleep(_SETTLING_SECONDS)
    return begun.rename(copy)


def _paths_of(dataset: Any, count: int) -> list[Path]:
    """Returns the paths of the first samples."""
    listed = dataset.paths[:count] if hasattr(dataset, "paths") else [path for path, _ in dataset.samples[:count]]
    return [Path(path) for path in listed]


def _settle_level(know_nothing: Callable[[], Any], files: int) -> None:
    """Makes so many records that the allowed size of this data set's records is known."""
    for _ in range(2 * _LEVEL_RECORDS // files + 1):
        for _ in know_nothing():
            pass


def _compare(plain: Any, indexed: Any, expected: str) -> None:
    for epoch in range(_NUM_COMPARED):
        found = {_digest(loader, epoch) for loader in (plain, indexed)}
        if len(found) != 1 or (epoch == 0 and expected not in found):
            raise BatchesDiffer(f"the batches of epoch {epoch} differ: no figure is worth showing")


def _time_round(theirs: Any, plain: Any, indexed: Any, number: int) -> Figures:
    """Returns milliseconds per image, of processor time and by the clock."""
    figures: Figures = {"plain": [], "indexed": []}
    subjects = {"plain": plain, "indexed": indexed}
    for epoch in range(_EPOCHS):
        names = list(subjects) if (number + epoch) % 2 else list(reversed(subjects))
        for name in names:
            figures[name].append(_time_epoch(subjects[name], number * _EPOCHS + epoch, time.process_time))
    figures["torch"] = _time_epoch(theirs, number, lambda: cpu_seconds(os.getpid()))
    return figures


def _time_epoch(loader: Any, seed: int, processor_seconds: Callable[[], float]) -> dict[str, float]:
    import torch

    torch.manual_seed(seed)
    cpu_begin, begin = processor_seconds(), time.perf_counter()
    count = sum(len(labels) for _, labels in loader)
    seconds, cpu = time.perf_counter() - begin, processor_seconds() - cpu_begin
    return {"ms": 1000 * seconds / count, "cpu_ms": 1000 * cpu / count}


def _digest(loader: Any, epoch: int) -> str:
    import torch

    torch.manual_seed(epoch)
    digest = hashlib.sha256()
    for batch in loader:
        add_batch(digest, batch)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
