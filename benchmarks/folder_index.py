"""The time of a start over a folder of many files: torchvision's scan, fastload's first start, and its second.

    python -m benchmarks.folder_index --files 1300000        # makes the files in a temporary folder, and removes them

Every start has its own process, and the data sets are compared before a figure is shown. The files are hard links to
one photograph per class, so that a first batch can be decoded. The system's caches are warm: nothing is dropped.
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
from pathlib import Path
from statistics import median
from typing import Any

from PIL import Image

from benchmarks._machine import describe_machine
from benchmarks._sample_set import PHOTO_FOLDER

_SIZE = (500, 375)
# fastload does not trust directories that changed less than a minute before they were listed.
_SETTLED_AFTER_SECONDS = 61
_BATCH_SIZE = 256
_STARTS = ("torchvision", "fastload, no index", "fastload, first start", "fastload, second start")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.folder_index", description=__doc__)
    parser.add_argument("--files", type=int, default=130_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3, help="starts of each kind; their median is shown")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="make the files below this folder")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--start", choices=_STARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start is not None:
        print(json.dumps(_measure(options.start, str(options.folder), options.workers)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="fastload-folder-index-") as folder:
        os.environ["FASTLOAD_CACHE"] = str(Path(folder, "cache"))
        begin = time.perf_counter()
        root = _make_files(Path(folder), options.files, options.classes)
        print(f"{options.files} files in {options.classes} classes made in {time.perf_counter() - begin:.0f} s")
        time.sleep(_SETTLED_AFTER_SECONDS)
        figures = {start: _rounds(start, root, options) for start in _STARTS}
    _show(figures)
    if options.json is not None:
        settings = {name: getattr(options, name) for name in ("files", "classes", "rounds", "workers")}
        report = {"machine": describe_machine(), "settings": settings, "starts": figures}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _make_files(folder: Path, num_files: int, num_classes: int) -> Path:
    """Makes files named as ImageNet's, each a link to its class's photograph: file systems limit links per file."""
    photo = folder / "photo.jpg"
    Image.open(PHOTO_FOLDER / "cat.jpg").resize(_SIZE).save(photo, quality=90)
    root = folder / "train"
    for label in range(num_classes):
        directory = root / f"n{label:08}"
        directory.mkdir(parents=True)
        names = [f"n{label:08}_{number}.JPEG" for number in range(label, num_files, num_classes)]
        (directory / names[0]).write_bytes(photo.read_bytes())
        for name in names[1:]:
            os.link(directory / names[0], directory / name)
    return root


def _rounds(start: str, root: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    rounds = []
    for _ in range(options.rounds):
        if start == "fastload, first start":
            for file in Path(os.environ["FASTLOAD_CACHE"]).glob("*.index"):
                file.unlink()
        command = [sys.executable, "-m", "benchmarks.folder_index", "--start", start, "--folder", str(root)]
        command += ["--workers", str(options.workers)]
        rounds.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return rounds


def _measure(start: str, root: str, workers: int) -> dict[str, Any]:
    """Measures one start, in this process: the data set, a loader over it, the first batch."""
    from benchmarks._torchvision import load_torchvision

    load_torchvision()
    from torchvision import datasets, transforms

    import fastload

    transform = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
    resident = _resident_bytes()
    cpu_begin = time.process_time()
    begin = time.perf_counter()
    if start == "torchvision":
        dataset = datasets.ImageFolder(root, transform)
    else:
        dataset = fastload.ImageFolder(root, transform, index="off" if start == "fastload, no index" else "auto")
    has_dataset = time.perf_counter()
    dataset_bytes = _resident_bytes() - resident
    loader = fastload.DataLoader(dataset, batch_size=_BATCH_SIZE, shuffle=True, num_workers=workers)
    batches = iter(loader)
    has_iterator = time.perf_counter()
    next(batches)
    has_batch = time.perf_counter()
    cpu_seconds = time.process_time() - cpu_begin
    samples = hashlib.sha256(repr([dataset.classes, list(dataset.samples), list(dataset.targets)]).encode("utf-8"))
    files = [file.stat().st_size for file in Path(os.environ["FASTLOAD_CACHE"]).glob("*.index")]
    return {
        "dataset_seconds": has_dataset - begin,
        "loader_seconds": has_iterator - has_dataset,
        "first_batch_seconds": has_batch - has_iterator,
        "total_seconds": has_batch - begin,
        "cpu_seconds": cpu_seconds,
        "dataset_bytes_per_sample": dataset_bytes / len(dataset),
        "index_file_bytes_per_sample": sum(files) / len(dataset),
        "samples_sha256": samples.hexdigest(),
    }


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _show(figures: dict[str, list[dict[str, Any]]]) -> None:
    digests = {one["samples_sha256"] for rounds in figures.values() for one in rounds}
    if len(digests) != 1:
        raise SystemExit("the data sets differ: no figure is worth showing")
    columns = {
        "data set s": "dataset_seconds",
        "loader s": "loader_seconds",
        "first batch s": "first_batch_seconds",
        "all s": "total_seconds",
        "all, CPU s": "cpu_seconds",
        "resident bytes/file": "dataset_bytes_per_sample",
        "index bytes/file": "index_file_bytes_per_sample",
    }
    print(f"{'':24}" + "".join(f"{name:>21}" for name in columns))
    for start, rounds in figures.items():
        medians = [median(one[key] for one in rounds) for key in columns.values()]
        print(f"{start:24}" + "".join(f"{value:21.3f}" for value in medians))


if __name__ == "__main__":
    main()
